"""The folder of a run of sentence classification."""

from keras_headattn._files import read_lines, write_atomically
from recipes.engine import run
from recipes.sentences.settings import ClassifyConfig
from recipes.sentences.text import FILES


class Run(run.Run):
    """A run's folder that holds, besides the usual files:

    | file | |
    |---|---|
    | `labels.txt` | names of the labels, in the order of their numbers |
    | `vocabulary.txt` or `vocabulary.model` | the words, or the SentencePiece model |
    | `checkpoints/epoch-012.weights.h5` | weights after an epoch |
    """

    config_class = ClassifyConfig
    # How long, on what, and what is done at the end.
    may_change = (
        "epochs", "patience", "time_limit", "save_steps", "strategy", "replicas", "xla", "steps_per_execution",
        "test_splits", "sample_texts", "gradient_norm", "profile_steps", "run", "export",
    )  # fmt: skip
    own_files = ("labels.txt", *FILES.values())

    def save_labels(self, names):
        """Writes `labels.txt`."""
        write_atomically(self.folder / "labels.txt", "".join(f"{name}\n" for name in names).encode("utf-8"))

    def labels(self):
        """Names of the labels: list of str."""
        return list(read_lines(self.folder / "labels.txt"))
