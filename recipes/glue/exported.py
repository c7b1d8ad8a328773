"""Scores of a SavedModel of fine-tuning."""

from recipes.engine.texts.evaluation import evaluate
from recipes.engine.texts.exported import ExportedPredictor
from recipes.glue.data import read_tests
from recipes.glue.label_texts import WrittenClasses
from recipes.glue.targets import ScoredClasses, ScoredNumbers, targets_of


def evaluate_saved_model(config, path, files):
    """Measures a SavedModel of recipes.glue on test sets, and prints the measures.

    Args:
        config: `GlueConfig`, of which the settings of data count.
        path: of the SavedModel.
        files: those of the test sets.
    """
    tests, model = read_tests(config, files), ExportedPredictor(path, config.predicts)

    def learn(corpus, writes):
        return targets_of(config, None, corpus, (ScoredNumbers, WrittenClasses if writes else ScoredClasses))

    evaluate(model, tests, model.targets(tests, learn))
