import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import ATTENTIONS, MultiHeadAttention
from keras_headattn.models import Bert, EncoderClassifier
from keras_headattn.serving import export_classifier
from keras_headattn.serving._inference import projected_together
from keras_headattn.text import WordTokenizer
from keras_headattn.utils import flatten_layers

CLASSES = ["x", "y", "z"]
IDS = np.array([[4, 2, 3, 4, 5], [5, 4, 0, 0, 0]], "int32")


def make_model(attention="multi_head"):
    keras.utils.set_random_seed(0)
    encoder = Bert(6, 16, 32, num_layers=2, num_heads=4, attention=attention, max_length=64, initializer_range=0.5)
    model = EncoderClassifier(encoder, len(CLASSES))
    model.build()
    for weight in model.weights:  # biases too
        weight.assign(weight + 0.1 * keras.random.normal(weight.shape, seed=1))
    return model


def operations(path):
    """Returns the operations of each function of a SavedModel's default signature, and the nodes that call them."""
    graph = tf.saved_model.load(path).signatures["serving_default"].graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return collections.Counter(node.op for node in nodes), nodes


@pytest.mark.parametrize("name", sorted({*ATTENTIONS} - {"luong"}))  # has one head
def test_one_product_for_all_projections_changes_nothing(name):
    model = make_model(name)
    expected = model(IDS)
    with projected_together(model):
        made = tf.function(lambda ids: model(ids, training=False), autograph=False)(IDS)
    np.testing.assert_allclose(made, expected, atol=1e-5)
    assert not any("call" in vars(layer) for layer in flatten_layers(model))


def test_queries_of_other_tensors_are_projected_as_before():
    layer = MultiHeadAttention(num_heads=2, key_dim=3)
    query, value = (keras.random.normal((2, n, 6), seed=n) for n in (3, 5))
    expected, to_key = layer(query, value), layer(query, query, 2 * query)
    with projected_together(layer):
        np.testing.assert_array_equal(layer(query, value), expected)
        np.testing.assert_array_equal(layer(query, query, 2 * query), to_key)


@pytest.mark.parametrize("cpu_only", [False, True])
def test_exports(cpu_only, tmp_path):
    """All projections of a block are one product with its bias, and one more after the heads."""
    model, tokenizer = make_model(), WordTokenizer(["a", "b", "c"])
    path = export_classifier(model, tokenizer, CLASSES, tmp_path, cpu_only=cpu_only, warmup_batch_sizes=())
    texts = ["a b c a", "c", ""]
    found = tf.saved_model.load(path).signatures["serving_default"](text=tf.constant(texts))
    expected = -np.sort(-keras.ops.softmax(model(tokenizer(texts))), axis=1)
    np.testing.assert_allclose(found["scores"], expected, atol=1e-5)
    kinds, nodes = operations(path)
    # Four products a block, and pooler and output.
    assert "Einsum" not in kinds and kinds["MatMul"] == 4 * 2 + 2, kinds
    executors = {node.attr["executor_type"].s for node in nodes if node.op == "StatefulPartitionedCall"}
    assert (b"SINGLE_THREADED_EXECUTOR" in executors) == cpu_only
