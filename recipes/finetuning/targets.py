"""The targets of fine-tuning: those of `recipes.classify`, with the score of a task."""

from recipes.finetuning.glue_tasks import OF_CLASSES, OF_NUMBERS, TASKS, mean_score
from recipes.finetuning.scores import ClassScore, NumberScore
from recipes.sentences.targets import Classes, Numbers

# Of the embedded tasks: names of labels and measures.
EMBEDDED = {
    "acceptability": (("0", "1"), ("mcc",)),
    "paraphrase": (("0", "1"), ("f1",)),
    "similarity": ((), ("pearson",)),
}


class _Scored:
    def measure(self, targets, predicted):
        """The measures, and first the score that they give."""
        found = super().measure(targets, predicted)
        return {"score": mean_score(found, measures_of(self.config))} | found


class ScoredClasses(_Scored, Classes):
    """Classes, with a score."""

    def make_metrics(self):
        return [*super().make_metrics(), ClassScore(self.width, measures_of(self.config))]


class ScoredNumbers(_Scored, Numbers):
    """Numbers, with a score. While it is learned it is Pearson's correlation alone."""

    def make_metrics(self):
        return [*super().make_metrics(), NumberScore()]


KINDS = {"class": ScoredClasses, "number": ScoredNumbers}


def targets_of(config, names=None, corpus=None):
    """What is predicted.

    Args:
        config: `GlueConfig`.
        names: list of str, the labels. Default `None`: those of the task, or of a training set.
        corpus: `LabelledText`, the training set.

    Raises:
        ValueError: for measures that are not of these targets, or as `Classes.learn`.
    """
    labels = labels_of(config)
    kind = config.predict if labels is None else ("class" if labels else "number")
    cls = KINDS[kind]
    unknown = set(measures_of(config)) - set(OF_CLASSES if kind == "class" else OF_NUMBERS)
    if unknown:
        raise ValueError(f"--score has measures that are none of a {kind}. Received: {', '.join(sorted(unknown))}")
    if names is None:
        return cls.learn(corpus, config) if labels is None else cls(list(labels), config)
    return cls(names, config)


def labels_of(config):
    """The labels of the task; () for numbers, and `None` for texts of one's own."""
    if config.task is None:
        return None
    return TASKS[config.task].labels if config.task in TASKS else EMBEDDED[config.task][0]


def measures_of(config):
    """Names of the measures whose mean is the score."""
    if config.score:
        return config.score
    if config.task is None:
        return ("pearson",) if config.predict == "number" else ("accuracy",)
    return TASKS[config.task].measures if config.task in TASKS else EMBEDDED[config.task][1]


def is_number(config):
    """Whether a number is predicted."""
    labels = labels_of(config)
    return config.predict == "number" if labels is None else not labels
