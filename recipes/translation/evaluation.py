"""Scores of a finished run."""

import functools

from keras_headattn import metrics
from keras_headattn.metrics import Score
from recipes.progress import progress_bar


def exact_match(hypotheses, references):
    """Percentage of translations equal to their reference, letter for letter."""
    hits = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Score("exact match", 100 * hits / len(references), f"sentences:{len(references)}")


def named_metrics(names, language, embeddings=None):
    """Functions for the names of `METRICS`.

    Raises:
        ValueError: for an unknown name, or yisi without embeddings.
    """
    if "yisi" in names and not embeddings:
        raise ValueError("The metric yisi needs --embeddings, a text file of word vectors. Received: none")
    functions = METRICS | {
        "tokenized_bleu": functools.partial(metrics.tokenized_bleu, language=language),
        "meteor": functools.partial(metrics.meteor, language=language),
        "yisi": functools.partial(metrics.yisi_1, embed=embeddings),
    }
    unknown = [name for name in names if name not in functions]
    if unknown:
        raise ValueError(f"There are the metrics {', '.join(functions)}. Received: {', '.join(unknown)}")
    return [functions[name] for name in names]


METRICS = {
    "exact_match": exact_match,
    "bleu": metrics.bleu,
    "chrf": metrics.chrf,
    "wer": metrics.wer,
    "rouge_l": metrics.rouge_l,
    "cider": metrics.cider,
}


def evaluate(translator, corpora, config, folder):
    """Translates test sets, prints scores with their signatures, and writes everything to `folder`.

    Args:
        translator: `Translator`.
        corpora: dictionary of `ParallelCorpus`.
        config: `TranslateConfig`.
        folder: path; each test set gets a folder of its own in it.

    Returns:
        Dictionary from test set to dictionary from metric to `Score`.
    """
    functions = named_metrics(config.metrics, config.target_language, config.embeddings)
    results = {}
    for name, corpus in corpora.items():
        with progress_bar(f"Translating {name}", len(corpus)) as progress:
            translations = translator(corpus.source, progress)
        hypotheses = [translation.text for translation in translations]
        results[name] = metrics.evaluate_translations(hypotheses, corpus.target, functions)
        metrics.write_translations(folder / name, corpus.source, hypotheses, corpus.target, results[name])
        for score in results[name].values():
            print(f"{name}: {score}")
    return results
