"""The targets of fine-tuning: those of `recipes.classify`, with the score of a task."""

from recipes.engine.texts.targets import Classes, Numbers
from recipes.glue.glue_tasks import OF_CLASSES, OF_NUMBERS, OTHER, mean_score
from recipes.glue.scores import ClassScore, NumberScore


class _Scored:
    def __init__(self, names, measures, task=None, fields=(), **options):
        super().__init__(names, **options)
        self.measures = measures

    def measure(self, targets, predicted):
        """Returns the measures, and first the score that they give."""
        measures = super().measure(targets, predicted)
        return {"score": mean_score(measures, self.measures)} | measures


class ScoredClasses(_Scored, Classes):
    """Classes, with a score."""

    def make_metrics(self):
        return [*super().make_metrics(), ClassScore(self.width, self.measures)]


class ScoredNumbers(_Scored, Numbers):
    """Numbers, with a score. While it is learned it is Pearson's correlation alone."""

    def make_metrics(self):
        return [*super().make_metrics(), NumberScore()]


SCORED = (ScoredNumbers, ScoredClasses)


def targets_of(config, names=None, corpus=None, kinds=SCORED):
    """Returns the predictions of a task, by the classes `kinds` of numbers and of classes.

    The labels are `names`, or for `None` those of the task, or of the training set `corpus`.
    """
    cls, known = (kinds[0], OF_NUMBERS) if config.predicts == "number" else (kinds[1], OF_CLASSES)
    if unknown := set(config.measures) - set(known):
        raise ValueError(f"--score takes {', '.join(known)} here. Received: {', '.join(sorted(unknown))}")
    options = dict(measures=config.measures, label_smoothing=config.label_smoothing)
    options |= dict(fields=config.fields, task=config.glue_task)
    if names is None and config.task_labels is None:
        targets = cls.learn(corpus, config.labels, **options)
    else:
        targets = cls(list(config.task_labels if names is None else names), **options)
    classes = [name for name in targets.names if name != OTHER]
    if "f1" in config.measures and len(classes) != 2:
        raise ValueError(f"--score f1 needs two classes; f1_macro takes any. Received: {', '.join(classes)}")
    return targets
