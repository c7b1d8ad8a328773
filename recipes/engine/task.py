"""A recipe: what it alone knows. The engine does what all recipes do alike, see `recipes.engine.training`."""

import dataclasses
import pathlib
import re

from keras_headattn.training import Model, default_jit
from recipes.engine.fingerprint import fingerprint


@dataclasses.dataclass(frozen=True)
class Corpora:
    """Training, validation and named test sets. There is no training set here where it is read from elsewhere."""

    train: object
    validation: object
    tests: dict


def named_files(files, ending, size=1):
    r"""Returns the files of test sets by name, `size` of them a set, in this order; two sets of one name are an error.

    A set is named after its first file, without `.gz` and then what matches the pattern `ending`.

    >>> named_files(["data/test.en.gz", "data/test.de.gz"], "[.][a-z]+", 2)
    {'test': ['data/test.en.gz', 'data/test.de.gz']}
    """
    if len(files) % size:
        raise ValueError(f"--test takes {size} files a test set. Received: {' '.join(files)}")
    return named_sets([list(files[begin : begin + size]) for begin in range(0, len(files), size)], ending)


CACHED = "sacrebleu:"  # begins the name of a test set in sacreBLEU's cache


def is_cached(file):
    """True for the name of a test set in sacreBLEU's cache, such as `sacrebleu:wmt14/full`, in place of a file."""
    return str(file).startswith(CACHED)


def named_sets(sets, ending):
    """Names test sets, lists of files, as `named_files` does."""
    found = {}
    for files in sets:
        name = re.sub(f"(?:{ending})$", "", pathlib.Path(files[0]).name.removesuffix(".gz"))
        if name in found:
            raise ValueError(
                f"Test sets are told apart by the names of their files. Received: {found[name][0]} and {files[0]}"
            )
        found[name] = files
    return found


def named_apart(tests, names):
    """Returns test sets of other files by names that are not those of the run's own.

    >>> named_apart({"test": 1, "other": 2}, ["test"])
    {'test-2': 1, 'other': 2}
    """
    return {f"{name}-2" if name in names else name: test for name, test in tests.items()}


def check_batch_size(batch_size, num_replicas):
    """Checks that a batch can be split evenly over the replicas."""
    if batch_size % num_replicas:
        raise ValueError(f"--batch-size must be a multiple of the {num_replicas} replicas. Received: {batch_size}")


class Task:
    """Task of a recipe with its settings, in the folder of a run.

    A recipe has a subclass. The engine calls its methods in the order in which they stand here, as
    docs/own_recipe.md shows.

    Args:
        config: the settings.
        run: `Run`.
    """

    details = ()  # names of logs that only history and TensorBoard show

    def __init__(self, config, run):
        self.config = config
        self.run = run
        self.data = None

    def check(self):
        """Checks what can be checked before data are read: that attention can be made, say."""

    def try_model(self):
        """Makes a model, thrown away, if that takes no data, so that wrong `model_arguments` are reported early."""

    def load(self):
        """Reads the data to `self.data`, `Corpora`."""
        raise NotImplementedError

    def fingerprint(self):
        """Sizes and checksums of the data that were loaded, as `recipes.engine.fingerprint` makes them."""
        return fingerprint(self.data)

    def prepare(self):
        """Learns from `self.data` what the run's folder lacks, a vocabulary say, and loads the rest."""

    def make_batches(self, num_replicas):
        """Training and validation batches. Each has `dataset()` and `summary()`, and training batches `epoch`."""
        raise NotImplementedError

    def make_model(self):
        """Returns the model that is saved, new. The engine calls it under the strategy's scope."""
        raise NotImplementedError

    def make_trainer(self, model):
        """Returns the model that is trained, around that which is saved."""
        return Model(model.inputs, model.outputs, name="trainer")

    def warmup(self, steps):
        """Returns the steps in which the learning rate rises, for so many steps an epoch."""
        return 0

    def make_optimizer(self, steps, num_replicas):
        """Returns the optimizer for so many steps an epoch."""
        raise NotImplementedError

    def make_loss(self):
        """Returns the loss."""
        raise NotImplementedError

    def make_metrics(self):
        """Returns a list of metrics, weighted as the loss is."""
        return []

    def uses_xla(self):
        """True if XLA compiles training where the settings leave that open."""
        return default_jit()

    def begin(self, model):
        """Gives a new model what it does not begin with by itself, such as word vectors."""

    def adapted(self, model):
        """Returns the part of the model that `--lora-rank` adapts: the encoder, if it has one below a head."""
        return getattr(model, "encoder", model)

    def throughput(self, batches):
        """Returns a function of the number of things in an epoch, and the name of their number a second in the logs."""
        raise NotImplementedError

    def reports(self, model, batches):
        """Further callbacks, whose memory a resumed run has."""
        return []

    def scores(self, model):
        """Returns callbacks that score the model after an epoch, in which all workers take part."""
        return []

    def shown(self, model, batches, validation):
        """Returns callbacks without memory, of the first worker alone, which no other worker waits for."""
        return []

    def load_tests(self, files=None):
        """Returns the test sets of a finished run, or those in other files: dictionary by name."""
        raise NotImplementedError

    def evaluate(self, model, tests):
        """Scores the finished model on test sets, prints the scores, and writes them to `run.results`."""
        raise NotImplementedError

    def flops(self, model):
        """Returns the operations of the model on one example of a size that papers count with; `None`: not counted."""
        return None

    def export(self, model, *folders):
        """Writes a numbered version into each of these folders, which stand for `config.export_folders`, and tries it.

        The engine shows them where they belong, once they are complete.
        """
        raise NotImplementedError

    def next_commands(self):
        """Commands that a user may give next, which are printed when the run has finished."""
        return []
