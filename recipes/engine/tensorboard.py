"""The parts of every run that TensorBoard shows. docs/tensorboard.md says how to look at them."""

import keras
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams


def tensorboard_callbacks(config, run):
    """Curves, and settings beside their results."""
    return [
        keras.callbacks.TensorBoard(run.log_dir, write_graph=False, profile_batch=config.profile_steps or 0),
        hparams.KerasCallback(run.log_dir, flat_settings(config), trial_id=str(run.folder)),
    ]


def flat_settings(config):
    """The settings that are numbers or words, and the arguments of attention, by name."""
    values = {}
    for name, value in vars(config).items():
        values |= {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, (int, float, str)) and name not in ("run", "export", "quiet")
    }


def write_scores(run):
    """Writes the scores of the test sets as scalars, by `test/SET/MEASURE`."""
    with tf.summary.create_file_writer(run.log_dir).as_default():
        for test, measures in run.scores().items():
            for name, value in measures.items():
                if value is not None:
                    tf.summary.scalar(f"test/{test}/{name}", value, step=len(run.history()))
