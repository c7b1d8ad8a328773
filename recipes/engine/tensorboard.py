"""The parts of every run that TensorBoard shows. docs/tensorboard.md says how to look at them."""

from dataclasses import fields

import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

from keras_headattn.training import TensorBoardCurves
from recipes.engine.config import default_of

# Settings by which runs are told apart even where they have their defaults.
ALWAYS_SHOWN = ("attention", "num_heads", "seed")


def tensorboard_callbacks(config, run):
    """Curves, and settings beside their results, all in one folder."""
    return [
        hparams.KerasCallback(run.log_dir, shown_settings(config), trial_id=str(run.folder)),
        TensorBoardCurves(run.log_dir, ("compilations",), config.profile_steps),
    ]


def shown_settings(config):
    """The settings for HParams: those that change what is trained and differ from their defaults, and a few others.

    Returns:
        Dictionary of names to int, float or str.
    """
    found = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, dict):
            found |= {f"{field.name}.{name}": part for name, part in value.items()}
        elif field.name in ALWAYS_SHOWN or (not field.metadata["changeable"] and value != default_of(field)):
            found[field.name] = value
    return {name: value for name, value in found.items() if isinstance(value, (int, float, str))}


def write_scores(run):
    """Writes the scores of the test sets as scalars, by `test/SET/MEASURE`."""
    with tf.summary.create_file_writer(run.log_dir).as_default():
        for test, measures in run.scores().items():
            for name, value in measures.items():
                if value is not None:
                    tf.summary.scalar(f"test/{test}/{name}", value, step=len(run.history()))
