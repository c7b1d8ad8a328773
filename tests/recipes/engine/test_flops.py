import pytest
import tensorflow as tf

from keras_headattn.models import Transformer
from recipes.engine.modelling import count_flops


@pytest.mark.parametrize("call, flops", [
    (lambda: tf.matmul(tf.ones((7, 3)), tf.ones((5, 7)), transpose_a=True, transpose_b=True), 2 * 3 * 7 * 5),
    (lambda: tf.matmul(tf.ones((2, 7, 3)), tf.ones((2, 7, 5)), transpose_a=True), 2 * 2 * 3 * 7 * 5),
    (lambda: tf.einsum("bqd,bkd->bqk", tf.ones((2, 3, 4)), tf.ones((2, 5, 4))), 2 * 2 * 3 * 4 * 5),
    (lambda: tf.nn.conv2d(tf.ones((1, 8, 8, 4)), tf.ones((3, 3, 2, 6)), 2, "SAME"), 2 * 4 * 4 * 6 * 3 * 3 * 2),
    (tf.function(lambda: tf.ones((1, 3)) @ tf.ones((3, 5))), 30),
    (lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]), None),
])  # fmt: skip
def test_operations(call, flops):
    assert count_flops(call) == flops


def test_a_papers_model():
    """Transformer-Lite on 30 tokens, of Wang et al. 2021, table 5."""
    model = Transformer(100, num_layers=6, hidden_dim=160, intermediate_dim=160, num_heads=4)
    model.build()
    ids = tf.ones((1, 30), tf.int32)
    assert count_flops(lambda: model.states({"source": ids, "target": ids})) == pytest.approx(158.31e6, rel=0.005)
