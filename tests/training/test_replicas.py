"""Two replicas, with and without XLA, train as one does without."""

import keras
import numpy as np
import pytest

from benchmarks.replicas import FAULTS, outcome
from keras_headattn.training import Model, make_strategy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = RNG.normal(size=(16, 3)).astype("float32")
IDS = RNG.integers(0, 10, (16, 6)).astype("int32")
LABELS = RNG.integers(0, 3, 16).astype("int32")

EVERYWHERE = pytest.mark.parametrize("replicas, jit_compile", [(1, False), (1, True), (2, False), (2, True)])
ON_TWO = pytest.mark.parametrize("jit_compile", [False, True])


def train(make, data, replicas, jit_compile, batch_size=8, epochs=2, run_eagerly=False, **compile_args):
    """Trains a freshly made model; returns it and its history."""
    keras.utils.set_random_seed(0)
    with make_strategy(replicas).scope():
        model = make()
        compile_args = {name: value() for name, value in compile_args.items()}
        model.compile(**compile_args, jit_compile=jit_compile, run_eagerly=run_eagerly)
    return model, model.fit(*data, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0).history


def stock(make, data, **options):
    """Trains a model of Keras's on one replica, eagerly: there is no graph to wait for."""
    return train(lambda: make(keras.Model), data, 1, False, run_eagerly=True, **options)[0]


def dense(cls=Model, **kwargs):
    inputs = keras.Input((4,))
    return cls(inputs, keras.layers.Dense(3, **kwargs)(keras.layers.Dense(5, activation="tanh")(inputs)))


def assert_same_weights(model, expected, atol=2e-6):
    for ours, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=atol)


OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "clipnorm": lambda: keras.optimizers.SGD(1.0, momentum=0.9, clipnorm=0.05),
    "global_clipnorm": lambda: keras.optimizers.SGD(1.0, global_clipnorm=0.05),
    "clipvalue": lambda: keras.optimizers.SGD(1.0, clipvalue=0.01),
    "ema": lambda: keras.optimizers.SGD(0.1, use_ema=True),
    "loss_scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0, clipnorm=0.05)),
    "accumulation": lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=3, global_clipnorm=0.05),
    "ema_overwriting": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=3),
    "all_in_one": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.AdamW(
            0.01, gradient_accumulation_steps=2, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=1
        )
    ),
    "schedule": lambda: keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 1, 0.5)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights_are_those_of_keras_on_one_replica(name):
    """Of every batch of five rows one replica has three, and of the last row of an epoch one has none."""
    options = dict(optimizer=OPTIMIZERS[name], loss=lambda: "mse", batch_size=5)
    expected = stock(dense, (X, Y), **options)
    model, _ = train(dense, (X, Y), 2, name in ("adam", "all_in_one"), **options)
    assert_same_weights(model, expected)
    for variable in model.variables:
        np.testing.assert_array_equal(*(copy.numpy() for copy in variable.value.values))


def test_a_sum_over_rows_is_that_of_one_replica():
    """Losses that are logged, however the rows of a batch are dealt out."""
    options = dict(optimizer=lambda: "sgd", loss=lambda: keras.losses.MeanSquaredError("sum"), batch_size=5)
    found = []
    for replicas in (1, 2):
        model, history = train(dense, (X, Y), replicas, False, **options)
        found.append([*history["loss"], model.evaluate(X, Y, batch_size=5, verbose=0)])
    np.testing.assert_allclose(*found, rtol=1e-5)


def classifier(lookup):
    inputs = keras.Input((None,), dtype="int32")
    return Model(inputs, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling1D()(lookup(inputs))))


def embedding():
    return classifier(keras.layers.Embedding(10, 4, embeddings_initializer="ones"))


def one_hot_product():
    project = keras.layers.Dense(4, use_bias=False, kernel_initializer="ones")
    return classifier(lambda ids: project(keras.ops.one_hot(ids, 10)))


@pytest.fixture(scope="module")
def dense_losses():
    return ids_losses(one_hot_product, 1, False)


def ids_losses(make, replicas, jit_compile):
    return train(
        make,
        (IDS, LABELS),
        replicas,
        jit_compile,
        optimizer=lambda: keras.optimizers.Adam(0.05, clipnorm=0.01),
        loss=lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )[1]["loss"]


@EVERYWHERE
def test_embedding_trains_as_a_product_with_one_hot_vectors(dense_losses, replicas, jit_compile):
    """Ids occur many times in a batch; Keras squares and clips every occurrence by itself."""
    np.testing.assert_allclose(ids_losses(embedding, replicas, jit_compile), dense_losses, rtol=1e-5)


class Activity(keras.layers.Layer):
    def call(self, x):
        self.add_loss(0.1 * keras.ops.mean(x**2))
        return x


def two_inputs():
    inputs = {"x": keras.Input((4,), name="x"), "keep": keras.Input((4,), dtype="bool", name="keep")}
    x = keras.ops.where(inputs["keep"], inputs["x"], 0.0)
    x = Activity()(keras.layers.Dense(5, kernel_regularizer="l2")(x))
    return Model(inputs, {"a": keras.layers.Dense(3, name="a")(x), "b": keras.layers.Dense(1, name="b")(x)})


def everything(replicas, jit_compile, steps_per_execution):
    """Two inputs, one of them boolean, two outputs, weights, added losses, metrics and validation."""
    keras.utils.set_random_seed(0)
    with make_strategy(replicas).scope():
        model = two_inputs()
        model.compile(
            keras.optimizers.Adam(0.01),
            {"a": keras.losses.CategoricalCrossentropy(from_logits=True), "b": "mse"},
            loss_weights={"a": 0.5, "b": 2.0},
            metrics={"a": ["accuracy", keras.metrics.AUC(from_logits=True, name="auc")], "b": "mae"},
            weighted_metrics={"a": "categorical_crossentropy", "b": "mse"},
            steps_per_execution=steps_per_execution,
            jit_compile=jit_compile,
        )
    x = {"x": X, "keep": X > -1}
    y = {"a": np.eye(3, dtype="float32")[LABELS], "b": Y[:, :1]}
    weights = {"a": np.linspace(0, 1, 16, dtype="float32"), "b": np.linspace(1, 0.5, 16, dtype="float32")}
    data = dict(x=x, y=y, sample_weight=weights, batch_size=4, verbose=0)
    epochs = []
    recorder = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(dict(logs)))
    model.fit(**data, shuffle=False, validation_data=(x, y, weights), epochs=2, callbacks=[recorder])
    scores = model.evaluate(**data, return_dict=True)
    predictions = model.predict(x, batch_size=8, verbose=0)
    for epoch, logs in enumerate(epochs):
        scores.update({f"{epoch}_{name}": value for name, value in logs.items()})
    return scores, predictions


@pytest.fixture(scope="module")
def plain():
    return everything(1, False, 1)


@pytest.mark.parametrize("replicas, jit_compile, steps_per_execution", [(1, True, 2), (2, False, 1), (2, True, 2)])
def test_losses_metrics_and_predictions_agree(plain, replicas, jit_compile, steps_per_execution):
    scores, predictions = everything(replicas, jit_compile, steps_per_execution)
    assert len(plain[0]) > 20
    for name, value in plain[0].items():
        assert scores[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
    for name, value in plain[1].items():
        np.testing.assert_allclose(predictions[name], value, atol=1e-5)


@ON_TWO
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision(jit_compile, policy):
    compile_args = dict(optimizer=lambda: "adam", loss=lambda: "mse")
    expected = stock(dense, (X, Y), **compile_args)
    keras.config.set_dtype_policy(policy)
    model, history = train(dense, (X, Y), 2, jit_compile, **compile_args)
    assert history["loss"][1] < history["loss"][0]
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer) == (policy == "mixed_float16")
    # Four steps of 0.001, and rounding to 8 bits may turn the sign of one.
    assert_same_weights(model, expected, atol=2e-3 if policy == "mixed_float16" else 8e-3)


@ON_TWO
def test_an_infinite_gradient_on_the_second_replica_skips_the_step(jit_compile):
    with make_strategy(2).scope():
        model = dense()
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        model.compile(optimizer, "mse", jit_compile=jit_compile)
    before = model.get_weights()
    overflowing = np.concatenate([Y[:8], np.full((8, 3), 3e38, "float32")])
    scale = model.optimizer.initial_scale
    model.fit(X, overflowing, batch_size=16, shuffle=False, verbose=0)
    for weights, kept in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weights, kept)
    assert model.optimizer.dynamic_scale.numpy() == scale / 2
    model.fit(X, Y, batch_size=16, verbose=0)
    assert not np.array_equal(model.get_weights()[0], before[0])


@ON_TWO
def test_batch_normalisation_keeps_the_mean_of_the_replicas(jit_compile):
    def make(cls):
        inputs = keras.Input((4,))
        return cls(inputs, keras.layers.Dense(3)(keras.layers.BatchNormalization(momentum=0.5)(inputs)))

    compile_args = dict(optimizer=lambda: "sgd", loss=lambda: "mse")
    expected = stock(make, (X, Y), **compile_args)
    model, _ = train(lambda: make(Model), (X, Y), 2, jit_compile, **compile_args)
    np.testing.assert_allclose(model.layers[1].moving_mean, expected.layers[1].moving_mean, atol=1e-6)
    for variable in model.variables:
        np.testing.assert_array_equal(*(copy.numpy() for copy in variable.value.values))


@ON_TWO
def test_batches_need_not_divide_evenly(jit_compile):
    """Row counts that differ between replicas run, and metrics count every row once."""
    with make_strategy(2).scope():
        model = dense()
        model.compile("sgd", "mse", metrics=["mae"], jit_compile=jit_compile)
    mae = model.evaluate(X[:11], Y[:11], batch_size=4, verbose=0, return_dict=True)["mae"]
    assert mae == pytest.approx(np.mean(np.abs(model.predict(X[:11], verbose=0) - Y[:11])), rel=1e-6)


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_keras_are_none_here(fault):
    """`python -m benchmarks.replicas` shows those of Keras."""
    assert outcome(fault, Model, 4).passed
