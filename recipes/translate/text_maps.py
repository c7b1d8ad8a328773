"""Attention in a finished run, on sentences and their translations."""

import collections
import dataclasses

import numpy as np

from headattn_io.files import read_lines
from keras_headattn.analysis import attention_maps
from recipes.translate.text import inputs_and_tokens, make_text, make_translator

KINDS = ("encoder", "decoder", "cross")


@dataclasses.dataclass
class TextMaps:
    """Maps of one kind of attention.

    Attributes:
        layers: dictionary of a layer's path to its `AttentionMaps`, from the first layer to the last.
        queries, keys: of each sentence a list of str, the tokens.
        mask: boolean `(B, n)`, the queries that are no padding.
    """

    layers: dict
    queries: list
    keys: list
    mask: np.ndarray


def maps_of_test(run, number, kind, batch_size=64):
    """Those of the first sentences of a run's test set, or of the first of them by name, and of their translations.

    A batch at a time: all maps of a whole test set take more memory than there is.

    Args:
        run: `Run`.
        number: how many sentences, at most.
        kind: one of `KINDS`.
        batch_size: how many sentences at a time. Default 64.

    Yields:
        `TextMaps`.

    Raises:
        ValueError: if the run has translated nothing.
    """
    sentences, translations = lines_of_test(run, number, "sources", "hypotheses")
    transformer, text = run.load_model(), make_text(run.config(), None, run.folder)
    for start in range(0, len(sentences), batch_size):
        rows = slice(start, start + batch_size)
        yield _text_maps(transformer, text, sentences[rows], translations[rows], kind)


def maps_of_sentence(run, sentence, kind):
    """The translation of one sentence, a str, and the `TextMaps` of both. `run` and `kind` as above."""
    config, transformer = run.config(), run.load_model()
    text = make_text(config, None, run.folder)
    (translation,) = make_translator(transformer, text, **config.decoding)([sentence])
    return translation.text, _text_maps(transformer, text, [sentence], [translation.text], kind)


def _text_maps(transformer, text, sentences, translations, kind):
    inputs, tokens = inputs_and_tokens(text, sentences, translations)
    queries, keys = tokens[kind]
    maps = attention_maps(transformer, inputs)
    layers = {path: layer for path, layer in maps.items() if kind_of(path) == kind}
    return TextMaps(layers, queries, keys, inputs["source" if kind == "encoder" else "target"] > 0)


def kind_of(path):
    """Which one of `KINDS` the attention layer of this path is."""
    if "/encoder_" in path:
        return "encoder"
    return "cross" if path.endswith("/cross_attention") else "decoder"


def names_of_layers(paths):
    """Such as "cross 1" for each attention layer: its kind, and its number among those, counted from 1.

    Args:
        paths: paths of all attention layers, in their order.

    Returns:
        Dictionary of paths to names.
    """
    counts, names = collections.Counter(), {}
    for path in paths:
        counts[kind_of(path)] += 1
        names[path] = f"{kind_of(path)} {counts[kind_of(path)]}"
    return names


def lines_of_test(run, number, *names):
    """Of the first sentences of a run's test set, or of the first of them by name, without empty lines.

    Args:
        run: `Run`.
        number: how many sentences, at most.
        *names: of `"sources"`, `"hypotheses"` and `"references"`.

    Returns:
        A list of str for each name.

    Raises:
        ValueError: if the run has translated nothing.
    """
    folders = sorted(path.parent for path in run.results.glob("*/hypotheses.txt"))
    if not folders:
        raise ValueError(f"The run in {run.folder} has translated no test set. Use `recipes.translate evaluate`.")
    lines = (read_lines(folders[0] / f"{name}.txt") for name in names)
    rows = [row for row in zip(*lines, strict=True) if all(row)][:number]
    return tuple(map(list, zip(*rows, strict=True)))
