"""Results of runs as people see them: in TensorBoard, as tables and as confusion matrices."""

import html
import itertools
import statistics
from dataclasses import fields

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from keras_headattn._figures import write_figure
from keras_headattn._files import read_lines, write_atomically
from keras_headattn.analysis import draw_confusion_matrix
from keras_headattn.training import TensorBoardCurves
from recipes.engine.config import default_of

SAMPLES = 20  # texts of a test set
# Settings that are shown even with their defaults.
ALWAYS_SHOWN = ("attention", "num_heads", "seed")


def tensorboard_callbacks(run, settings, profile_steps=()):
    """Returns callbacks for curves, and for settings beside their results, all in one folder."""
    return [
        hparams.KerasCallback(run.log_dir, settings, trial_id=str(run.folder)),
        TensorBoardCurves(run.log_dir, ("compilations",), profile_steps),
    ]


def shown_settings(config):
    """Returns the settings for HParams: those that change training and differ from their defaults, and a few others."""
    settings = {}
    for field in fields(config):
        if field.name in config.without_effect:
            continue
        value = getattr(config, field.name)
        if isinstance(value, dict):
            default = default_of(field)
            settings |= {f"{field.name}.{name}": part for name, part in value.items() if part != default.get(name)}
        elif field.name in ALWAYS_SHOWN or (not field.metadata["changeable"] and value != default_of(field)):
            settings[field.name] = value
    return {name: value for name, value in settings.items() if isinstance(value, (int, float, str))}


def write_scores(run):
    """Writes what a finished run made of its test sets, and its settings.

    Scores are scalars, by `test/SET/MEASURE`; confusion matrices images, by `confusion/SET`; the first of what was
    written, translations say, texts by `samples/SET`.
    """
    with tf.summary.create_file_writer(run.log_dir).as_default():
        shown = shown_settings(run.read_config()).items()
        tf.summary.text("settings", _table(["setting", "value"], [[name, str(value)] for name, value in shown]), step=0)
        for path in sorted(run.results.glob("*/confusion.png")):
            image = tf.io.decode_png(path.read_bytes(), channels=3)
            tf.summary.image(f"confusion/{path.parent.name}", image[None], step=len(run.history()))
        for path in sorted(run.results.glob("*/hypotheses.txt")):
            files = [path.with_name(f"{name}.txt") for name in ("sources", "hypotheses", "references")]
            columns = [list(itertools.islice(read_lines(file), SAMPLES)) for file in files if file.is_file()]
            names = [file.stem for file in files if file.is_file()]
            samples = _table(names, zip(*columns, strict=False))
            tf.summary.text(f"samples/{path.parent.name}", samples, step=len(run.history()))
        for test, measures in run.scores().items():
            for name, value in measures.items():
                if value is not None:
                    tf.summary.scalar(f"test/{test}/{name}", value, step=len(run.history()))


def _table(columns, rows):
    """Returns a Markdown table of texts, which it shows as they are."""
    rows = [[html.escape(cell).replace("|", "&#124;") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows))


def markdown_table(columns, rows):
    """Returns the lines of a Markdown table; each row is a name and the entries of the columns.

    >>> print(*markdown_table(["loss"], [["plain", "0.5"]]), sep="\\n")
    | | loss |
    |---|---:|
    | plain | 0.5 |
    """
    return [
        f"| | {' | '.join(columns)} |",
        "|---|" + "---:|" * len(columns),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def mean_text(values, format_value="{:.4f}".format):
    """Returns the mean and, of several, standard deviation of the values that are not `None`; a dash of none.

    >>> mean_text([0.5, None, 0.7]), mean_text([])
    ('0.6000 ± 0.1414', '–')
    """
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    text = format_value(statistics.fmean(values))
    return f"{text} ± {format_value(statistics.stdev(values))}" if len(values) > 1 else text


def write_confusion(folder, labels, predicted, names):
    """Writes `confusion.txt` and `confusion.png` to the folder of a test set; TensorBoard shows the picture.

    `labels` are integers `(B,)`, `predicted` probabilities `(B, C)`, `names` C str.
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    text = confusion_text(labels, predicted.argmax(axis=1), names)
    write_atomically(folder / "confusion.txt", (text + "\n").encode("utf-8"))
    write_figure(folder / "confusion.png", draw_confusion_matrix(labels, predicted, names), dpi=100)


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
