"""Scores of a finished run."""

import dataclasses
import functools
import inspect
import pathlib

from keras_headattn import metrics
from keras_headattn.metrics import Score
from recipes.engine.generation import score_texts, write_texts
from recipes.engine.progress import progress_bar


def exact_match(hypotheses, references):
    """Percentage of translations that equal their reference, letter for letter."""
    hits = [100.0 * (pair[0] == pair[1]) for pair in zip(hypotheses, references, strict=True)]
    return Score("exact match", sum(hits) / len(hits), f"sentences:{len(hits)}", tuple(hits))


def named_metrics(names, language, embeddings=None, comet_model=metrics.COMET_MODEL):
    """Returns the functions of metrics, for translations into a language. yisi needs a file of embeddings.

    "redundancy" is one of a model's heads, not of texts, and has no function here.
    """
    if "yisi" in names and not embeddings:
        raise ValueError("The metric yisi needs --embeddings, a text file of word vectors. Received: none")
    if "yisi" in names and not pathlib.Path(embeddings).is_file():
        raise FileNotFoundError(f"There is no file of word vectors. Received: embeddings={embeddings}")
    functions = METRICS | {
        "bleu": functools.partial(metrics.bleu, tokenize=TOKENIZERS.get(language, "13a")),
        "tokenized_bleu": functools.partial(metrics.tokenized_bleu, language=language),
        "compound_bleu": functools.partial(
            metrics.tokenized_bleu, language=language, lowercase=False, split_compounds=True
        ),
        "meteor": functools.partial(metrics.meteor, language=language),
        "yisi": functools.partial(metrics.yisi_1, embed=embeddings),
        "comet": functools.partial(metrics.comet, model=comet_model),
    }
    if not names or len(set(names)) < len(names):
        raise ValueError(f"Give metrics, each once. Received: metrics={' '.join(names) or 'none'}")
    unknown = [name for name in names if name not in (*functions, OF_HEADS)]
    if unknown:
        raise ValueError(f"There are the metrics {', '.join((*functions, OF_HEADS))}. Received: {', '.join(unknown)}")
    return [functions[name] for name in names if name in functions]


def check_metrics(names, language, embeddings=None, comet_model=metrics.COMET_MODEL):
    """Scores a sentence with each metric, so that a missing package is reported before training, not after it."""
    functions = named_metrics(names, language, embeddings)
    for name, function in zip([name for name in names if name != OF_HEADS], functions, strict=True):
        if name == "comet":  # its model is large, as may be yisi's file of word vectors
            metrics.comet_checkpoint(comet_model)
        elif name != "yisi":
            function(["one sentence"], ["one sentence"])


# Sacrebleu's, for languages written without spaces. By characters, as its tokenizer of Japanese words needs MeCab.
TOKENIZERS = {"zh": "zh", "ja": "char"}
OF_HEADS = "redundancy"
METRICS = {
    "exact_match": exact_match,
    "chrf": metrics.chrf,
    "wer": metrics.wer,
    "ter": metrics.ter,
    "rouge_l": metrics.rouge_l,
    "cider": metrics.cider,
}


def _with_sources(metric, sources):
    takes = "sources" in inspect.signature(metric).parameters
    return functools.partial(metric, sources=sources) if takes else metric


def evaluate(translator, corpora, functions, decoding, folder=None, quiet=False, of_heads=None):
    """Translates test sets, prints scores with their signatures, and writes everything to `folder`, if it is given.

    Takes a `Translator`, a dictionary of `ParallelCorpus`, what `named_metrics` returns, and a str of the settings of
    the search, which ends signatures. `of_heads` is a function of sources and translations that returns more scores.
    Returns a dictionary from test set to dictionary from metric to `Score`.
    """
    results = {}
    for name, corpus in corpora.items():
        translations = translator(corpus.source, progress_bar(f"Translating {name}", len(corpus), quiet))
        hypotheses = [translation.text for translation in translations]
        references = translator.text.references(corpus.target)
        scores = score_texts(hypotheses, references, [_with_sources(function, corpus.source) for function in functions])
        scores |= {score.name: score for score in (of_heads(corpus.source, hypotheses) if of_heads else ())}
        results[name] = {
            metric: dataclasses.replace(score, signature=f"{score.signature}|{decoding}")
            for metric, score in scores.items()
        }
        if folder is not None:
            write_texts(folder / name, corpus.source, hypotheses, references, results[name])
        for score in results[name].values():
            print(f"{name}: {score}")
    return results
