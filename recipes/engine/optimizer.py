"""What recipes make optimizers and trainers of."""

import keras

from keras_headattn.optimizers import Repulsive
from keras_headattn.training import Model
from recipes.engine.config import passing_on


def make_optimizer(config, optimizer, **arguments):
    """Returns a Keras optimizer of this class with the shared settings, and around it what keeps heads apart."""
    with passing_on("optimizer_arguments"):
        optimizer = optimizer(**arguments, **config.optimizer_arguments)
    if config.repulsive == "none":
        return optimizer
    with passing_on("repulsive_arguments"):
        return Repulsive(optimizer, method=config.repulsive, seed=config.seed, **config.repulsive_arguments)


def column_trainer(columns, call):
    """Returns a model to train: of integer inputs `(B, n)` of these names, given to `call` as a dictionary.

    Its output has no Keras mask, which would scale the loss of batches that are weighted already.
    """
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in columns}
    return Model(inputs, keras.ops.copy(call(inputs)), name="trainer")
