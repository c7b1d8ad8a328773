"""The settings of answering questions about texts."""

from keras_headattn.models import SpanAnswerer
from recipes.engine.config import option, settings
from recipes.engine.data import named_files
from recipes.engine.encoder_settings import FineTuning, head_arguments
from recipes.engine.settings import Examples, Settings, TextFiles


@settings(
    train=option((), "files of SQuAD 1.1 or 2.0 to train on, .json", metavar="FILE"),
    validation=option((), "files for validation, or a share of --train; none: 0.1", metavar="FILE"),
    test=option(
        (), "files to test on, each a test set named after it; none: validation", changeable=True, metavar="FILE"
    ),
    tfds=option(None, "TensorFlow Datasets name, such as squad/v2.0, in place of files", metavar="NAME"),
    splits={"train": "train", "validation": "validation", "test": ("validation",)},
)
class Data(TextFiles, Examples):
    """The questions, and which of them are used."""

    title = "data"

    @property
    def names_of_tests(self):
        """Names of the test sets."""
        if self.data == "tfds":
            return self.test_splits
        return list(named_files(self.test, "[.]json")) or ["test" if self.built_in else "dev"]


@settings()
class Windows:
    """How a question and its context are read."""

    title = "model"

    stride: int = option(128, "word pieces between the beginnings of two windows of the context", at_least=1)
    max_question_length: int = option(
        64, "largest number of word pieces of a question, which is cut after them", at_least=1
    )
    max_answer_length: int = option(30, "largest number of word pieces of an answer", changeable=True, at_least=1)
    model_arguments: dict = head_arguments(SpanAnswerer)


@settings(
    epochs=option(2, "passes over the data; the learning rate is 0 after the last one", at_least=1),
    learning_rate=3e-5,
    max_length=option(384, "pieces of a window, those of the question and three special ones among them", at_least=8),
    export_arguments=option(
        {"cpu_only": False, "top": 1},
        "of SavedModels; top=3: how many answers; cpu_only=true: for servers without GPU, faster there",
        changeable=True,
    ),
    run="runs/answer",
)
class AnswerConfig(Data, Windows, FineTuning):
    """Every setting of a run. Other values, of papers and of the synthetic task, are in the folder `configs`.

    The defaults are those of BERT's program for SQuAD (Devlin et al. 2019, section 4.2), with a batch of 32.
    """

    title = "training"
    SOURCES = ("train", "tfds", "built_in")
    MOST_USED = ("train", "validation", "test", "checkpoint", "batch_size", *Settings.MOST_USED)

    def check(self):
        if self.max_length <= self.max_question_length + 4:
            raise ValueError(
                "--max-length must leave room for a context beside a question and four special pieces. "
                f"Received: max_length={self.max_length}, max_question_length={self.max_question_length}"
            )
