"""Repulsive attention on two replicas, and after an interruption."""

import keras
import numpy as np
import pytest

from keras_headattn.optimizers import Repulsive
from keras_headattn.training import Model, Resume, make_strategy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5, 8)).astype("float32")
Y = RNG.normal(size=(12, 5, 8)).astype("float32")

OPTIMIZERS = {
    "svgd": lambda: Repulsive(keras.optimizers.SGD(0.5), repulsive_weight=0.5, verbose=False),
    "spos": lambda: Repulsive(
        keras.optimizers.SGD(0.5, global_clipnorm=0.05, gradient_accumulation_steps=2),
        method="spos",
        repulsive_weight=0.5,
        inverse_temperature=1e4,
        prior_deviation=1.0,
        seed=1,
        verbose=False,
    ),
    "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(
        Repulsive(keras.optimizers.SGD(0.5), repulsive_weight=0.5, verbose=False)
    ),
}


def compiled(optimizer, replicas, cls=Model, **compiling):
    keras.utils.set_random_seed(0)
    with make_strategy(replicas).scope():
        inputs = keras.Input((5, 8))
        model = cls(inputs, keras.layers.MultiHeadAttention(2, 4)(inputs, inputs))
        model.compile(optimizer(), "mse", **(compiling or {"jit_compile": False}))
    return model


def trained(*args, **arguments):
    model = compiled(*args, **arguments)
    model.fit(X, Y, batch_size=6, epochs=3, shuffle=False, verbose=0)
    return model


def check_same(model, expected, atol=2e-6):
    for mine, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=atol)


@pytest.mark.parametrize("name, jit_compile", [("svgd", True), ("spos", False), ("loss_scale", False)])
def test_two_replicas_equal_one(name, jit_compile):
    model = trained(OPTIMIZERS[name], 2, jit_compile=jit_compile)
    check_same(model, trained(OPTIMIZERS[name], 1, run_eagerly=True))
    for variable in model.variables:
        np.testing.assert_array_equal(*(copy.numpy() for copy in variable.value.values))


def test_the_terms_count_once_in_stock_keras_too():
    """There the gradients are summed after them. (Clipping and accumulation are wrong there: docs/reliability.md.)"""
    check_same(trained(OPTIMIZERS["svgd"], 2, cls=keras.Model), trained(OPTIMIZERS["svgd"], 1, run_eagerly=True))


class Interrupt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.inner_optimizer._iterations == 3:  # an odd number of accumulated batches
            raise KeyboardInterrupt


def test_resumed_noise_is_that_of_an_uninterrupted_run(tmp_path):
    def fit(*callbacks):
        model = compiled(OPTIMIZERS["spos"], 1)
        model.fit(X, Y, batch_size=6, epochs=3, shuffle=False, verbose=0, callbacks=[*callbacks])
        return model

    with pytest.raises(KeyboardInterrupt):
        fit(Resume(tmp_path, every=1), Interrupt())
    check_same(fit(Resume(tmp_path, every=1)), fit(), atol=0)
