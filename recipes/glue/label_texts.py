"""Tasks as T5 has them: a text in, and the label out as a text.

Source: Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text transformer",
section 2.4 and appendix D.
"""

import numpy as np

from keras_headattn._files import is_number
from recipes.glue.glue_tasks import OTHER, mean_score
from recipes.glue.targets import ScoredClasses, ScoredNumbers

NO_NUMBER = -1.0  # stands for a text that is no number, as in T5's own code


class LabelTexts:
    """Texts that T5 reads and writes.

    Texts of one's own have no name before them, and their columns are the names of the parts.

    Args:
        names: list of str, the labels.
        task: `GlueTask`; `None` for texts of one's own.
        fields: names of the one or two texts of an example.

    >>> from recipes.glue.glue_tasks import TASKS
    >>> LabelTexts(["entailment", "not_entailment"], TASKS["qnli"], ("question", "sentence")).parts
    ['qnli question: ', 0, ' sentence: ', 1]
    """

    def __init__(self, names, task, fields):
        self.task = task
        self.names = list(names)
        self.parts = []
        for index in sorted(range(len(fields)), key=fields.__getitem__):
            before = f"{self.task.name} " if self.task and not self.parts else " " if self.parts else ""
            self.parts += [f"{before}{fields[index]}: ", index]

    def source(self, texts):
        """Returns the parts that T5 reads of the one or two texts of an example, strings and tensors to be joined."""
        return [texts[part] if isinstance(part, int) else part for part in self.parts]

    def sources(self, texts, second_texts=None):
        """Returns the texts that T5 reads of single texts or of pairs: list of str."""
        sides = [texts] if second_texts is None else [texts, second_texts]
        return ["".join(self.source(parts)) for parts in zip(*sides, strict=True)]

    def target(self, label):
        """Returns the text of a label: one of its own, or a number to one place."""
        if self.task:
            return self.task.target(label)
        return label if self.names else f"{float(label):.1f}"

    def place(self, text):
        """Returns the place of the label that a text stands for; for any other text, behind the last one."""
        label = self.task.label(text) if self.task else text.strip()
        return self.names.index(label) if label in self.names else len(self.names)

    def number(self, text):
        """Returns the number that a text stands for."""
        return float(text) if is_number(text) else NO_NUMBER


class WrittenClasses(ScoredClasses):
    """Classes that are written; any other text counts as wrong."""

    def __init__(self, names, measures, task=None, fields=("text",), **options):
        super().__init__([name for name in names if name != OTHER], measures, **options)
        self.texts = LabelTexts(self.names, task, fields)
        self.names = [*self.names, OTHER]

    def rows(self, texts):
        """Predictions `(N, C + 1)`: 1 in the column of the label of each text."""
        return np.eye(len(self.names), dtype="float32")[[self.texts.place(text) for text in texts]]

    def measure(self, targets, predicted):
        """Accuracy, F1, Matthews correlation, and the share of other texts."""
        from sklearn import metrics

        classes, labels = predicted.argmax(axis=1), range(len(self.names) - 1)
        measures = {"accuracy": float(np.mean(classes == targets))}
        measures["f1_macro"] = float(
            metrics.f1_score(targets, classes, labels=labels, average="macro", zero_division=0)
        )
        if len(labels) == 2:
            measures["f1"] = float(metrics.f1_score(targets == 1, classes == 1, zero_division=0))
        varies = len(np.union1d(targets, classes)) > 1
        measures["mcc"] = float(metrics.matthews_corrcoef(targets, classes)) if varies else 0.0
        measures["other_text"] = float(np.mean(classes == len(labels)))
        return {"score": mean_score(measures, self.measures)} | measures


class WrittenNumbers(ScoredNumbers):
    """Numbers that are written."""

    def __init__(self, names, measures, task=None, fields=("text",), **options):
        super().__init__(names, measures, **options)
        self.texts = LabelTexts((), task, fields)

    def rows(self, texts):
        """Predictions `(N, 1)`."""
        return np.array([[self.texts.number(text)] for text in texts], "float32").reshape(-1, 1)


WRITTEN = (WrittenNumbers, WrittenClasses)  # kinds of `targets_of`
