"""Scores of a SavedModel of fine-tuning."""

from recipes.engine.texts.evaluation import evaluate
from recipes.engine.texts.exported import ExportedPredictor
from recipes.glue.data import read_tests
from recipes.glue.label_texts import WrittenClasses
from recipes.glue.targets import ScoredClasses, ScoredNumbers, targets_of


def evaluate_saved_model(config, path, files):
    """Measures a SavedModel on the test sets of files, by the settings of data, and prints the measures."""
    tests, model = read_tests(config, files), ExportedPredictor(path, config.predicts)

    def learn(corpus, writes):
        return targets_of(config, None, corpus, (ScoredNumbers, WrittenClasses if writes else ScoredClasses))

    evaluate(model, tests, model.targets(tests, learn))
