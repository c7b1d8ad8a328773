"""The folder of a run of any recipe: settings, checkpoints, results."""

import json
import pathlib
import shutil

import keras

import keras_headattn.models  # noqa: F401  (known to load_model)
from keras_headattn._files import atomic_path
from recipes.engine.config import load_config, save_config


class Run:
    """Names and keeps the files of a run. A run begins with its first checkpoint.

    A recipe's own class has `config_class`, `may_change` (the settings that may change when a run is continued: how
    long, on what, and what is done at the end) and `own_files` (names of the files that it leaves besides these):

    | file | |
    |---|---|
    | `config.json` | the settings |
    | `checkpoints/epoch-00012-batch-00001000.npz` | all of the state of training, by `Resume` |
    | `model.keras` | the finished model |
    | `tensorboard/`, `history.json`, `results/` | what to look at |
    """

    config_class = None
    may_change = ()
    own_files = ()
    files = ("config.json", "checkpoints", "history.json", "model.keras", "results", "tensorboard")

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
        different = self._differences(config)
        trained = self.has_checkpoint() or self.model.exists() or self.results.exists()
        if different and trained:
            raise ValueError(
                f"{self.folder} holds a run with other settings: {', '.join(different)}. Give another --run, or "
                "remove the folder."
            )

    def start(self, config):
        """Makes the folder. What a run with other settings left before its first checkpoint is removed."""
        if self._differences(config):
            self.clear()
        save_config(config, self.folder / "config.json")

    def clear(self):
        """Removes the run's files, and nothing else from the folder."""
        for name in (*self.files, *self.own_files):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _differences(self, config):
        path = self.folder / "config.json"
        old = load_config(self.config_class, path) if path.exists() else config
        return [
            f"{name}={getattr(old, name)!r} (now {getattr(config, name)!r})"
            for name in vars(old)
            if name not in self.may_change and getattr(old, name) != getattr(config, name)
        ]

    def config(self):
        """The settings of a run that has been started."""
        path = self.folder / "config.json"
        if not path.exists():
            raise ValueError(f"There is no run in {self.folder}: it has no config.json. Train one first.")
        return load_config(self.config_class, path)

    def load_model(self):
        """The finished model."""
        if not self.model.exists():
            raise ValueError(f"The run in {self.folder} has no finished model. Continue it: same command as before.")
        return keras.saving.load_model(self.model)

    def history(self):
        """List of the logs of all epochs done."""
        path = self.folder / "history.json"
        return json.loads(path.read_text()) if path.exists() else []

    def has_checkpoint(self):
        """Whether there is one beyond that of the very beginning."""
        return any("-00000-batch-00000000" not in path.name for path in self.checkpoints.glob("epoch-*.npz"))

    def save_model(self, model, path):
        """Writes a model or, for `.weights.h5`, its weights, in full or not at all."""
        with atomic_path(path) as temporary:
            (model.save_weights if path.name.endswith(".weights.h5") else model.save)(temporary)
