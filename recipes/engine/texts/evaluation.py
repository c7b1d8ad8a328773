"""Measures of finished runs."""

import json
import math

from keras_headattn._files import write_atomically
from recipes.engine.data import fingerprint
from recipes.engine.progress import progress_bar
from recipes.engine.report import report_one_class, write_confusion
from recipes.engine.texts.settings import COLUMNS
from recipes.engine.texts.targets import Classes


def tests_of(run, config, files, read_corpora, read_tests):
    """Returns the test sets of files, or for `None` of the settings, by names that are not those of the run's own.

    `read_corpora(config)` returns `Corpora`, and `read_tests(config, files)` `LabelledText` by name. No test set, pairs
    for a run of single texts, and a changed training set that tests are a share of are a `ValueError`.
    """
    run_config = run.read_config()
    if files is not None:
        tests = read_tests(config, files)
    else:
        corpora = read_corpora(config) if config.tests_are_shares else None
        if corpora:  # the training set must be the same
            run.check_data(fingerprint(corpora))
        tests = corpora.tests if corpora else read_tests(config)
    tests = run.name_results(config, tests, ("tfds", "drop_labels", "max_examples"), files, COLUMNS)
    if not tests:
        raise ValueError(f"The run has no test set. Give --test. Received: {run.folder}, without --test")
    if run_config.is_pair != config.is_pair:
        trained = "pairs: it needs" if run_config.is_pair else "single texts: it takes no"
        raise ValueError(f"The run is of {trained} --second-column. Received: {config.second_column!r}")
    return tests


def evaluate(predictor, tests, targets, folder=None, quiet=False):
    """Measures a model on test sets, prints the measures, and writes everything to `folder`, if it is given.

    Args:
        predictor: `TextPredictor`, or what is called like one.
        tests: dictionary of `LabelledText`; each gets a folder of its own in `folder`.
        targets: what is predicted, as of `recipes.engine.texts.targets`.
        folder: path.
        quiet: True to show no progress.

    Returns:
        Dictionary from test set to measures: those of `targets`, those of the predictor, and `examples`, their number.
    """
    results = {}
    for name, corpus in tests.items():
        labels = targets.of(corpus)
        sides = corpus.texts, corpus.second_texts
        predicted = predictor(*sides, progress_bar(f"Reading {name}", len(corpus), quiet))
        scores = targets.measure(labels, predicted) | predictor.measures(*sides)
        results[name] = {metric: None if math.isnan(value) else value for metric, value in scores.items()}
        results[name]["examples"] = len(corpus)
        if folder is not None:
            _write(folder / name, corpus, labels, predicted, targets, results[name])
        print(f"{name}: " + ", ".join(f"{m} {v:.4f}" for m, v in scores.items()))
        if isinstance(targets, Classes) and labels.ndim == 1:
            report_one_class(name, labels, predicted, targets.names)
    return results


def _write(folder, corpus, labels, predicted, targets, scores):
    """Writes measures, predictions as a table and, for classes, the confusion matrix."""
    write_atomically(folder / "scores.json", (json.dumps(scores, indent=2) + "\n").encode())
    if isinstance(targets, Classes) and labels.ndim == 1:
        write_confusion(folder, labels, predicted, targets.names)
    sides = [corpus.texts] + ([corpus.second_texts] if corpus.second_texts else [])
    lines = ["\t".join([*targets.columns, *targets.names, *["text", "second_text"][: len(sides)]])]
    for label, guess, row, *texts in zip(corpus.labels, targets.cells(predicted), predicted, *sides, strict=True):
        values = [f"{value:.6f}" for value in row] if targets.names else []
        lines.append("\t".join([label, guess, *values, *map(_one_line, texts)]))
    write_atomically(folder / "predictions.tsv", ("\n".join(lines) + "\n").encode("utf-8"))


def _one_line(text):
    return " ".join(text.split())
