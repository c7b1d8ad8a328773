"""Images that could not be read."""

import keras

from keras_headattn._files import write_atomically


class ReportDamaged(keras.callbacks.Callback):
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
        report_damaged(self.run.folder / "damaged.txt", *self.batches)


def report_damaged(path, *batches):
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
