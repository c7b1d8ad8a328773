"""The folder of a run: settings, checkpoints, results."""

import json
import pathlib
import shutil
import tempfile
from dataclasses import fields

from keras_headattn._files import atomic_path
from recipes.engine.config import load_config, save_config


class Run:
    """Names and keeps the files of a run. A run begins with its first checkpoint.

    Args:
        folder: its path.
        recipe: `recipes.engine.recipe.Recipe`.

    A run leaves these files, and those that its recipe names:

    | file | |
    |---|---|
    | `config.json` | the recipe and its settings |
    | `checkpoints/epoch-00012-batch-00001000.npz` | all of the state of training, by `Resume` |
    | `checkpoints/epoch-012.weights.h5` | weights after an epoch |
    | `model.keras` | the finished model |
    | `tensorboard/`, `history.json`, `results/` | what to look at |
    """

    files = ("config.json", "checkpoints", "history.json", "model.keras", "results", "tensorboard")

    def __init__(self, folder, recipe):
        self.folder = pathlib.Path(folder)
        self.recipe = recipe
        self.checkpoints = self.folder / "checkpoints"
        self.model = self.folder / "model.keras"
        self.results = self.folder / "results"
        self.log_dir = str(self.folder / "tensorboard")

    def check(self, config):
        """Checks that a run with these settings may start or continue here.

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
        save_config(config, self.folder / "config.json", self.recipe.name)

    def clear(self):
        """Removes the run's files, and nothing else from the folder."""
        for name in (*self.files, *self.recipe.files):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def _differences(self, config):
        path = self.folder / "config.json"
        old = self.config() if path.exists() else config
        return [
            f"{field.name}={getattr(old, field.name)!r} (now {getattr(config, field.name)!r})"
            for field in fields(config)
            if not field.metadata["changeable"] and getattr(old, field.name) != getattr(config, field.name)
        ]

    def config(self):
        """The settings of a run that has been started."""
        path = self.folder / "config.json"
        if not path.exists():
            raise ValueError(f"There is no run in {self.folder}: it has no config.json. Train one first.")
        return load_config(self.recipe.settings, path, self.recipe.name)

    def load_model(self):
        """The finished model."""
        import keras

        import keras_headattn  # noqa: F401  (known to load_model)

        if not self.model.exists():
            raise ValueError(f"The run in {self.folder} has no finished model. Continue it: same command as before.")
        return keras.saving.load_model(self.model)

    def history(self):
        """List of the logs of all epochs done."""
        path = self.folder / "history.json"
        return json.loads(path.read_text()) if path.exists() else []

    def scores(self):
        """The scores of a finished run: dictionary from test set to measure to number or `None`."""
        found = {}
        for path in sorted(self.results.glob("*/scores.json")):
            scores = json.loads(path.read_text(encoding="utf-8"))
            found[path.parent.name] = {
                name: score["value"] if isinstance(score, dict) else score for name, score in scores.items()
            }
        return found

    def has_checkpoint(self):
        """Whether there is one beyond that of the very beginning."""
        return any("-00000-batch-00000000" not in path.name for path in self.checkpoints.glob("epoch-*.npz"))

    def save_model(self, model, path):
        """Writes a model or, for `.weights.h5`, its weights, in full or not at all."""
        with atomic_path(path) as temporary:
            (model.save_weights if path.name.endswith(".weights.h5") else model.save)(temporary)


def try_folder(name, folder):
    """Makes a folder if need be, and checks that files can be written to it.

    Args:
        name: str, the option that gives it.
        folder: path.

    Raises:
        OSError: if it cannot be made or written to.
    """
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{name} must be a folder that can be written to: {reason}. Received: {folder}") from None
