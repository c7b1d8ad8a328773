"""Scores of a SavedModel that gives texts classes, labels or numbers."""

from recipes.engine.texts.data import read_tests
from recipes.engine.texts.evaluation import evaluate
from recipes.engine.texts.exported import ExportedPredictor
from recipes.engine.texts.targets import KINDS


def evaluate_saved_model(config, path, files):
    """Measures a SavedModel on the test sets of files, by the settings of data, and prints the measures."""
    tests, model = read_tests(config, files), ExportedPredictor(path, config.predicts)
    learn, separator = KINDS[config.predict].learn, config.label_separator
    targets = model.targets(tests, lambda corpus, writes: learn(corpus, config.labels, label_separator=separator))
    evaluate(model, tests, targets)
