"""Test of word scores on the synthetic task of recipes.glue, whose truth is known: they should find swapped words.

    python -m recipes.glue --run runs/glue
    python -m benchmarks.swapped_words runs/glue

All test sentences with two neighbouring words swapped are explained: why the class is "swapped". Each score is measured
against the two words, and by the classifier's answer without the words ranked highest.
"""

import argparse

import numpy as np

from benchmarks.timing import machine, report, table

METHODS = {
    "gradient x embedding": lambda inside, texts, arguments: inside.gradients(texts, **arguments),
    "its absolute value": lambda inside, texts, arguments: list(map(np.abs, inside.gradients(texts, **arguments))),
    "integrated gradients": lambda inside, texts, arguments: inside.gradients(texts, steps=20, **arguments),
    "attention of [CLS]": lambda inside, texts, arguments: inside.attention(texts, kind="cls"),
    "attention received": lambda inside, texts, arguments: inside.attention(texts, kind="received"),
}


def read(folder):
    """Returns the run's predictor, its swapped test sentences, and booleans of swapped words."""
    from recipes.glue.__main__ import RECIPE
    from recipes.glue.demo import number_tasks, swapped_words
    from recipes.glue.train import load_predictor

    run, config = RECIPE.open(folder)
    if config.task != "acceptability":
        raise SystemExit(f"error: The run must be of --task acceptability. Received: task={config.task}")
    predictor, seed = load_predictor(run, config, run.load_model()), config.split_seed
    corpus, swapped = number_tasks("acceptability", seed=seed)["test"], swapped_words(seed=seed)["test"]
    pairs = [(text, np.array(words)) for text, words in zip(corpus.texts, swapped, strict=True) if any(words)]
    return predictor, *map(list, zip(*pairs, strict=True))


def all_scores(predictor, texts, truth):
    """Returns scores of all methods by name."""
    from keras_headattn.analysis import leave_one_out, lime, random_scores
    from keras_headattn.serving import WordScores

    inside, arguments = WordScores(predictor), {"classes": [0] * len(texts)}
    scores = {"the swapped words": [words.astype(float) for words in truth]}
    scores |= {name: method(inside, texts, arguments) for name, method in METHODS.items()}
    for samples in (100, 1000):
        scores[f"LIME, {samples:,} samples"] = lime(predictor, texts, samples=samples, **arguments)
    scores["leave one out"] = leave_one_out(predictor, texts, **arguments)
    return scores | {"random": random_scores(texts)}


def measures(predictor, texts, truth):
    """Returns a row of measures for each method."""
    from keras_headattn.analysis import aopc, remove_words
    from recipes.rationales.metrics import rationale_auprc, rationale_average_precision

    rows, classes = [], [0] * len(texts)
    for name, scores in all_scores(predictor, texts, truth).items():
        full, without, only = remove_words(predictor, texts, scores)
        values = [rationale_auprc(scores, truth), rationale_average_precision(scores, truth)]
        values += [aopc(full, without, classes)[0], aopc(full, only, classes)[0]]
        rows.append([name, *(f"{value:.3f}" for value in values)])
    return rows


def main():
    from recipes.engine.quiet import quiet_tensorflow
    from recipes.rationales.metrics import degenerate_baselines

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a finished run of recipes.glue on the synthetic task")
    options = parser.parse_args()
    quiet_tensorflow()
    predictor, texts, truth = read(options.run)
    right = np.mean(predictor(texts).argmax(axis=1) == 0)
    baselines = [
        [f"baseline: {name}", *(f"{value:.3f}" for value in values.values()), "", ""]
        for name, values in degenerate_baselines(truth).items()
    ]
    header = ["scores", "AUPRC", "average precision", "comprehensiveness", "sufficiency"]
    length = np.mean(list(map(len, truth)))
    report(
        "swapped_words",
        "# Swapped words: do scores of words find them?",
        f"{len(texts)} sentences of {length:.1f} words on average, of which the classifier recognises {right:.1%}.",
        table(header, measures(predictor, texts, truth) + baselines),
        "\n".join(machine("tensorflow", "keras", "numpy")),
    )


if __name__ == "__main__":
    main()
