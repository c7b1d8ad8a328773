"""Attention of a finished run, on sentences and their translations."""

import collections
import dataclasses

import numpy as np

from keras_headattn._files import read_lines
from keras_headattn.analysis import attention_maps, head_redundancy_matrix, layer_redundancy
from keras_headattn.metrics import Score
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
    """Yields the `TextMaps` of one of `KINDS` for the first `number` sentences of a test set and their translations.

    The set is the first by name of those that the run has translated. A batch at a time: all maps of a test set take
    too much memory.
    """
    sentences, translations = lines_of_test(run, number, "sources", "hypotheses")
    transformer, text = run.load_model(), make_text(run.read_config(), None, run.folder)
    for start in range(0, len(sentences), batch_size):
        rows = slice(start, start + batch_size)
        yield _text_maps(transformer, text, sentences[rows], translations[rows], kind)


def redundancy(transformer, text, sources, translations, number=100):
    """Returns the redundancy of the encoder's heads on the first sentences: LR and HR, each a `Score`.

    Source: "Disentangled mask attention in Transformer" (anonymous), section 4.2. Where weights are no
    distributions there is none: the reason is printed, and the list is empty.
    """
    sentences = [pair for pair in zip(sources, translations, strict=True) if all(pair)][:number]
    parts = (zip(*sentences[start : start + 64], strict=True) for start in range(0, len(sentences), 64))
    try:
        layer, heads, _ = mean_redundancy(_text_maps(transformer, text, *map(list, part), "encoder") for part in parts)
    except ValueError as error:
        print(f"No redundancy: {error}")
        return []
    signature = f"attention:encoder|sentences:{len(sentences)}"
    return [Score("LR", layer, signature), Score("HR", float(heads.mean()), signature)]


def mean_redundancy(batches):
    """Returns redundancy over all tokens of an iterable of `TextMaps`.

    Returns:
        Tuple of the layer redundancy, the matrix of head redundancy, and the number of heads of each layer.
    """
    layers, heads, tokens = [], [], []  # of each batch
    for maps in batches:
        layers.append(layer_redundancy(maps.layers, maps.mask))
        heads.append(head_redundancy_matrix(maps.layers, maps.mask))
        tokens.append(maps.mask.sum())
    layer, matrix = (np.average(parts, axis=0, weights=tokens) for parts in (layers, heads))
    return float(layer), matrix, list(map(num_heads, maps.layers.values()))


def num_heads(layer):
    """Returns the number of maps that a layer has for a sentence: one a head, or one a pair of heads."""
    return int(np.prod(layer.weights.shape[1:-2]))


def maps_of_sentence(run, sentence, kind):
    """Translates a sentence; returns the translation and the `TextMaps` of both."""
    config, transformer = run.read_config(), run.load_model()
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
    """Returns the one of `KINDS` that the attention layer of a path is."""
    if "/encoder_" in path:
        return "encoder"
    return "cross" if path.endswith("/cross_attention") else "decoder"


def names_of_layers(paths):
    """Returns the names of attention layers by path, such as "cross 1": the kind, and the number among that kind."""
    counts, names = collections.Counter(), {}
    for path in paths:
        counts[kind_of(path)] += 1
        names[path] = f"{kind_of(path)} {counts[kind_of(path)]}"
    return names


def lines_of_test(run, number, *names):
    """Returns the first lines, but for empty ones, of a run's test set, the first by name: a list for each name.

    Names are of `"sources"`, `"hypotheses"` and `"references"`.
    """
    folders = sorted(path.parent for path in run.results.glob("*/hypotheses.txt"))
    if not folders:
        raise ValueError(
            f"The run has translated no test set. Use `recipes.translate evaluate`. Received: {run.folder}"
        )
    lines = (read_lines(folders[0] / f"{name}.txt") for name in names)
    rows = [row for row in zip(*lines, strict=True) if all(row)][:number]
    return tuple(map(list, zip(*rows, strict=True)))
