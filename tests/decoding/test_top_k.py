import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keras import ops

from keras_headattn.decoding import _top_k as module
from keras_headattn.decoding._top_k import BLOCK, top_k


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(0, 40 * BLOCK), st.integers(0, 2**31), st.sampled_from([2, 50, 10**6]))
@example(3, 13 * BLOCK, 0, 1)  # all equal
def test_same_as_that_of_keras(k, more, seed, different):
    """Also where numbers are equal, -inf among them, and no multiple of the block."""
    x = np.random.default_rng(seed).integers(0, different, (2, 3, k + more)).astype("float32")
    x[x == 0] = -np.inf
    for found, expected in zip(top_k(x, k), ops.top_k(x, k), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_few_blocks_are_looked_into(monkeypatch):
    asked = []
    monkeypatch.setattr(module.ops, "top_k", lambda x, k, top_k=ops.top_k: asked.append(x.shape[-1]) or top_k(x, k))
    top_k(np.zeros((2, 8000), "float32"), 8)
    assert asked == [8000 // BLOCK, 8, 8 * BLOCK]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_of_unknown_batch(jit_compile):
    x = np.random.default_rng(1).normal(size=(3, 4, 1001)).astype("float32")
    signature = [tf.TensorSpec((None, 4, 1001))]
    graph = tf.function(lambda x: top_k(x, 8), signature, autograph=False, jit_compile=jit_compile)
    for found, expected in zip(graph(x), ops.top_k(x, 8), strict=True):
        np.testing.assert_array_equal(found, expected)
