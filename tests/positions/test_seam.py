"""All classes as an attention layer uses them: built, configured, saved, traced, compiled."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_headattn import positions as room
from keras_headattn.layers import MultiHeadAttention
from keras_headattn.positions import LearnedPositions, Positions, SinusoidalPositions
from tests.positions.cases import ALL, BIASES, HEADS, ROTARY, WIDTH, array, built, heads

each = pytest.mark.parametrize("name", ALL)


@keras.saving.register_keras_serializable(package="tests")
class Maps(keras.layers.Layer):
    """Logits of queries and keys `(B, n, h * d)`, keys kept with their rows last."""

    def __init__(self, positions, **kwargs):
        super().__init__(**kwargs)
        self.positions = positions

    def build(self, input_shape):
        if not self.positions.built:
            self.positions.build((None, HEADS, None, input_shape[-1] // HEADS))

    def call(self, inputs, offset=0):
        batch, n, width = ops.shape(inputs)
        # (B, n, h * d) -> (B, h, n, d)
        query = ops.transpose(ops.reshape(inputs, (batch, n, HEADS, width // HEADS)), (0, 2, 1, 3))
        places = ops.arange(n, dtype="int32") + offset
        query = self.positions.rotate(query, places)
        logits, bias = ops.matmul(query, ops.swapaxes(query, 2, 3)), self.positions.bias(query, places, places)
        return logits if bias is None else logits + bias

    def get_config(self):
        return {**super().get_config(), "positions": keras.saving.serialize_keras_object(self.positions)}

    @classmethod
    def from_config(cls, config):
        return cls(**{**config, "positions": keras.saving.deserialize_keras_object(config["positions"])})


def inputs(seed=0, dtype="float32"):
    return np.random.default_rng(seed).normal(size=(2, 6, HEADS * WIDTH)).astype(dtype)


def maps(name, dtype="float32"):
    layer = Maps(ALL[name](dtype=dtype), dtype=dtype)
    layer.build((None, None, HEADS * WIDTH))
    return layer


@each
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_layer_keeps_its_configuration(name, dtype):
    layer = MultiHeadAttention(HEADS, WIDTH, relative_positions=ALL[name](), dtype=dtype)
    again = MultiHeadAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert type(again.relative_positions) is type(layer.relative_positions)
    assert again.get_config() == layer.get_config()
    assert again.relative_positions.dtype_policy == layer.dtype_policy


@each
def test_what_it_overrides(name):
    positions = ALL[name]()
    assert positions.rotates == (name in ROTARY) and positions.has_bias == (name in BIASES)
    assert isinstance(positions, Positions) and isinstance(positions, keras.layers.Layer)


def test_every_class_is_tested():
    within = {type(ALL[name]()).__name__ for name in ALL}
    added_to_inputs = {SinusoidalPositions.__name__, LearnedPositions.__name__}
    assert within | added_to_inputs == set(room.__all__)


def test_positions_that_do_nothing():
    positions, x = Positions(), heads()
    positions.build((None, HEADS, None, WIDTH))
    assert positions.rotate(x, np.arange(6)) is x
    assert positions.bias(x, np.arange(6), np.arange(6)) is None and positions.weights == []


@each
def test_config(name):
    """Through JSON and by the registered name; every argument of the constructor is in it."""
    layer = ALL[name](name="here", dtype="mixed_bfloat16")
    clone = keras.saving.deserialize_keras_object(json.loads(json.dumps(keras.saving.serialize_keras_object(layer))))
    assert type(clone) is type(layer) and clone.get_config() == layer.get_config()
    parameters = inspect.signature(type(layer)).parameters
    own = {name for name in parameters if name not in inspect.signature(keras.layers.Layer).parameters}
    assert set(layer.get_config()) - set(keras.layers.Layer().get_config()) == own - {"kwargs"}
    assert all(hasattr(clone, argument) for argument in own - {"kwargs"})


@each
def test_file(name, tmp_path):
    x = keras.Input((6, HEADS * WIDTH))
    model = keras.Model(x, maps(name)(x))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights)
    np.testing.assert_array_equal(array(loaded(inputs())), array(model(inputs())))


@each
@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_traced_positions(name, jit):
    """Compiled once, for every place in the sequence; lengths are unknown in the graph."""
    layer, traces = maps(name), []
    shape = [None, 6 if jit or name == "relative_2d" else None, HEADS * WIDTH]

    @tf.function(jit_compile=jit, input_signature=[tf.TensorSpec(shape), tf.TensorSpec([], "int32")])
    def run(x, offset):
        traces.append(1)
        return layer(x, offset=offset)

    for offset in (0, 3, 1000):
        np.testing.assert_allclose(
            array(run(inputs(), offset)), array(layer(inputs(), offset=offset)), rtol=0, atol=2e-3
        )
    assert len(traces) == 1


@each
@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", "float16", "float64"])
def test_policies(name, dtype):
    layer = maps(name, dtype)
    layer.set_weights([np.random.default_rng(1).normal(size=w.shape) for w in layer.weights])
    got = layer(inputs())
    assert keras.backend.standardize_dtype(got.dtype) == layer.compute_dtype
    exact = maps(name, "float64")
    exact.set_weights([array(w) for w in layer.weights])
    want, tolerance = array(exact(inputs())), 1e-12 if dtype == "float64" else 0.02
    np.testing.assert_allclose(array(got), want, rtol=0, atol=tolerance * np.abs(want).max())


@each
def test_gradients(name):
    """Of every weight and of the inputs, against differences."""
    layer = maps(name, "float64")
    values = [tf.constant(inputs(dtype="float64")), *(array(w) for w in layer.weights)]
    direction = [np.random.default_rng(2).normal(size=v.shape) for v in values]
    by = np.random.default_rng(3).normal(size=(2, HEADS, 6, 6))

    def total(step):
        layer.set_weights([v + step * d for v, d in zip(values[1:], direction[1:], strict=True)])
        return float(np.sum(by * array(layer(values[0] + step * direction[0]))))

    differences = (total(1e-5) - total(-1e-5)) / 2e-5
    total(0)
    with tf.GradientTape() as tape:
        tape.watch(values[0])
        loss = tf.reduce_sum(by * layer(values[0]))
    found = tape.gradient(loss, [values[0], *(w.value for w in layer.weights)])
    found = [tf.convert_to_tensor(gradient).numpy() for gradient in found]
    slope = sum(np.sum(g * d) for g, d in zip(found, direction, strict=True))
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


@each
def test_empty(name):
    """No rows and no batch, as on the last piece of a data set."""
    positions = built(name)
    none = np.zeros((0, HEADS, 6, WIDTH), "float32")
    assert positions.rotate(none, np.arange(6)).shape == none.shape
    bias = positions.bias(none, np.arange(6), np.arange(6))
    assert bias is None or tuple(bias.shape) in {(0, HEADS, 6, 6), (1, HEADS, 6, 6)}
    if name != "relative_2d":
        no_rows = np.zeros((2, HEADS, 0, WIDTH), "float32")
        assert positions.rotate(no_rows, np.arange(0)).shape == no_rows.shape
