"""The parts of every run that TensorBoard shows. docs/tensorboard.md says how to look at them."""

import html
import itertools
from dataclasses import fields

import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from keras_headattn._files import read_lines
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
    found = {}
    for field in fields(config):
        if field.name in config.without_effect:
            continue
        value = getattr(config, field.name)
        if isinstance(value, dict):
            own = default_of(field)
            found |= {f"{field.name}.{name}": part for name, part in value.items() if part != own.get(name)}
        elif field.name in ALWAYS_SHOWN or (not field.metadata["changeable"] and value != default_of(field)):
            found[field.name] = value
    return {name: value for name, value in found.items() if isinstance(value, (int, float, str))}


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
