"""Settings that recipes share. A recipe's own settings inherit them."""

import pathlib
import types
from dataclasses import fields, replace

import keras

from keras_headattn._files import check_local
from keras_headattn.layers import ATTENTIONS
from keras_headattn.optimizers import Repulsive
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius
from recipes.engine.config import (
    PATHS,
    check_passed_on,
    check_ranges,
    default_of,
    flag,
    option,
    override,
    passed_on,
    settings,
    takers,
)

VALIDATION_SHARE = 0.1  # of --train, where nothing is said
ATTENTION = "attention layer, whose name says how its heads work together (docs/layers.md)"
REGULARIZERS = {"frobenius": Frobenius, "disagreement": Disagreement, "cosine": CosineSimilarity}


@settings()
class Heads:
    """The attention, and what keeps its heads apart."""

    title = "attention"

    attention: str = option("multi_head", ATTENTION, tuple(ATTENTIONS))
    attention_arguments: dict = option({}, "arguments of the attention layer, by name: alpha=0.1 kernel_size=5")
    num_heads: int | None = option(
        None, "number of attention heads; none: the default of the layer or model", at_least=1
    )
    attention_regularizer: str = option(
        "none",
        "loss that keeps heads apart; frobenius: Lin et al. 2017; disagreement: Li et al. 2018; cosine: of parameters",
        ("none", *REGULARIZERS),
    )
    attention_regularizer_arguments: dict = option(
        {},
        "arguments of the regularizer, explained by its class in keras_headattn.regularizers, such as weight=0.3",
        of={name: [cls] for name, cls in REGULARIZERS.items()},
    )
    repulsive: str = option(
        "none", "sampler that treats heads as particles which repel each other", ("none", "svgd", "spos", "sgld")
    )
    repulsive_arguments: dict = option(
        {},
        "arguments of the sampler, explained by keras_headattn.optimizers.Repulsive, such as repulsive_weight=0.1",
        of=[Repulsive],
    )

    def unused(self, given):
        names = [name for name in ("repulsive", "attention_regularizer") if getattr(self, name) == "none"]
        return {f"{name}_arguments": f"is for {flag(name)}" for name in names}


def changeable(*kinds):
    """Returns the names of the settings of these classes with which a run may go on that began with others."""
    return {field.name for kind in kinds for field in fields(kind) if field.metadata["changeable"]}


def model_arguments(*models, **defaults):
    """Returns the setting of the arguments of these classes; `defaults` are its own."""
    return option(defaults, "arguments of the model, such as dropout=0.1", of=models)


def optimizer_arguments(of, **defaults):
    """Returns the setting of the arguments of an optimizer; takes what `option` does."""
    return option(
        defaults, "arguments of the optimizer, such as global_clipnorm=1.0 or gradient_accumulation_steps=4", of=of
    )


@settings()
class Training:
    """Length and speed of training, and the epochs that the finished model is made of."""

    title = "training"

    epochs: int = option(20, "largest number of passes over the data", changeable=True, at_least=1)
    patience: int | None = option(
        5,
        "number of epochs without a better validation after which training stops; none: never",
        changeable=True,
        at_least=1,
    )
    select: str = option("val_loss", "measure by which epochs are compared", ("val_loss", "val_accuracy"))
    average: int = option(1, "number of epochs whose weights are averaged at the end", at_least=1)
    average_of: str = option("best", "epochs that are averaged: the best, or the last", ("best", "last"))
    time_limit: float | None = option(
        None,
        "time limit in minutes: no epoch starts that would end later",
        changeable=True,
        above=0,
    )
    learning_rate: float = option(1e-3, "highest learning rate", above=0)
    optimizer_arguments: dict = optimizer_arguments([keras.optimizers.Adam])
    seed: int = option(0, "random seed", at_least=0)

    @property
    def batches_per_update(self):
        """Batches whose gradients the optimizer accumulates."""
        return self.optimizer_arguments.get("gradient_accumulation_steps") or 1


@settings()
class Smoothing:
    """Label smoothing."""

    title = "training"

    label_smoothing: float = option(0.0, "share of each label that is spread over all classes", at_least=0, below=1)


@settings()
class Devices:
    """The devices, and how they are used."""

    title = "devices"

    precision: str = option("float32", "dtype policy", ("float32", "mixed_float16", "mixed_bfloat16"))
    strategy: str = option(
        "mirrored",
        "devices to train on: those of this machine, or of all workers that the environment names, see "
        "docs/distributed.md",
        ("mirrored", "multi_worker"),
        changeable=True,
    )
    replicas: int | None = option(
        None,
        "number of replicas; none: one on each GPU, else one; without GPUs they share the CPU",
        changeable=True,
        at_least=1,
    )
    compile_arguments: dict = option(
        {"jit_compile": None, "steps_per_execution": 1},
        "arguments of Keras's `compile`: steps_per_execution=8, or jit_compile=true for XLA (none: where it is faster)",
        changeable=True,
    )
    xla_cache: str | None = option(
        None,
        "folder of compiled training steps, which later runs on this machine reuse",
        changeable=True,
        metavar="FOLDER",
    )

    def check(self):
        if (steps := self.compile_arguments["steps_per_execution"]) is not None and steps < 1:
            raise ValueError(f"`steps_per_execution` must be at least 1. Received: steps_per_execution={steps}")


@settings()
class Output:
    """The files that a run leaves."""

    title = "output"

    samples: int = option(5, "number of examples to try the SavedModel on at the end", changeable=True, at_least=0)
    callback_arguments: dict = option(
        {"save_steps": 1000, "gradient_norm": False, "profile_steps": ()},
        "options of callbacks; save_steps=1000: steps between checkpoints, none: after each epoch alone; "
        "gradient_norm=true: the gradient's norm in TensorBoard; profile_steps=10,20: first and last step to profile",
        changeable=True,
    )
    loggers: tuple[str, ...] = option(
        (),
        "further services to log to: Weights & Biases, MLflow, see docs/loggers.md",
        ("wandb", "mlflow"),
        changeable=True,
    )
    quiet: bool = option(False, "print nothing but results", changeable=True)
    run: str = option("runs/mine", "folder of the run", changeable=True, metavar="FOLDER")
    export: str | None = option(
        "saved_models/{run}",
        "folder that gets a new numbered version of the SavedModel; {run}: the name of the run's folder; none: no "
        "SavedModel",
        changeable=True,
        metavar="FOLDER",
    )

    def check(self):
        if (steps := self.callback_arguments["save_steps"]) is not None and steps < 1:
            raise ValueError(f"`save_steps` must be at least 1. Received: save_steps={steps}")
        steps = self.callback_arguments["profile_steps"] or (1, 1)
        if not (isinstance(steps, tuple) and len(steps) == 2 and 0 < steps[0] <= steps[1]):
            raise ValueError(
                f"--callback-arguments profile_steps takes a first and a last step, from 1. Received: {steps}"
            )


@settings()
class Serving:
    """Signatures of SavedModels of text."""

    title = "serving"

    export_arguments: dict = option(
        {"attention": True, "cpu_only": False},
        "options of SavedModels; attention=true: add a signature that returns attention maps; cpu_only=true: for "
        "servers "
        "without GPU, faster there",
        changeable=True,
    )


@settings()
class Settings(Heads, Training, Devices, Output):
    """All settings that every recipe has.

    A subclass names in `SOURCES` its settings that say what to train on, in `MOST_USED` those that `--help` lists
    first, in `SIZE_OPTIONS` those that make the model smaller (`"model_arguments.num_layers"`, say), in `PRETRAINED`
    those that give it trained weights, in `EXPORTED` what the names of its folders of SavedModels end with, and in
    `without_effect` those that have no effect beside the others, which TensorBoard leaves out.

    Each class may have `check(self)`, which raises a `ValueError` for settings that do not go together, and
    `unused(self, given)`, which returns a dictionary from settings that have no effect to the reason, the end of an
    error that begins with the option. `given` are the settings of a command line; `test`, files to score on, is among
    them. Those of all classes are called, from the most basic one to the recipe's.
    """

    SOURCES = ()
    MOST_USED = ("attention", "epochs", "learning_rate", "run")
    SIZE_OPTIONS = ()
    PRETRAINED = ()
    EXPORTED = ("",)  # what the names of the folders of SavedModels end with
    without_effect = ()

    def __post_init__(self):
        self._check_paths()
        object.__setattr__(self, "run", str(pathlib.Path(self.run)))  # runs/mine/ is runs/mine
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), dict):
                object.__setattr__(self, field.name, default_of(field) | value)
        check_ranges(self)
        check_passed_on(self)
        self.source  # noqa: B018  (an error if there are several)
        for check in self._of_groups("check"):
            check(self)

    def _check_paths(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.metadata["metavar"] in PATHS and value:
                for path in value if isinstance(value, tuple) else (value,):
                    check_local(flag(field.name), path)

    def refuse_unused(self, given):
        """Checks that each setting in the dictionary `given` has an effect."""
        reasons = {}
        for unused in self._of_groups("unused"):
            reasons |= unused(self, given)
        for name, reason in reasons.items():
            if name in given:
                raise ValueError(f"{flag(name)} {reason}. Received: {name}={given[name]!r}")

    def _of_groups(self, name):
        """Yields the method of this name of each class that has one, whatever the order of bases."""
        for group in reversed(type(self).__mro__):
            if name in vars(group):
                yield vars(group)[name]

    @property
    def data(self):
        """Name of the setting that names the data: one of `SOURCES`, if there are any. None is a `ValueError`."""
        if self.SOURCES and self.source is None:
            raise ValueError(
                f"There is nothing to train on. Give {' or '.join(map(flag, self.SOURCES))}. Received: none of them"
            )
        return self.source

    @property
    def source(self):
        """Name of the setting that names the data; `None` without one. Two are a `ValueError`."""
        sources = [name for name in self.SOURCES if getattr(self, name)]
        if len(sources) > 1:
            received = ", ".join(f"{name}={getattr(self, name)!r}" for name in sources)
            raise ValueError(f"Give one of {', '.join(map(flag, self.SOURCES))}. Received: {received}")
        return sources[0] if sources else None

    def changed(self, given):
        """Returns these settings with others in their place, a dictionary, checked as by `override`.

        Other data take the place of these. Another attention, say, has none of the arguments of this one.
        """
        if given.keys() & set(self.SOURCES):
            names = {*self.SOURCES, *self.of_data}
            given = {field.name: field.default for field in fields(self) if field.name in names} | given
        return override(replace(self, **dict.fromkeys(self._of_others(given), {})), given)

    of_data = ("validation", "test")  # settings that other data do without

    def _of_others(self, given):
        """Yields names of dictionaries of arguments whose constructor is another with other settings."""
        for name in self.names_of_attention():
            now = getattr(self, name) or self.attention
            if (given.get(name, getattr(self, name)) or given.get("attention", self.attention)) != now:
                yield f"{name}_arguments"
        after = {**vars(self), **given}
        for field in fields(self):
            before = takers(self, field)
            if before and takers(types.SimpleNamespace(**after), field) not in (before, ()):
                yield field.name

    @property
    def attention_shape(self):
        """Width of all heads of `attention` together, and their number if neither settings nor layer give one."""
        return 64 * (self.num_heads or 4), 4

    def names_of_attention(self):
        """Returns the names of the settings that name an attention: `"attention"` and those of single roles."""
        names = [field.name.removesuffix("_arguments") for field in fields(self) if field.name.endswith("_arguments")]
        return [name for name in names if name.endswith("attention")]

    @property
    def model_defaults(self):
        """Defaults of the arguments that the model's constructor takes, by name."""
        (field,) = (field for field in fields(self) if field.name == "model_arguments")
        return passed_on(takers(self, field))

    def model_argument(self, name):
        """Returns an argument of the model: that of the settings, or the default of its constructor."""
        value = self.model_arguments.get(name)
        return self.model_defaults.get(name) if value is None else value

    @property
    def shape(self):
        """Arguments of the model that a named size stands for."""
        return {}

    @property
    def description(self):
        """The model in a few words."""
        return f"{self.attention} attention"

    @property
    def export_folder(self):
        """The folder of SavedModels; `None` for none."""
        return self.export and self.export.replace("{run}", pathlib.Path(self.run).name)

    @property
    def export_folders(self):
        """The folders of SavedModels, of which a recipe may write several kinds."""
        return [f"{self.export_folder}{suffix}" for suffix in self.EXPORTED] if self.export else []


def check_encoding(encoding):
    """Checks that Python knows an encoding of text."""
    try:
        "a".encode(encoding)
    except (LookupError, ValueError):
        raise ValueError(f"--encoding must be one that Python knows. Received: {encoding}") from None


def share_of(validation, alternative):
    """Returns the share that `--validation` gives; `None` if it names `alternative`."""
    try:
        share = float(validation)
    except ValueError:
        return None
    if not 0 < share < 1:
        raise ValueError(f"--validation must be {alternative}, or a share between 0 and 1. Received: {validation}")
    return share


class NamedSizes:
    """Shape of a model: a named size of `SIZES`, and what overrides it. It is a base before `Settings`."""

    @property
    def attention_shape(self):
        """Width of the model and its number of heads, unless the settings name another."""
        return self.shape["hidden_dim"], self.shape["num_heads"]

    @property
    def shape(self):
        """The named size with what overrides it, as arguments of the model."""
        overrides = self.model_arguments | {"num_heads": self.num_heads}
        return {name: overrides.get(name) or value for name, value in self.SIZES[self.size].items()}


@settings()
class Files:
    """Files of examples, or data made by code."""

    title = "data"

    train: tuple[str, ...] = option((), "files to train on, .gz too", metavar="FILE")
    validation: tuple[str, ...] = option((), "files for validation, or a share of --train, such as 0.1", metavar="FILE")
    test: tuple[str, ...] = option(
        (), "files to score the model on, each a test set named after it", changeable=True, metavar="FILE"
    )
    built_in: bool = option(False, "train on synthetic data, made by code")

    def check(self):
        for name in ("validation", "test"):
            is_open = name == "validation" and self.validation_share and self.source is None
            if getattr(self, name) and not self.train and not is_open:
                received = {setting: getattr(self, setting) for setting in (name, *self.SOURCES)}
                received = ", ".join(f"{setting}={value!r}" for setting, value in received.items() if value)
                raise ValueError(f"--{name} needs --train. Received: {received}, without --train")

    @property
    def validation_share(self):
        """Share of --train for validation; `None` if there are files, or nothing is said."""
        return share_of(*self.validation, "files") if len(self.validation) == 1 else None

    @property
    def validation_files(self):
        """Files for validation."""
        return () if self.validation_share else self.validation

    @property
    def of_data(self):
        return ("test",) if self.validation_share else super().of_data

    def unused(self, given):
        sources = [name for name in self.SOURCES if name != "train" and "test" in given]
        reasons = dict.fromkeys(sources, "and --test name test sets: give one of them")
        if self.test or self.source != "train":
            reasons["test_share"] = "is that of --train to take where there is no --test"
        return reasons


@settings()
class TextFiles(Files):
    """Texts of files, of TensorFlow Datasets, or made by code."""

    title = "data"

    tfds: str | None = option(None, "name in TensorFlow Datasets, in place of files", metavar="NAME")
    splits: dict = option(
        {"train": "train", "validation": "validation", "test": ("test",)},
        "splits of TensorFlow Datasets, where there are no files: validation=dev test=test_a,test_b",
        changeable=True,
    )

    SPLIT = ("tfds",)  # sources that have splits

    @property
    def test_splits(self):
        """Names of the splits to test on."""
        names = self.splits["test"]
        return names if isinstance(names, tuple) else (names,)

    def unused(self, given):
        if "test" not in given and self.source in self.SPLIT:
            return {}
        return {"splits": f"is only for data by {' or '.join(map(flag, self.SPLIT))}, not for files"}


@settings()
class Examples:
    """The examples that are used, and their batches."""

    title = "data"

    split_seed: int = option(0, "random seed of the choice of shares and of --max-examples")
    max_examples: int | None = option(None, "largest number of examples of each set, drawn at random", at_least=1)
    batch_size: int = option(32, "examples in a batch, over all replicas", at_least=1)
    num_buckets: int = option(
        6, "largest number of lengths to which batches are padded; XLA compiles once for each", at_least=1
    )
