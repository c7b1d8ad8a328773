"""Exports that keep matrices in fewer bytes, against a model whose weights are rounded by NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.decoding import Searcher
from keras_headattn.layers import TalkingHeadsAttention
from keras_headattn.models import Transformer
from keras_headattn.serving import export_id_translator
from tests.refusals import refused

IDS = np.array([[5, 9, 12, 3], [7, 3, 0, 0]], "int32")


def make_searcher():
    keras.utils.set_random_seed(5)
    shape = dict(num_layers=1, hidden_dim=64, intermediate_dim=64)
    model = Transformer(72, 80, attention=TalkingHeadsAttention(2, 32), **shape)
    model.build()
    for weight in model.weights:
        if weight.name == "kernel":
            weight.assign(2 * weight)
    return Searcher(model, 2, max_length=8)


def rounded(weight, kind):
    x = weight.numpy()
    if kind == "bfloat16":
        return tf.cast(tf.cast(x, tf.bfloat16), tf.float32).numpy()
    axis = (-1,) if weight.name == "embeddings" else (0,)
    if "decoder" in weight.path and "attention_output" in weight.path:
        axis = (0, 1)  # a kernel of decoding, with heads and their widths as one axis
    step = np.abs(x).max(axis, keepdims=True) / np.float32(127)
    return np.rint(x / step) * step


@pytest.mark.parametrize("kind, share", [("bfloat16", 0.55), ("int8", 0.35)])
def test_matrices_in_fewer_bytes(kind, share, tmp_path):
    searcher = make_searcher()
    loaded = tf.saved_model.load(export_id_translator(searcher, tmp_path, weights=kind, warmup_batch_sizes=()))
    found = loaded.signatures["serving_default"](ids=tf.constant(IDS))
    sizes = {weight.dtype: 0 for weight in loaded.weights}
    for weight in loaded.weights:
        sizes[weight.dtype] += weight.dtype.size * weight.shape.num_elements()
        assert weight.dtype != tf.float32 or weight.shape.num_elements() < 4096
    matrices = sizes[tf.as_dtype(kind)] / tf.as_dtype(kind).size
    assert sum(sizes.values()) < share * 4 * matrices + 4 * 2500  # biases and scales

    for weight in searcher.model.weights:
        if np.prod(weight.shape) >= 4096:
            weight.assign(rounded(weight, kind))
    expected = searcher(IDS)
    np.testing.assert_array_equal(found["ids"], expected["tokens"])
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-5)


def test_a_model_on_two_replicas(tmp_path):
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        searchers = [make_searcher()]
    searchers.append(make_searcher())
    found = []
    for number, searcher in enumerate(searchers):
        path = export_id_translator(searcher, tmp_path / str(number), weights="int8", warmup_batch_sizes=())
        model = tf.saved_model.load(path)
        found.append(model.signatures["serving_default"](ids=tf.constant(IDS)))
    np.testing.assert_array_equal(found[0]["ids"], found[1]["ids"])
    np.testing.assert_allclose(found[0]["scores"], found[1]["scores"], rtol=1e-5)


def test_another_kind_of_weights(tmp_path):
    with refused("weights", "'float16'"):
        export_id_translator(make_searcher(), tmp_path, weights="float16")
    assert not any(tmp_path.iterdir())
