"""The class: made, subclassed, saved and loaded as keras.Model is."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.training import Model, make_strategy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 4)).astype("float32")
Y = RNG.normal(size=(8, 1)).astype("float32")


@pytest.fixture(params=[1, 2])
def strategy(request):
    return make_strategy(request.param)


def functional(cls=Model):
    inputs = keras.Input((4,))
    return cls(inputs, keras.layers.Dense(1)(inputs))


class Subclassed(Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)


class Built(Model):
    """A functional model built in the constructor of a subclass."""

    def __init__(self, units, **kwargs):
        inputs = keras.Input((4,))
        super().__init__(inputs, keras.layers.Dense(units)(inputs), **kwargs)


class OwnStep(Model):
    def train_step(self, data):
        x, y = data
        return {"seen": keras.ops.cast(keras.ops.shape(x)[0], "float32")}


class OwnGradients(Model):
    """The step of Keras's guide to writing one."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        return {"loss": loss}


class OwnLoss(Model):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return 3.0 * super().compute_loss(x, y, y_pred, sample_weight, training)


def test_functional_subclassed_and_built_live_together():
    assert isinstance(functional(), Model) and isinstance(Built(2), Model)
    assert Subclassed()(X).shape == (8, 1)  # Keras would have put Functional beneath it by now
    assert Built(3)(X).shape == (8, 3)


@pytest.mark.parametrize("make", [functional, Subclassed, lambda: Built(1)])
def test_every_kind_trains(make, strategy):
    with strategy.scope():
        model = make()
        model.compile("adam", "mse", jit_compile=make is functional)
    history = model.fit(X, Y, batch_size=4, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]


def test_the_first_step_is_traced_once(strategy):
    with strategy.scope():
        model = functional()
        model.compile("adam", "mse")
    model.fit(X, Y, verbose=0)
    assert model.num_traces == 1


@pytest.mark.parametrize("jit_compile", [False, True])
def test_saved_with_its_class_weights_and_setting(jit_compile, tmp_path):
    strategy = make_strategy(2)
    with strategy.scope():
        model = functional()
        model.compile("adam", "mse", metrics=["mae"], jit_compile=jit_compile)
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "model.keras")
    with strategy.scope():
        loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.jit_compile is jit_compile
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    expected = model.fit(X, Y, verbose=0).history
    on_one_replica = keras.models.load_model(tmp_path / "model.keras")
    for again in (loaded, on_one_replica):
        np.testing.assert_allclose(again.fit(X, Y, verbose=0).history["loss"], expected["loss"], rtol=1e-6)


def test_a_users_model_can_be_wrapped():
    inputs = keras.Input((4,))
    theirs = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    ours = Model(theirs.inputs, theirs.outputs)
    ours.compile("sgd", "mse")
    ours.fit(X, Y, verbose=0)
    np.testing.assert_array_equal(ours.predict(X, verbose=0), theirs.predict(X, verbose=0))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_an_overridden_train_step_is_run(jit_compile, strategy):
    with strategy.scope():
        model = functional(OwnStep)
        model.compile("adam", "mse", jit_compile=jit_compile)
    seen = model.fit(X, Y, batch_size=8, verbose=0).history["seen"]
    assert seen == [8 / strategy.num_replicas_in_sync]


def test_gradients_of_an_overridden_train_step_are_summed_before_they_are_clipped():
    weights = []
    for replicas in (1, 2):
        keras.utils.set_random_seed(0)
        with make_strategy(replicas).scope():
            model = functional(OwnGradients)
            model.compile(keras.optimizers.SGD(1.0, global_clipnorm=0.1, gradient_accumulation_steps=2), "mse")
        model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    np.testing.assert_allclose(weights[1][0], weights[0][0], atol=1e-6)


def adam(**kwargs):
    return keras.optimizers.AdamW(0.1, global_clipnorm=0.1, gradient_accumulation_steps=2, use_ema=True, **kwargs)


@pytest.mark.parametrize("make_optimizer", [adam, lambda: keras.optimizers.LossScaleOptimizer(adam())])
def test_an_update_compiled_by_itself_is_the_same(make_optimizer):
    weights = []
    for jit_update in (False, True):
        keras.utils.set_random_seed(0)
        model = functional()
        model.compile(make_optimizer(), "mse", jit_compile=False)
        model.jit_update = jit_update
        model.fit(X, Y, batch_size=2, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    np.testing.assert_allclose(weights[1][0], weights[0][0], rtol=1e-5)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_an_overridden_compute_loss_is_used(jit_compile, strategy):
    losses = []
    for cls in (Model, OwnLoss):
        keras.utils.set_random_seed(0)
        with strategy.scope():
            model = functional(cls)
            model.compile("sgd", "mse", jit_compile=jit_compile)
        losses.append(model.evaluate(X, Y, verbose=0))
        model.fit(X, Y, verbose=0)
    assert losses[1] == pytest.approx(3 * losses[0], rel=1e-6)


def test_runs_eagerly():
    with make_strategy(2).scope():
        model = functional()
        model.compile("adam", "mse", run_eagerly=True)
    history = model.fit(X, Y, batch_size=4, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]


def test_a_step_may_be_run_from_a_loop_of_ones_own():
    strategy = make_strategy(2)
    with strategy.scope():
        model = functional()
        model.compile("sgd", "mse", jit_compile=True)
        model.optimizer.build(model.trainable_variables)
    before = model.get_weights()
    tf.function(lambda: strategy.run(model.train_step, args=((X[:4], Y[:4]),)))()
    assert not np.array_equal(before[0], model.get_weights()[0])
