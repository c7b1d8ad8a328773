"""Attention of the vertices of a graph, its blocks, and the graph of triples, against equations and public code."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers, ops
from keras_headattn.optimizers._heads import select_heads
from tests.layers.harness import array, build, check_close, randomize
from tests.models.graphs import assign, block_weights

DOUBLE, FLOAT32 = 1e-13, 2e-6
TRIPLES = np.array([[[0, 3, 2], [2, 4, 1], [1, 5, 1]], [[0, 4, 1], [0, 0, 0], [0, 0, 0]]])
REAL = np.array([[True, True, True], [True, True, False]])  # entities


def neighbours(triples, entities, padded_entities, padded_relations):
    """The graph of one item, vertex by vertex, as sets of those that each attends to."""
    glob, first = padded_entities, padded_entities + 1
    found = {i: {i, glob} for i in range(entities)} | {glob: {glob, *range(entities)}}
    for number, (head, relation, tail) in enumerate(triples):
        if relation:
            vertex, inverse = first + number, first + padded_relations + number
            found |= {vertex: {vertex}, inverse: {inverse}}
            for one, other in ((head, vertex), (vertex, tail), (tail, inverse), (inverse, head)):
                found[one].add(other)
    return found


# --------------------------------------------------------------------------------------------------------- graph


def test_adjacency_by_hand():
    adjacency, mask = map(array, ops.graph_adjacency(TRIPLES, REAL))
    for item in range(2):
        expected = neighbours(TRIPLES[item], REAL[item].sum(), 3, 3)
        found = {i: set(np.flatnonzero(row)) for i, row in enumerate(adjacency[item]) if row.any()}
        assert found == expected
        np.testing.assert_array_equal(np.flatnonzero(mask[item]), sorted(expected))


def test_padding_changes_no_edge():
    wider = np.pad(TRIPLES, ((0, 0), (0, 2), (0, 0)))
    adjacency, mask = map(array, ops.graph_adjacency(TRIPLES, REAL))
    padded, padded_mask = map(array, ops.graph_adjacency(wider, np.pad(REAL, ((0, 0), (0, 4)))))
    for item in range(2):
        here, there = np.flatnonzero(mask[item]), np.flatnonzero(padded_mask[item])
        np.testing.assert_array_equal(padded[item][np.ix_(there, there)], adjacency[item][np.ix_(here, here)])
        assert padded[item].sum() == adjacency[item].sum()


@pytest.mark.parametrize("triples, entities", [(0, 2), (2, 0)])
def test_graphs_without_triples_or_entities(triples, entities):
    adjacency, mask = ops.graph_adjacency(np.zeros((1, triples, 3), "int32"), np.ones((1, entities), bool))
    size = entities + 1 + 2 * triples
    assert tuple(adjacency.shape) == (1, size, size) and array(mask).sum() == entities + 1


# ----------------------------------------------------------------------------------------------------- attention


def attention_by_hand(kernels, vertices, adjacency):
    """Heads side by side, one vertex and one neighbour at a time."""
    width = kernels[0].shape[1] * kernels[0].shape[2]
    output = np.zeros((len(vertices), width))
    for i in np.flatnonzero(adjacency.any(axis=1)):
        heads, seen = [], vertices[adjacency[i]]
        for query, key, value in zip(*(np.moveaxis(kernel, 1, 0) for kernel in kernels), strict=True):
            exponents = np.exp([(vertices[i] @ query) @ (v @ key) / np.sqrt(width) for v in seen])
            heads.append(sum(e * (v @ value) for e, v in zip(exponents, seen, strict=True)) / exponents.sum())
        output[i] = np.concatenate(heads)
    return output


def test_attention_by_hand():
    rng = np.random.default_rng(0)
    adjacency, mask = map(array, ops.graph_adjacency(TRIPLES, REAL))
    vertices = rng.normal(size=(*mask.shape, 12))
    layer = build(layers.GraphAttention(3, 4, dtype="float64"), vertices)
    output = array(layer(vertices, vertices, attention_mask=adjacency))
    for item, real in enumerate(mask):
        expected = attention_by_hand(layer.get_weights(), vertices[item], adjacency[item] & real)[real]
        check_close(output[item][real], expected, DOUBLE)
        assert not output[item][~real].any()


def test_weights_there_are():
    layer = build(layers.GraphAttention(3, 4), np.zeros((1, 2, 12)))
    assert [tuple(weight.shape) for weight in layer.weights] == [(12, 3, 4)] * 3
    assert layer.scale == 12**-0.5 and layers.GraphAttention(3, 4, scale=0.5).scale == 0.5
    assert layer.output_dense is None
    assert build(layers.GraphAttention(3, 4, output_shape=7), np.zeros((1, 2, 12))).output_dense.kernel.shape == (
        3,
        4,
        7,
    )


def test_it_is_multi_head_attention_without_an_output():
    x = np.random.default_rng(1).normal(size=(2, 5, 12))
    graph = build(layers.GraphAttention(3, 4, dtype="float64"), x)
    plain = layers.MultiHeadAttention(3, 4, use_bias=False, output_shape=12, dtype="float64")
    build(plain, x).set_weights([*graph.get_weights(), np.eye(12).reshape(3, 4, 12)])
    plain.query_dense.kernel.assign(array(graph.query_dense.kernel) * (4 / 12) ** 0.5)
    check_close(graph(x, x), plain(x, x), DOUBLE)


@pytest.mark.parametrize("detach", [False, True])
def test_gradient_through_neighbours(detach):
    """The first vertex attends to the second: only messages carry a gradient to it, and all kernels have one."""
    x = tf.constant(np.random.default_rng(2).normal(size=(1, 2, 12)))
    layer = build(layers.GraphAttention(3, 4, detach_neighbours=detach, dtype="float64"), x)
    adjacency = np.array([[[True, True], [False, True]]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(layer(x, x, attention_mask=adjacency)[0, 0] ** 2)
    of_x, *of_kernels = tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])
    assert all(np.abs(array(gradient)).max() > 1e-3 for gradient in of_kernels)
    assert bool(np.abs(array(of_x)[0, 1]).max() > 1e-3) == (not detach)
    assert np.abs(array(of_x)[0, 0]).max() > 1e-6


# -------------------------------------------------------------------------------------------------------- blocks


def test_number_of_parameters():
    block = layers.GraphBlock(layers.GraphAttention(4, 125), 2000)
    block.build((None, None, 500))
    assert block.count_params() == 2_755_500


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("graph", [0, 1])
def test_block_of_the_public_code(golden, graph, dtype):
    data = golden("graphwriter_block.npz")
    suffix, tolerance = ("_f64", DOUBLE) if dtype == "float64" else ("", FLOAT32)
    adjacency = data[f"graph{graph}.adjacency"][None] != 0
    x = data[f"graph{graph}.input"].astype(dtype)[None]
    for number in range(2):
        block = layers.GraphBlock(layers.GraphAttention(4, 5), 80, dtype=dtype)
        block.build(x.shape)
        assign(block, block_weights(data, number))
        attended, scores = block.attention(x, x, attention_mask=adjacency, return_attention_scores=True)
        check_close(array(attended) + x, data[f"graph{graph}.attn{number}{suffix}"][None], tolerance)
        check_close(array(scores)[0], data[f"graph{graph}.map{number}_npf64"], tolerance)
        x = array(block(x, adjacency))
        check_close(x, data[f"graph{graph}.block{number}{suffix}"][None], tolerance)


def make_block(attention_dropout=0.0, **arguments):
    block = layers.GraphBlock(layers.GraphAttention(3, 4, dropout=attention_dropout), 10, **arguments)
    block.build((None, None, 12))
    return block


def test_dropouts_of_a_block():
    """Of attention weights and after the second matrix; none in evaluation."""
    x, adjacency = np.random.default_rng(3).normal(size=(1, 4, 12)).astype("float32"), np.ones((1, 4, 4), bool)
    calm = randomize(make_block(dropout=0.0))
    for arguments in ({"dropout": 0.5, "seed": 1}, {"dropout": 0.0, "attention_dropout": 0.5, "seed": 1}):
        block = make_block(**arguments)
        block.set_weights(calm.get_weights())
        check_close(block(x, adjacency), calm(x, adjacency))
        one, two = (array(block(x, adjacency, training=True)) for _ in range(2))
        assert np.abs(one - two).max() > 1e-3


def test_heads_of_a_block_are_those_of_an_encoder():
    block = make_block(depth=2)
    assert (block.attention.role, block.attention.depth) == ("encoder", 2)
    found = select_heads(block.trainable_variables, roles=("encoder",))
    assert [kernel.projection for kernel in found] == ["query", "key", "value"]


@pytest.mark.parametrize(
    "attention", [layers.TalkingHeadsAttention(3, 5), layers.GraphAttention(2, 5, value_dim=6, detach_neighbours=True)]
)
def test_any_attention(attention):
    block = layers.GraphBlock(attention, 10)
    x, adjacency = np.ones((1, 4, 12), "float32"), np.eye(4, dtype=bool)[None]
    assert tuple(block(x, adjacency).shape) == x.shape
    copy = layers.GraphBlock.from_config(block.get_config())
    assert copy.get_config() == block.get_config()


def test_keras_mask_of_vertices():
    vertices = keras.layers.Embedding(9, 12, mask_zero=True)(np.array([[1, 2, 0], [3, 4, 5]]))
    block, everything = make_block(), np.ones((2, 3, 3), bool)
    output = block(vertices, everything)
    np.testing.assert_array_equal(output._keras_mask, vertices._keras_mask)
    check_close(output[:1, :2], block(array(vertices)[:1, :2], everything[:1, :2, :2]))
