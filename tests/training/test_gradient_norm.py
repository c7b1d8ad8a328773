"""The curve of the gradient's norm, against NumPy."""

import keras
import numpy as np
import pytest

from keras_headattn.training import GradientNorm, Model, make_strategy
from tests.training.resuming import Kill, Killed, fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = RNG.normal(size=(16, 3)).astype("float32")

# A rate of zero keeps the weights, and so the gradients, what they are.
OPTIMIZERS = {
    "clipping": lambda: keras.optimizers.SGD(0.0, global_clipnorm=1e-3),
    "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.0, clipvalue=1e-3)),
    "accumulation": lambda: keras.optimizers.SGD(0.0, gradient_accumulation_steps=2),
}


def train(optimizer, y, replicas=1, jit_compile=False, **kwargs):
    with make_strategy(replicas).scope():
        inputs = keras.Input((4,))
        model = Model(inputs, keras.layers.Dense(3)(inputs))
        model.compile(optimizer(), "mse", jit_compile=jit_compile)
    options = dict(batch_size=4, shuffle=False, verbose=0, callbacks=[GradientNorm()])
    return model, model.fit(X, y, **options, **kwargs).history


def norms(model):
    """The norm of the gradient of each batch of four rows."""
    kernel, bias = model.get_weights()
    by_batch = []
    for x, y in zip(np.split(X, 4), np.split(Y, 4), strict=True):
        slope = 2 * (x @ kernel + bias - y) / y.size
        by_batch.append(np.sqrt(np.sum((x.T @ slope) ** 2) + np.sum(np.sum(slope, axis=0) ** 2)))
    return by_batch


@pytest.mark.parametrize(
    "name, replicas, jit_compile",
    [("clipping", 1, False), ("loss_scale", 1, True), ("accumulation", 2, False), ("loss_scale", 2, True)],
)
def test_norm_of_the_whole_gradient(name, replicas, jit_compile):
    model, history = train(OPTIMIZERS[name], Y, replicas, jit_compile, epochs=2, validation_data=(X, Y))
    np.testing.assert_allclose(history["gradient_norm"], [np.mean(norms(model))] * 2, rtol=1e-5)
    assert "val_gradient_norm" not in history


def test_steps_that_the_loss_scale_skips_do_not_count():
    overflowing = np.concatenate([Y[:12], np.full((4, 3), 3e38, "float32")])
    model, history = train(OPTIMIZERS["loss_scale"], overflowing)
    np.testing.assert_allclose(history["gradient_norm"], [np.mean(norms(model)[:3])], rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_interrupted_epoch_counts_as_a_whole(tmp_path, replicas):
    def model():
        with make_strategy(replicas).scope():
            inputs = keras.Input((4,))
            model = Model(inputs, keras.layers.Dense(2, "tanh", kernel_initializer="ones")(inputs))
            model.compile("sgd", "mse")
        return model

    with pytest.raises(Killed):
        fit(model(), tmp_path / "a", 2, [GradientNorm(), Kill(9, "on_train_batch_end")], every=1)
    histories = [fit(model(), tmp_path / name, 2, [GradientNorm()], every=1).history for name in "ab"]
    assert histories[0] == histories[1]


def test_training_afterwards_goes_without():
    model, _ = train(OPTIMIZERS["clipping"], Y)
    assert "gradient_norm" not in model.fit(X, Y, verbose=0).history


def test_gradients_of_16_bits():
    inputs = keras.Input((4,), dtype="bfloat16")
    model = Model(inputs, keras.layers.Dense(3)(keras.layers.Dense(4, dtype="bfloat16")(inputs)))
    model.compile("sgd", "mse")
    history = model.fit(X, Y, batch_size=4, verbose=0, callbacks=[GradientNorm()]).history
    assert 0 < history["gradient_norm"][0] < np.inf


def test_it_leaves_other_observers_alone():
    inputs = keras.Input((4,))
    model = Model(inputs, keras.layers.Dense(3)(inputs))
    model.compile("sgd", "mse", run_eagerly=True)
    seen = []
    model.observe_gradients(seen.append)
    options = dict(batch_size=4, verbose=0)
    assert "gradient_norm" in model.fit(X, Y, callbacks=[GradientNorm()], **options).history
    model.fit(X, Y, **options)
    assert len(seen) == 8
    model.unobserve_gradients(seen.append)
    model.fit(X, Y, **options)
    assert len(seen) == 8
