"""The tasks of GLUE: files, columns, labels, measures, and the words that T5 writes.

Source: Wang et al. 2019, "GLUE: A multi-task benchmark and analysis platform for natural language understanding"; the
texts of T5: Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text transformer",
appendix D.
"""

import dataclasses
import math

OF_CLASSES = ("accuracy", "f1", "f1_macro", "mcc")
OF_NUMBERS = ("pearson", "spearman")
MEASURES = (*OF_CLASSES, *OF_NUMBERS)
OTHER = "(other text)"  # stands for any text of T5's that is no label


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Task of GLUE.

    Args:
        name: str, in tensorflow-datasets, and of `--task`.
        folder: str, of its files.
        fields: tuple of the names of its one or two texts.
        columns: tuples of the columns of its texts in its files, from 0: of training and validation, of tests.
        label_column: int, -1 for the last.
        num_columns: of a file without a header; `None`: all files have one.
        labels: tuple of str as in the files, in order; () for numbers.
        words: tuple of str, the labels as words.
        measures: tuple of names of the measures whose mean is its score.
        splits: dictionary of the file of a validation set to its name in tensorflow-datasets.
        tests: dictionary of the file of a test set to its name there, its name in a submission and its rows.
    """

    name: str
    folder: str
    fields: tuple
    columns: tuple
    label_column: int
    labels: tuple
    words: tuple
    measures: tuple
    tests: dict
    splits: dict = dataclasses.field(default_factory=lambda: {"dev": "validation"})
    num_columns: int | None = None

    def columns_of(self, split):
        """Returns the columns of its texts in the file of a split, from 0."""
        if split == "ax":
            return 1, 2
        return self.columns[split in self.tests]

    @property
    def is_pair(self):
        """True if it is on pairs of texts."""
        return len(self.fields) == 2

    @property
    def kind(self):
        """The kind of prediction: `"class"` or `"number"`."""
        return "class" if self.labels else "number"

    def target(self, label):
        """Returns the text that T5 writes for a label.

        >>> TASKS["cola"].target("1"), TASKS["stsb"].target("3.75")
        ('acceptable', '3.8')
        """
        if not self.labels:
            return f"{round(float(label) * 5) / 5:.1f}"
        return self.words[self.labels.index(label)]

    def label(self, text):
        """Returns the label that a text of T5's stands for; `None` for any other text.

        >>> TASKS["cola"].label("acceptable"), TASKS["stsb"].label("3.8"), TASKS["cola"].label("good")
        ('1', '3.8', None)
        """
        text = text.strip()
        if self.labels:
            return self.labels[self.words.index(text)] if text in self.words else None
        try:
            return text if 0 <= float(text) <= 5 else None
        except ValueError:
            return None

    @property
    def submissions(self):
        """Dictionary of the names of its files in a submission to their rows."""
        return {name: rows for _, name, rows in self.tests.values()}


def mean_score(measures, names):
    """Returns the mean of some measures, times 100. An undefined one, as the correlation of a constant, counts 0."""
    return 100 * sum(0.0 if math.isnan(measures[name]) else measures[name] for name in names) / len(names)


def _test(name, rows):
    return {"test": ("test", name, rows)}


BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")
SENTENCES = ("sentence1", "sentence2")
F1_ACCURACY = ("f1", "accuracy")
_TASKS = (
    GlueTask(
        "cola",
        "CoLA",
        ("sentence",),
        ((3,), (1,)),
        1,
        BINARY,
        ("unacceptable", "acceptable"),
        ("mcc",),
        _test("CoLA", 1063),
        num_columns=4,
    ),
    GlueTask(
        "sst2",
        "SST-2",
        ("sentence",),
        ((0,), (1,)),
        1,
        BINARY,
        ("negative", "positive"),
        ("accuracy",),
        _test("SST-2", 1821),
    ),
    GlueTask(
        "mrpc",
        "MRPC",
        SENTENCES,
        ((3, 4), (3, 4)),
        0,
        BINARY,
        ("not_equivalent", "equivalent"),
        F1_ACCURACY,
        _test("MRPC", 1725),
    ),
    GlueTask("stsb", "STS-B", SENTENCES, ((7, 8), (7, 8)), 9, (), (), ("pearson", "spearman"), _test("STS-B", 1379)),
    GlueTask(
        "qqp",
        "QQP",
        ("question1", "question2"),
        ((3, 4), (1, 2)),
        5,
        BINARY,
        ("not_duplicate", "duplicate"),
        F1_ACCURACY,
        _test("QQP", 390_965),
    ),
    GlueTask(
        "mnli",
        "MNLI",
        ("premise", "hypothesis"),
        ((8, 9), (8, 9)),
        -1,
        INFERENCE,
        INFERENCE,
        ("accuracy",),
        {
            "test_matched": ("test_matched", "MNLI-m", 9796),
            "test_mismatched": ("test_mismatched", "MNLI-mm", 9847),
            "ax": ("ax", "AX", 1104),
        },
        {"dev_matched": "validation_matched", "dev_mismatched": "validation_mismatched"},
    ),
    GlueTask(
        "qnli",
        "QNLI",
        ("question", "sentence"),
        ((1, 2), (1, 2)),
        3,
        ENTAILMENT,
        ENTAILMENT,
        ("accuracy",),
        _test("QNLI", 5463),
    ),
    GlueTask("rte", "RTE", SENTENCES, ((1, 2), (1, 2)), 3, ENTAILMENT, ENTAILMENT, ("accuracy",), _test("RTE", 3000)),
    GlueTask(
        "wnli",
        "WNLI",
        SENTENCES,
        ((1, 2), (1, 2)),
        3,
        BINARY,
        ("not_entailment", "entailment"),
        ("accuracy",),
        _test("WNLI", 146),
    ),
)
TASKS = {task.name: task for task in _TASKS}
# All files of a submission, and the answer of most rows, or by custom of all, without a model.
SUBMISSION = {name: (task, rows) for task in _TASKS for name, rows in task.submissions.items()}
MAJORITY = {
    "CoLA": "1",
    "SST-2": "1",
    "MRPC": "1",
    "STS-B": "2.500",
    "QQP": "0",
    "MNLI-m": "entailment",
    "MNLI-mm": "entailment",
    "QNLI": "entailment",
    "RTE": "entailment",
    "WNLI": "0",
    "AX": "entailment",
}
