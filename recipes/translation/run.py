"""The folder of a run: settings, vocabulary, checkpoints, results."""

import json
import os
import pathlib

import keras

import keras_headattn.models  # noqa: F401  (known to load_model)
from keras_headattn.files import write_atomically
from recipes.config import load_config, save_config
from recipes.translation.settings import TranslateConfig

# What may change when a run is continued: how long, on what, and what is done at the end.
MAY_CHANGE = (
    "epochs", "patience", "time_limit", "average", "replicas", "xla", "steps_per_execution",
    "beam_size", "alpha", "metrics", "embeddings", "sample_sentences", "images", "run", "export",
)  # fmt: skip


class Run:
    """Names and keeps the files of a run.

    | file | |
    |---|---|
    | `config.json` | the settings |
    | `vocabulary.model` (or `source.model`, `target.model`) | SentencePiece |
    | `checkpoints/last.keras`, `checkpoints/state.json` | where training stands, with the optimizer |
    | `checkpoints/epoch-012.weights.h5` | weights after an epoch |
    | `model.keras` | the finished model |
    | `tensorboard/`, `history.json`, `results/` | what to look at |
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.checkpoints = self.folder / "checkpoints"
        self.model = self.folder / "model.keras"
        self.results = self.folder / "results"

    def check(self, config):
        """Whether a run with these settings may start or continue here.

        Raises:
            ValueError: for a folder of a run with other settings.
        """
        path = self.folder / "config.json"
        if not path.exists():
            return
        old = load_config(TranslateConfig, path)
        different = [
            f"{name}={getattr(old, name)!r} (now {getattr(config, name)!r})"
            for name in vars(old)
            if name not in MAY_CHANGE and getattr(old, name) != getattr(config, name)
        ]
        if different:
            raise ValueError(
                f"{self.folder} holds a run with other settings: {', '.join(different)}. Give another --run, or "
                "remove the folder."
            )

    def start(self, config):
        """Makes the folder."""
        save_config(config, self.folder / "config.json")

    def config(self):
        """The settings of a run that has been started."""
        path = self.folder / "config.json"
        if not path.exists():
            raise ValueError(f"There is no run in {self.folder}: it has no config.json. Train one first.")
        return load_config(TranslateConfig, path)

    def load_model(self):
        """The finished model."""
        if not self.model.exists():
            raise ValueError(f"The run in {self.folder} has no finished model. Continue it: same command as before.")
        return keras.saving.load_model(self.model)

    def state(self):
        """`{"epoch": epochs done, "history": list of logs}`."""
        path = self.checkpoints / "state.json"
        return json.loads(path.read_text()) if path.exists() else {"epoch": 0, "history": []}

    def save_model(self, model, path):
        """Writes a model or, for `.weights.h5`, its weights, in full or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".new.{path.name}")
        (model.save_weights if path.name.endswith(".weights.h5") else model.save)(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)


class SaveEpochs(keras.callbacks.Callback):
    """Saves after each epoch, so that the same command continues there, and keeps weights for the end.

    Args:
        run: `Run`.
        model: what the weights are of; the trainer is saved as a whole besides.
        keep: how many of the last epochs' weights to keep. The best one is always kept.
    """

    def __init__(self, run, model, keep):
        super().__init__()
        self.run = run
        self.trained = model
        self.keep = keep
        self.state = run.state()

    def on_epoch_end(self, epoch, logs=None):
        logs = {name: float(value) for name, value in (logs or {}).items()}
        self.state = {"epoch": epoch + 1, "history": [*self.state["history"][:epoch], logs]}
        self.run.save_model(self.trained, weights_of(self.run, epoch + 1))
        self.run.save_model(self.model, self.run.checkpoints / "last.keras")
        text = json.dumps(self.state, indent=1)
        write_atomically(self.run.checkpoints / "state.json", text.encode())
        write_atomically(self.run.folder / "history.json", json.dumps(self.state["history"], indent=1).encode())
        kept = {best_epoch(self.state["history"]), *range(epoch + 2 - self.keep, epoch + 2)}
        for path in self.run.checkpoints.glob("epoch-*.weights.h5"):
            if path not in {weights_of(self.run, number) for number in kept}:
                path.unlink()


def weights_of(run, epoch):
    """File of the weights after `epoch` (1 = the first)."""
    return run.checkpoints / f"epoch-{epoch:03d}.weights.h5"


def best_epoch(history):
    """The epoch (1 = the first) with the lowest validation loss."""
    return 1 + min(range(len(history)), key=lambda i: history[i]["val_loss"])


def finish(run, model, average):
    """Gives `model` its final weights and saves it: the mean of the last `average` epochs', or the best epoch's."""
    state = run.state()
    if average == 1:
        epochs = [best_epoch(state["history"])]
    else:
        epochs = range(max(1, state["epoch"] - average + 1), state["epoch"] + 1)
    total = None
    for epoch in epochs:
        model.load_weights(weights_of(run, epoch))
        weights = model.get_weights()
        total = weights if total is None else [a + b for a, b in zip(total, weights, strict=True)]
    model.set_weights([array / len(epochs) for array in total])
    run.save_model(model, run.model)
    return list(epochs)
