"""The confusion matrix of a test set, as a text and as a picture."""

import io

import numpy as np

from keras_headattn._files import write_atomically
from keras_headattn.analysis import draw_confusion_matrix


def write_confusion(folder, labels, predicted, names):
    """Writes `confusion.txt` and `confusion.png` to the folder of a test set; TensorBoard shows the picture.

    `labels` are integers `(B,)`, `predicted` probabilities `(B, C)`, `names` C str.
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    text = confusion_text(labels, predicted.argmax(axis=1), names)
    write_atomically(folder / "confusion.txt", (text + "\n").encode("utf-8"))
    picture = io.BytesIO()
    draw_confusion_matrix(labels, predicted, names).savefig(picture, dpi=100, format="png")
    write_atomically(folder / "confusion.png", picture.getvalue())


def report_one_class(name, labels, predicted, names, kind="text", advice=""):
    """Says so if all texts of a test set were taken for one class, and are not all of one; takes what `write_confusion`
    does, what stands in place of "text", and advice.

    >>> report_one_class("test", [0, 1], [[0.6, 0.4], [0.7, 0.3]], ["bad", "good"])
    test: every text was taken for bad.
    """
    chosen = {*np.asarray(predicted).argmax(axis=1).tolist()}
    if len(chosen) == 1 < len({*labels}):
        print(f"{name}: every {kind} was taken for {names[chosen.pop()]}.{advice}")


def confusion_text(labels, predicted, names):
    """Returns a table of how often each label (rows) was taken for which (columns).

    >>> print(confusion_text([0, 1, 1], [0, 0, 1], ["bad", "good"]))
          bad good
    bad     1    0
    good    1    1
    """
    counts = np.zeros((len(names), len(names)), int)
    np.add.at(counts, (labels, predicted), 1)
    width = max(len(str(entry)) for entry in (*names, counts.max()))
    rows = [["", *names], *([name, *row] for name, row in zip(names, counts, strict=True))]
    return "\n".join(" ".join([f"{row[0]:<{width}}", *(f"{entry:>{width}}" for entry in row[1:])]) for row in rows)
