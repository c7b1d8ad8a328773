"""The settings of fine-tuning a pre-trained encoder on texts or pairs of texts."""

from keras_headattn.models import EncoderClassifier
from recipes.engine.config import option, settings
from recipes.engine.data import named_files
from recipes.engine.encoder_settings import Encoder, FineTuning, head_arguments
from recipes.engine.encoders import model_type
from recipes.engine.number_words import LANGUAGES
from recipes.engine.settings import Settings, Smoothing
from recipes.engine.texts.settings import COLUMNS, Texts
from recipes.glue.glue_tasks import MEASURES, TASKS

# Of the synthetic data: labels, measures, and True for pairs.
NUMBER_TASKS = {
    "acceptability": (("0", "1"), ("mcc",), False),
    "paraphrase": (("0", "1"), ("f1",), True),
    "similarity": ((), ("pearson",), True),
    "language": (tuple(sorted(LANGUAGES.values())), ("accuracy",), False),
}


@settings(predict=option("class", "what a text of your own has: a class or a number", ("class", "number")))
class Data(Texts):
    """The task, and where its texts are."""

    title = "data"

    task: str | None = option(
        None,
        "GLUE task, in whose format --train and other files then are; or a task of the synthetic data, "
        f"{', '.join(NUMBER_TASKS)}; none: texts of your own",
        (*TASKS, *NUMBER_TASKS),
    )
    glue: str | None = option(
        None, "folder of GLUE as it is distributed, or of the task, in place of --train", metavar="FOLDER"
    )
    train_examples: int | None = option(None, "number of examples to train on, drawn at random", at_least=1)
    swap_pairs: bool = option(False, "train on each pair twice, the second time with its texts swapped")
    score: tuple[str, ...] = option(
        (), "measures whose mean, times 100, is the score; none: the task's, else accuracy or pearson", MEASURES
    )


@settings()
class Model(Encoder):
    """The encoder and its head."""

    decoder_attention: str = option(
        "same", "attention of T5's decoder: that of --attention, or T5's own", ("same", "own")
    )
    # `head_dim` is the width of a layer in place of the pooler, 2000 in Wang et al. 2021, appendix A.2
    model_arguments: dict = head_arguments(EncoderClassifier)


@settings(
    select=option("val_score", "which epochs are better", ("val_loss", "val_accuracy", "val_score")),
    run="runs/glue",
)
class GlueConfig(Data, Model, FineTuning, Smoothing):
    """Every setting of a run. Other values, of papers and of the synthetic tasks, are in the folder `configs`."""

    title = "training"
    SOURCES = ("train", "glue", "tfds", "built_in")
    MOST_USED = (
        "task", "glue", "train", "validation", "test", "text_column", "label_column", "checkpoint",
        "batch_size", *Settings.MOST_USED,
    )  # fmt: skip

    pretraining_epochs: int = option(
        0, "passes over the synthetic sentences with masked words, before the task is learned", at_least=0
    )
    pretraining_rate: float = option(1e-3, "highest learning rate of --pretraining-epochs", above=0)

    def check(self):
        if self.built_in and self.task is None:
            object.__setattr__(self, "task", next(iter(NUMBER_TASKS)))
        if self.tfds and self.tfds.removeprefix("glue/") in TASKS and "/" in self.tfds:
            named = self.tfds.removeprefix("glue/")
            if self.task not in (None, named):
                raise ValueError(f"--tfds names the task. Received: tfds={self.tfds!r}, task={self.task!r}")
            object.__setattr__(self, "task", named)
        if self.source and self.built_in != (self.task in NUMBER_TASKS):
            raise ValueError(
                f"The tasks of the synthetic data are {', '.join(NUMBER_TASKS)}. "
                f"Received: task={self.task}, {self.source}={getattr(self, self.source)!r}"
            )
        if self.glue and self.task is None:
            raise ValueError(f"--glue needs --task, one of {', '.join(TASKS)}. Received: glue={self.glue!r}")
        if self.task is not None and self.labels:
            raise ValueError(f"A task has labels of its own. Received: task={self.task!r}, labels={self.labels}")
        if self.pretraining_epochs and not self.built_in:
            raise ValueError(
                f"--pretraining-epochs needs --built-in. Received: {self.pretraining_epochs}, built_in=False"
            )

        if self.swap_pairs and not self.is_pair:
            raise ValueError(f"--swap-pairs needs pairs of texts. Received: task={self.task}, swap_pairs=True")
        if self.predicts == "number" and self.select == "val_accuracy":
            raise ValueError(f"Numbers have no accuracy: take val_score or val_loss. Received: select={self.select!r}")
        if self.tfds and self.task in TASKS and self.tfds != f"glue/{self.task}":
            raise ValueError(f"--tfds of a task of GLUE is glue/TASK. Received: tfds={self.tfds!r}, task={self.task!r}")
        if self.class_weights != "none" and self.predicts == "number":
            raise ValueError(f"--class-weights needs classes. Received: task={self.task}, predict={self.predict!r}")

    def changed(self, given):
        """Returns these settings with others in their place; a checkpoint also takes the place of pre-training."""
        return super().changed(({"pretraining_epochs": 0} if given.get("checkpoint") else {}) | given)

    def unused(self, given):
        reasons = {}
        if self.glue_task:
            of_own = ("format", "header", "delimiter", *COLUMNS, "predict", "test_share")
            reasons |= dict.fromkeys(of_own, f"is only for texts of your own, not for --task {self.task}")
            reasons["splits"] = "is only for texts of your own, not for GLUE"
        elif self.task:
            reasons["predict"] = f"is only for texts of your own, not for --task {self.task}"
        if self.predicts == "number" and not (self.checkpoint and "t5" in model_type(self.checkpoint)):
            reasons["label_smoothing"] = "is for classes, not for numbers"
        return reasons

    @property
    def begins_pretrained(self):
        """True for synthetic sentences with pre-training, too."""
        return super().begins_pretrained or self.pretraining_epochs > 0

    @property
    def is_pair(self):
        """True if pairs of texts are read."""
        if self.task is None:
            return super().is_pair
        return self.glue_task.is_pair if self.glue_task else NUMBER_TASKS[self.task][2]

    @property
    def names_of_tests(self):
        """Names of the test sets."""
        if self.glue_task is None:
            return super().names_of_tests
        return (list(named_files(self.test, r"[.]tsv")) or ["dev"]) if self.data == "train" else self.glue_task.splits

    @property
    def tests_are_shares(self):
        """True if the test sets may be a part of the training set."""
        if self.glue:
            return self.task == "mrpc"
        return super().tests_are_shares and not (self.glue_task and self.validation_files)

    @property
    def fields(self):
        """Names of the one or two texts of an example."""
        columns = (self.text_column, self.second_column or "second_text")[: 2 if self.is_pair else 1]
        return self.glue_task.fields if self.glue_task else columns

    @property
    def predicts(self):
        """The target of a text: "class" or "number"."""
        if self.task is None:
            return self.predict
        return "class" if self.task_labels else "number"

    @property
    def task_labels(self):
        """The labels of the task, () for numbers; `None` for texts of one's own."""
        if self.task is None:
            return None
        return self.glue_task.labels if self.glue_task else NUMBER_TASKS[self.task][0]

    @property
    def measures(self):
        """Names of the measures whose mean is the score."""
        if self.score:
            return self.score
        if self.task is None:
            return ("pearson",) if self.predict == "number" else ("accuracy",)
        return self.glue_task.measures if self.glue_task else NUMBER_TASKS[self.task][1]

    @property
    def glue_task(self):
        """The `GlueTask`; `None` for other texts."""
        return TASKS.get(self.task)
