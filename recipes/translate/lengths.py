"""Lengths of the sentences that a model is trained on, and the most heads that they suggest."""

from keras_headattn._figures import write_figure
from keras_headattn.utils import new_figure
from recipes.translate.prepare import COLUMNS


def describe(records, hidden_dim):
    """Returns lines of text: pairs, mean lengths in tokens, and the most heads of a model of this width.

    Source of the number of heads: Li and Luo 2022, "Interacting-head attention", equation 13: the width over the
    mean length, so that a head is as wide as a sentence is long.

    Args:
        records: `keras_headattn.data.Records` of `recipes.translate prepare`.
        hidden_dim: int, width of the model.
    """
    pairs, tokens = records.manifest["examples"], records.manifest["tokens"]
    sides = ", ".join(
        f"{side} {tokens[column]:,} tokens, mean {tokens[column] / pairs:.1f}" for side, column in COLUMNS.items()
    )
    mean = sum(tokens.values()) / len(tokens) / pairs
    return (
        f"{pairs:,} pairs: {sides} (with the end of a sentence)\n"
        f"Most heads at width {hidden_dim}: {hidden_dim} / {mean:.1f} = {int(hidden_dim / mean)}"
    )


def draw(records, path):
    """Draws how many pairs have which length, that of their longer side, to a PNG."""
    histogram = records.histogram()
    figure = new_figure(7, 4, f"{records.manifest['examples']:,} pairs by the length of their longer side")
    axes = figure.subplots()
    axes.bar(histogram["length"], histogram["examples"], width=1.0)
    axes.set(xlabel="tokens", ylabel="pairs")
    axes.grid(axis="y", alpha=0.3)
    write_figure(path, figure)
