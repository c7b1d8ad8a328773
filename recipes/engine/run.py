"""The folder of a run: settings, checkpoints, results, and the lock of the process that works in it."""

import contextlib
import fcntl
import json
import os
import pathlib
import secrets
import shutil
import tempfile
from dataclasses import fields

import keras

from keras_headattn._files import atomic_path, read_json, remove_halves, sync, write_atomically
from keras_headattn.utils import save_weights
from recipes.engine.config import flag, load_config, save_config
from recipes.engine.data import named_apart

_CLEARING = ".clearing"  # config.json while a run is being removed
_LOCK = ".lock"


class Run:
    """Folder of a run, by its path and its `Recipe`. A run begins with its first checkpoint.

    It has these files, and those that its recipe names:

    | file | |
    |---|---|
    | `data.json` | sizes and checksums of the data that it is trained on |
    | `config.json` | the recipe and its settings |
    | `checkpoints/epoch-00012-batch-00001000.npz` | all of the state of training, by `Resume` |
    | `checkpoints/epoch-012.weights.h5` | weights after an epoch |
    | `model.keras` | the finished model |
    | `pruned.keras` | the model that training begins with, if `prune` made it of another run's |
    | `tensorboard/`, `history.json`, `results/` | what to look at |
    | `loggers.json`, `wandb/` | of `--loggers`: the runs' names at other services, and files of Weights & Biases |
    | `finished.json` | what was scored and exported, and after how many epochs |
    """

    files = (
        "data.json",
        "checkpoints",
        "history.json",
        "model.keras",
        "pruned.keras",
        "results",
        "tensorboard",
        "finished.json",
        "loggers.json",
        "wandb",
    )

    def __init__(self, folder, recipe):
        self.folder = pathlib.Path(folder)
        self.recipe = recipe
        self.checkpoints = self.folder / "checkpoints"
        self.model = self.folder / "model.keras"
        self.pruned = self.folder / "pruned.keras"
        self.results = self.folder / "results"
        self.log_dir = str(self.folder / "tensorboard")
        self._earlier, self._has_begun = None, False

    def check(self, config):
        """Checks that no trained run with other settings is in the folder."""
        different = self._differences(config)
        if different and self.is_trained():
            why = " The learning rate here falls until the last of --epochs." if "epochs" in different else ""
            raise ValueError(
                f"{self.folder} holds a run with other settings. Give these, or another --run, or remove the folder."
                f"{why} Received: {', '.join(different.values())}"
            )

    def check_data(self, data):
        """Checks that a trained run was begun with these data, as `fingerprint` describes them.

        Others might have its test examples among those to train on.
        """
        known = self._known_data() if self.is_trained() else {}
        for name in sorted(data.keys() & known.keys()):
            if data[name] != known[name]:
                config = self.read_config()
                value = getattr(config, config.data)
                files = f" of {flag(config.data)} {' '.join(value) if isinstance(value, tuple) else value}"
                raise ValueError(
                    "The data of this run have changed. Give those that it was begun with, or another --run. Received: "
                    f"{name} data{files}: {_size(data[name], known[name], self.recipe.unit)}, in {self.folder}"
                )

    def start(self, config, data=None):
        """Makes the folder. What a run with other settings or data left before its first checkpoint is removed.

        The settings of a trained run stay as they are until `save_config`. `data` is as of `check_data`.
        """
        if self.is_trained():
            return
        data, known = data or {}, self._known_data()
        if self._differences(config) or any(data[name] != known[name] for name in data.keys() & known.keys()):
            self.clear()
        if (self.folder / _CLEARING).exists():
            self.clear()
        self.claim_data(data)
        self.save_config(config)

    def save_config(self, config):
        """Writes the settings."""
        save_config(config, self.folder / "config.json", self.recipe.name)

    def claim_data(self, data):
        """Notes the data of a new run. Those of a trained run must be the same: see `check_data`."""
        self.check_data(data)
        known = self._known_data()
        if not self.is_trained() and known | data != known:
            write_atomically(self.folder / "data.json", (json.dumps(known | data, indent=1) + "\n").encode())

    def keep(self, name, content):
        """Writes a file that the model depends on, such as names of classes; a trained run must have the same."""
        path, data = self.folder / name, content.encode("utf-8")
        if path.exists() and path.read_bytes() == data:
            return
        if path.exists() and self.is_trained():
            raise ValueError(
                f"The data give another {name} than the run was begun with. Give the data of the run, or another "
                f"--run. Received: {path}"
            )
        write_atomically(path, data)

    def is_trained(self):
        """True if the run in the folder has a checkpoint, a finished model or results."""
        has_begun = (self.folder / "config.json").exists()
        return has_begun and (self.has_checkpoint() or self.model.exists() or self.results.exists())

    @contextlib.contextmanager
    def starting(self, folders=()):
        """Context of a start. An error before training leaves the folder as it was, and none of `folders` if empty."""
        is_new, missing = not self.is_trained(), [folder for folder in folders if not os.path.exists(folder)]
        try:
            yield
        except BaseException as error:
            may_go_on = not isinstance(error, Exception) or isinstance(error, OSError)
            if self._earlier:
                self.clear()
                for path in self._earlier.iterdir():
                    os.rename(path, self.folder / path.name)
                self._earlier.rmdir()
            elif is_new and not (self._has_begun or may_go_on or "records" in self._names()):
                self.clear()
            for folder in missing:
                with contextlib.suppress(OSError):  # it is not there, or has a version
                    os.rmdir(folder)
            raise

    def _names(self):
        return {path.name for path in self.folder.iterdir()}

    def set_aside(self):
        """Moves the run's files out of the way until `begin`; see `starting`."""
        paths = [self.folder / name for name in ("config.json", *self.files, *self.recipe.files)]
        if paths := [path for path in paths if path.exists()]:
            self._earlier = self.folder / f".earlier.{secrets.token_hex(4)}"
            self._earlier.mkdir()
            for path in paths:
                os.rename(path, self._earlier / path.name)

    def begin(self):
        """Notes that training begins: what was set aside is removed."""
        self._has_begun = True
        if self._earlier:
            shutil.rmtree(self._earlier)
            self._earlier = None

    def clear(self):
        """Removes the run's files, and nothing else from the folder. If it is killed, `start` finishes the work."""
        config, note = self.folder / "config.json", self.folder / _CLEARING
        paths = [self.folder / name for name in (*self.files, *self.recipe.files)]
        if config.exists():
            os.replace(config, note)
        elif any(path.exists() for path in paths):
            note.touch()
        elif not note.exists():
            return
        sync(self.folder)
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        note.unlink()

    def remove_halves(self):
        """Removes files that a killed process has begun to write."""
        for folder in (self.folder, self.checkpoints, *self.results.glob("*")):
            remove_halves(folder)

    def num_examples(self):
        """Returns the number of training examples; `None` if it is not known."""
        return self._known_data().get("training", {}).get("examples")

    def _known_data(self):
        path = self.folder / "data.json"
        return read_json(path) if path.exists() else {}

    def _differences(self, config):
        path = self.folder / "config.json"
        old = self.read_config() if path.exists() else config
        then, now = _by_name(old), _by_name(config)
        return {
            name: f"{name}: the folder has {then.get(name)!r}, you gave {now.get(name)!r}"
            for name in then | now
            if then.get(name) != now.get(name)
        }

    def read_config(self):
        """Reads the settings of a run that has been started."""
        path = self.folder / "config.json"
        if not path.exists():
            raise ValueError(
                f"There is no run in the folder, which has no config.json. Train one first. Received: {self.folder}"
            )
        return load_config(self.recipe.settings, path, self.recipe.name)

    def name_results(self, config, tests, names, files=None, of_files=()):
        """Names test sets of other files, or of other values of settings, apart from the run's own.

        The settings are `names`, and `of_files`, which say how files are read, for the run's own files.
        """
        if files is None:
            names = *names, *of_files
        else:
            tests = named_apart(tests, self.read_config().names_of_tests)
        then, now = ({name: getattr(settings, name) for name in names} for settings in (self.read_config(), config))
        for arguments in [name for name in names if isinstance(now[name], dict)]:
            then |= then.pop(arguments)
            now |= now.pop(arguments)
        changed = {name: value for name, value in now.items() if value != then[name]}
        suffix = "".join(f",{name}={value}" for name, value in changed.items()).replace("/", "_")
        return {name + suffix: test for name, test in tests.items()}

    def check_finished(self):
        """Checks that there is a finished model."""
        if not self.model.exists():
            raise ValueError(
                f"The run has no finished model. Continue it by the command that began it. Received: {self.folder}"
            )

    def load_model(self):
        """Loads the finished model."""
        self.check_finished()
        return _load(self.model)

    def load_pruned(self):
        """Loads the model of another run, pruned, that training begins with; `None` if there is none."""
        return _load(self.pruned) if self.pruned.exists() else None

    def finished(self):
        """Reads what was done after training: a dictionary of `"epochs"`, `"scores"` and `"export"`."""
        path = self.folder / "finished.json"
        return read_json(path) if path.exists() else {}

    def note_finished(self, notes):
        """Adds to what was done after training; `None` removes a note. `"epochs"` starts the notes anew."""
        known = {} if "epochs" in notes else self.finished()
        kept = {name: note for name, note in (known | notes).items() if note is not None}
        write_atomically(self.folder / "finished.json", (json.dumps(kept, indent=1) + "\n").encode())

    def history(self):
        """Reads the logs of all finished epochs: list of dictionaries."""
        path = self.folder / "history.json"
        history = read_json(path) if path.exists() else []
        if not isinstance(history, list) or not all(isinstance(logs, dict) for logs in history):
            raise ValueError(f"A history must be a list of objects, one an epoch. Received: {path}")
        return history

    def scores(self):
        """Reads the scores of a finished run: dictionary from test set to measure to number or `None`."""
        scores_by_test = {}
        for path in sorted(self.results.glob("*/scores.json")):
            scores = read_json(path)
            if not isinstance(scores, dict):
                raise ValueError(f"Scores must be a JSON object. Received: {path}")
            scores_by_test[path.parent.name] = {
                name: score["value"] if isinstance(score, dict) else score for name, score in scores.items()
            }
        return scores_by_test

    def add_scores(self, name, scores):
        """Writes the scores of a test set: dictionary from measure to number or `None`."""
        write_atomically(self.results / name / "scores.json", json.dumps(scores, indent=1, default=float).encode())

    def has_checkpoint(self):
        """True if there is a checkpoint beyond that of the very beginning."""
        return any("-00000-batch-00000000" not in path.name for path in self.checkpoints.glob("epoch-*.npz"))

    def save_model(self, model, path):
        """Writes a model or, for `.weights.h5`, its weights, in full or not at all."""
        if path.name.endswith(".weights.h5"):
            save_weights(model, path)
            return
        with atomic_path(path) as temporary:
            model.save(temporary)


def _load(path):
    return keras.saving.load_model(path)


def try_folder(name, folder, leave=True):
    """Makes a folder, if it is to be left, and checks that files can be written to it; `name` is the option of it."""
    try:
        folder = pathlib.Path(folder)
        if leave:
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=next(path for path in (folder, *folder.absolute().parents) if path.exists())):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{name} must be a folder that can be written to. Received: {folder} ({reason})") from None


def _size(now, then, unit):
    if now["examples"] != then["examples"]:
        return f"{now['examples']:,} {unit} in place of {then['examples']:,}"
    return f"as many {unit}, {now['examples']:,}, which are not the same"


def _by_name(config):
    """Returns the settings that a run must keep, and each argument of those that are dictionaries, by name."""
    kept = {field.name: getattr(config, field.name) for field in fields(config) if not field.metadata["changeable"]}
    arguments = {
        f"{name}.{key}": part for name, value in kept.items() if isinstance(value, dict) for key, part in value.items()
    }
    return {name: value for name, value in kept.items() if not isinstance(value, dict)} | arguments


@contextlib.contextmanager
def locked(folder, message, is_new=False, wait=False):
    """Lets one process at a time into a block for a folder; `message` and `wait` are as of `lock`.

    The folder is made if need be, and keeps the empty file `.lock` as long as it has other files. With `is_new` it is
    removed if the block leaves nothing else in it.
    """
    folder = pathlib.Path(folder)
    file = _open_locked(folder, message, wait)
    try:
        yield
    finally:
        if is_new and folder.is_dir() and [path.name for path in folder.iterdir()] == [_LOCK]:
            (folder / _LOCK).unlink()
            with contextlib.suppress(OSError):  # another process may have started in it
                folder.rmdir()
        file.close()


def _open_locked(folder, message, wait):
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / _LOCK, "ab")  # noqa: SIM115
        try:
            lock(file, message, wait)
        except BaseException:
            file.close()
            raise
        if os.fstat(file.fileno()).st_nlink:  # 0: the previous holder removed the folder
            return file
        file.close()


def lock(file, message, wait=False):
    """Locks an open file until it is closed in this process and in all that inherited it.

    If another process has the lock, that is a `ValueError` with `message`; with `wait` the message is printed, and the
    process waits.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            raise ValueError(message) from None
        print(message, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass  # some network file systems have no locks
