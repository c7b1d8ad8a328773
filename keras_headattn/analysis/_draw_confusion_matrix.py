"""Which classes are taken for which."""

import numpy as np

from keras_headattn._figures import new_figure
from keras_headattn.analysis._validation import as_labels, as_probabilities


def draw_confusion_matrix(labels, probabilities, names=None):
    """Draws how many items of each class are predicted as which, coloured by their share of the class.

    Args:
        labels: integers `(B,)`.
        probabilities: `(B, C)`.
        names: list of the names of the classes. Defaults to their numbers.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: naming the argument and what was received.
        ImportError: if matplotlib is not installed.

    >>> figure = draw_confusion_matrix([0, 1, 1], [[0.8, 0.2], [0.6, 0.4], [0.1, 0.9]], ["negative", "positive"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '0', '1', '1']
    """
    probabilities = as_probabilities(probabilities)
    labels, classes = as_labels(labels, probabilities), probabilities.shape[1]
    names = range(classes) if names is None else names
    if len(names) != classes:
        raise ValueError(f"`names` must be those of {classes} classes. Received: names={names}")
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (labels, probabilities.argmax(-1)), 1)
    shares = counts / np.maximum(counts.sum(-1, keepdims=True), 1)
    figure = new_figure(1.5 + 0.5 * classes, 1.2 + 0.5 * classes)
    axes = figure.add_subplot()
    axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    for (row, column), count in np.ndenumerate(counts):
        color = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(count), ha="center", va="center", fontsize=8, color=color)
    axes.set_xticks(range(classes), names, rotation=90, fontsize=8)
    axes.set_yticks(range(classes), names, fontsize=8)
    axes.set(xlabel="predicted", ylabel="label")
    return figure
