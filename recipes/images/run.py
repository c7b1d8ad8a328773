"""The folder of a run of image classification."""

import pathlib

from keras_headattn._files import write_atomically
from recipes.engine import run
from recipes.images.settings import ImageNetConfig


class Run(run.Run):
    """A run's folder that holds, besides the usual files:

    | file | |
    |---|---|
    | `classes.txt` | names of the classes, in the order of their labels |
    | `damaged.txt` | images that could not be read, and why |
    """

    config_class = ImageNetConfig
    # How long, on what, and what is done at the end. More replicas would change what is trained.
    may_change = (
        "epochs", "time_limit", "save_steps", "xla", "sample_images", "gradient_norm", "profile_steps", "run", "export",
    )  # fmt: skip
    own_files = ("classes.txt", "damaged.txt")

    def save_class_names(self, class_names):
        """Writes `classes.txt`."""
        write_atomically(self.folder / "classes.txt", "".join(f"{name}\n" for name in class_names).encode())

    def class_names(self):
        """Names of the classes: list of str."""
        return pathlib.Path(self.folder / "classes.txt").read_text(encoding="utf-8").splitlines()
