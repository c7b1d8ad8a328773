"""Reports of a run while it trains."""

import json

import keras
from tensorboard.plugins.hparams import api as hparams

from keras_headattn._files import write_atomically
from keras_headattn.training import Compilations, GradientNorm, Resume, Throughput, TimeLimit


def make_callbacks(config, run, batches, validation):
    """Throughput, saving, TensorBoard: in the order in which they read each other's logs."""
    callbacks = [Throughput(lambda: len(batches) * batches.batch_size, "images_per_second")]
    if config.gradient_norm:
        callbacks.append(GradientNorm())
    callbacks.append(SaveHistory(run))
    # What writes to TensorBoard is not to be remembered: a run's folder may be moved.
    log_dir = str(run.folder / "tensorboard")
    settings = {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, (int, float, str)) and name not in ("run", "export")
    }
    shown = [
        TellOfDamaged(run, [batches, validation]),
        Compilations(),
        keras.callbacks.TensorBoard(log_dir, write_graph=False, profile_batch=config.profile_steps or 0),
        hparams.KerasCallback(log_dir, settings, trial_id=config.run),
    ]
    # Nor is what ends training: the same command, with more time, goes on.
    ends = [TimeLimit(60 * config.time_limit)] if config.time_limit else []
    return [Resume(run.checkpoints, batches, callbacks, every=config.save_steps), *shown, *ends]


class SaveHistory(keras.callbacks.Callback):
    """Keeps the logs of all epochs in the run's `history.json`.

    Args:
        run: `Run`.
    """

    def __init__(self, run):
        super().__init__()
        self.run = run

    def on_epoch_end(self, epoch, logs=None):
        history = [*self.run.history()[:epoch], {name: float(value) for name, value in (logs or {}).items()}]
        write_atomically(self.run.folder / "history.json", json.dumps(history, indent=1).encode())


class TellOfDamaged(keras.callbacks.Callback):
    """Counts the images that could not be read, after each epoch, and names them in the run's `damaged.txt`.

    Args:
        run: `Run`.
        batches: list of `ImageBatches`.
    """

    def __init__(self, run, batches):
        super().__init__()
        self.run = run
        self.batches = batches

    def on_epoch_end(self, epoch, logs=None):
        tell_of_damaged(self.run.folder / "damaged.txt", *self.batches)


def tell_of_damaged(path, *batches):
    """Writes a file of images that could not be read, if there are more than the file has, and prints their number.

    Args:
        path: path of a text file: a name, a tab, and what is wrong.
        batches: `ImageBatches`.
    """
    known = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {f"{name}\t{fault}": None for each in batches for name, fault in each.damaged.items()}
    new = [line for line in found if line not in set(known)]
    if not new:
        return
    write_atomically(path, "".join(f"{line}\n" for line in [*known, *new]).encode())
    shown = ", ".join(line.replace("\t", " (") + ")" for line in new[:3])
    others = f" and {len(new) - 3} others" if len(new) > 3 else ""
    print(f"\n{len(known) + len(new)} damaged images or files are skipped, named in {path}: {shown}{others}")
