import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import ATTENTIONS, MultiHeadAttention
from keras_headattn.models import Bert, BiLSTMEncoder, EncoderClassifier, SentenceClassifier
from keras_headattn.serving import export_classifier
from keras_headattn.serving._inference import projected_together
from keras_headattn.text import WordTokenizer
from keras_headattn.utils import flatten_layers
from tests.refusals import refused

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


def assert_allclose_in_one_thread(path, texts, expected):
    """A condition within `in_sequence` would wait forever for a second thread."""
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, use_per_session_threads=True
    )
    with tf.compat.v1.Session(graph=tf.Graph(), config=options) as session:
        signature = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(path)).signature_def["serving_default"]
        fed = {signature.inputs["text"].name: texts}
        limit = tf.compat.v1.RunOptions(timeout_in_ms=60_000)
        scores = session.run(signature.outputs["scores"].name, fed, options=limit)
    np.testing.assert_allclose(scores, expected, atol=1e-5)


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
    assert_allclose_in_one_thread(path, texts, expected)
    executors = {node.attr["executor_type"].s for node in nodes if node.op == "StatefulPartitionedCall"}
    assert (b"SINGLE_THREADED_EXECUTOR" in executors) == cpu_only


def test_recurrent_models_in_one_thread(tmp_path):
    tokenizer = WordTokenizer(["a", "b", "c"])
    model = SentenceClassifier(BiLSTMEncoder(tokenizer.vocabulary_size, 4, 3), 3)
    model.build()
    path = export_classifier(model, tokenizer, CLASSES, tmp_path, cpu_only=True, warmup_batch_sizes=())
    expected = -np.sort(-keras.ops.softmax(model(tokenizer(["a b", "c"]))), axis=1)
    assert_allclose_in_one_thread(path, ["a b", "c"], expected)


def test_conditions(tmp_path):
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Lambda(lambda ids: tf.cond(tf.shape(ids)[0] > 1, lambda: ids, lambda: -ids))(inputs)
    model = keras.Model(inputs, keras.layers.Embedding(6, 3)(x)[:, 0])
    with refused("cpu_only", True):
        export_classifier(model, WordTokenizer(["a", "b", "c"]), CLASSES, tmp_path, cpu_only=True)
