"""What a step of the search costs, and that nothing of it depends on how the cost is saved."""

import collections
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.decoding import Searcher
from keras_headattn.decoding._search import search_lengths
from keras_headattn.models import Transformer
from keras_headattn.ops._attention import key_product
from keras_headattn.ops._dense import normalize
from keras_headattn.serving._stored_weights import StoredWeights
from keras_headattn.serving._translator_exports import stored_search
from tests.models.small import CASES, array, check_close, make, sentences, shared


def step(model, source, **kernels):
    cache = model.init_cache(source, 4, **kernels)
    logits, cache = model.decode_step(source[:, :2], cache, 0, **kernels)
    return array(logits), array(model.decode_step(source[:, 2:3], cache, 2, **kernels)[0])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kernels_made_once_change_nothing(case):
    model, source = shared(case.name), sentences(seed=4)["source"]
    for made, expected in zip(step(model, source, kernels=model.decoding_kernels()), step(model, source), strict=True):
        check_close(made, expected, 1e-5)


def test_kernels_of_gates_and_without_biases():
    model = make(attention=CASES[0].make(use_gate=True, use_bias=False))
    kernels, source = model.decoding_kernels(), sentences(seed=4)["source"]
    assert {*kernels["blocks"][0]["attention"]["query"]} == {"kernel"}
    check_close(step(model, source, kernels=kernels)[1], step(model, source)[1], 1e-5)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
def test_quantised_weights_are_not_copied():
    model = make()
    model.quantize("int8")
    kernels, source = model.decoding_kernels(), sentences(seed=4)["source"]
    (block,) = kernels["blocks"]
    assert block["attention"] == block["cross_attention"] == {} and "output" not in kernels
    check_close(step(model, source, kernels=kernels)[1], step(model, source)[1], 1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "bfloat16", "float16"])
def test_normalize_is_layer_normalisation(policy):
    layer = keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy)
    # Squares of these are infinite in float16.
    x = keras.ops.cast(400 * np.random.default_rng(0).normal(size=(2, 5, 8)), policy.removeprefix("mixed_"))
    expected = layer(x)
    made = normalize(x, layer.gamma + 0.0, layer.beta + 0.0, layer.epsilon)
    assert made.dtype == expected.dtype
    check_close(array(keras.ops.cast(made, "float32")), array(keras.ops.cast(expected, "float32")), 1e-5)


def test_lengths_of_a_cache_that_grows():
    assert search_lengths(1) == [1] and search_lengths(32) == [32]
    assert search_lengths(33) == [32, 33] and search_lengths(512) == [32, 128, 512]


@pytest.mark.parametrize("name", ["multi_head", "evolving_decoder", "relative"])
@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_cache_that_grows_finds_the_same(monkeypatch, name, beam_size):
    """Three positions, then five: evolving maps and positions have rows of their own."""
    model, source = shared(name), sentences(seed=4)["source"]
    searcher = Searcher(model, beam_size, max_length=5)
    expected = tf.function(searcher)(source)
    monkeypatch.setattr("keras_headattn.decoding._search.FIRST_LENGTH", 3)
    grown = tf.function(searcher)(source)
    np.testing.assert_array_equal(grown["tokens"], expected["tokens"])
    np.testing.assert_allclose(grown["scores"], expected["scores"], rtol=1e-5)


# ------------------------------------------------------------------------------------------------------- without XLA


def operations_of_a_step(function):
    """Operations of the loop's body that its results need, by kind; constants and identities are none."""
    graph = function.graph.as_graph_def()
    bodies = {definition.signature.name: definition for definition in graph.library.function}
    (loop,) = (node for node in graph.node if node.op in ("While", "StatelessWhile"))
    body = bodies[loop.attr["body"].func.name]
    nodes = {node.name: node for node in body.node_def}
    needed, found = [name.split(":")[0] for name in body.ret.values()], set()
    while needed:
        name = needed.pop()
        if name in nodes and name not in found:
            found.add(name)
            needed += [source.lstrip("^").split(":")[0] for source in nodes[name].input]
    kinds = collections.Counter(nodes[name].op for name in found)
    return {kind: number for kind, number in kinds.items() if kind not in ("Const", "Identity", "NoOp")}


@pytest.mark.parametrize("beam_size, most", [(4, 258), (1, 213)])
def test_operations_of_a_step_of_two_layers(beam_size, most):
    """Before kernels were made once and sizes left alone it was 750 and 540."""
    model = Transformer(100, num_layers=2, hidden_dim=32, intermediate_dim=64, num_heads=4)
    model.build()
    search = tf.function(Searcher(model, beam_size, max_length=32), autograph=False)
    kinds = operations_of_a_step(search.get_concrete_function(tf.TensorSpec((None, None), tf.int32)))
    assert sum(kinds.values()) <= most, kinds
    # Products: of inputs, of queries, of heads twice and of the feed-forward layer twice a layer, and the logits. Those
    # of queries and keys are one a hypothesis.
    assert kinds["MatMul"] == 13 and kinds["BatchMatMulV2"] == 4 and kinds["Einsum"] == 4 * beam_size


def test_the_search_of_an_export_for_cpus_runs_in_one_thread_and_reads_variables_once():
    model = Transformer(100, num_layers=1, hidden_dim=32, intermediate_dim=64, num_heads=4)
    searcher = Searcher(model, max_length=32)
    searcher.build()
    search = tf.function(stored_search(searcher, StoredWeights(searcher), cpu_only=True), autograph=False)
    graph = search.get_concrete_function(tf.TensorSpec((None, None), tf.int32)).graph.as_graph_def()
    (call,) = (node for node in graph.node if node.op == "StatefulPartitionedCall")
    assert call.attr["executor_type"].s == b"SINGLE_THREADED_EXECUTOR"
    functions = {function.signature.name: function for function in graph.library.function}
    (loop,) = (node for node in functions[call.attr["f"].func.name].node_def if node.op in ("While", "StatelessWhile"))
    assert not loop.attr["_lower_using_switch_merge"].b  # such a loop has several threads again
    assert "ReadVariableOp" not in {node.op for node in functions[loop.attr["body"].func.name].node_def}


# ---------------------------------------------------------------------------------------------------------- with XLA


def test_no_product_is_fused_into_a_loop():
    """XLA computes a product that it fuses into a loop one number at a time, with its input anew for each."""
    model = Transformer(8000, num_layers=1, hidden_dim=64, intermediate_dim=128, num_heads=4)
    model.build()
    searcher = Searcher(model, beam_size=1, max_length=8)
    search = tf.function(searcher, jit_compile=True, autograph=False)
    text = search.experimental_get_compiler_ir(tf.ones((1, 8), "int32"))(stage="optimized_hlo")
    bodies = re.split(r"^(?:ENTRY )?%([\w.-]+) \(", text, flags=re.MULTILINE)
    with_products = {name for name, body in zip(bodies[1::2], bodies[2::2], strict=True) if " dot(" in body}
    in_loops = {*re.findall(r"kind=kLoop, calls=%([\w.-]+)", text)}
    assert in_loops and with_products and not in_loops & with_products


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("batch, heads", [(1, 4), (4, 1), (4, 2)])
def test_no_keys_are_copied_for_few_queries(batch, heads, rows):
    """XLA would transpose the keys of one item or of one head for each product."""
    product = tf.function(key_product, jit_compile=True)
    query, key = tf.ones((batch, heads, rows, 8)), tf.ones((batch, heads, 64, 8))
    text = product.experimental_get_compiler_ir(query, key)(stage="optimized_hlo")
    assert " dot(" in text and "transpose(" not in text
