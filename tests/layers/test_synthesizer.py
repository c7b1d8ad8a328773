"""Synthesizer attention against its slow transcription: dense, random and mixed with the dot product."""

import itertools
import json

import numpy as np
import pytest

from keras_headattn.layers import SynthesizerAttention
from tests.layers import oracles, oracles_evolving
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    QUERIES,
    SIZES,
    array,
    build,
    check_close,
    cross_inputs,
    random_mask,
    self_input,
)
from tests.refusals import refused

LENGTH, DOUBLE = 8, 1e-12
PARTS = ("dense", "random", "dot_product")
MIXTURES = [mixture for number in (1, 2, 3) for mixture in itertools.combinations(PARTS, number)]
each_mixture = pytest.mark.parametrize("mixture", MIXTURES, ids="-".join)


def make(mixture, dtype="float64", **arguments):
    return SynthesizerAttention(**SIZES, max_length=LENGTH, mixture=mixture, dtype=dtype, **arguments)


def check(layer, mixture, inputs, mask, **call):
    weights = oracles.named_weights(layer)
    for name, x in (("query", inputs[0]), ("key", inputs[2])):
        weights.setdefault(f"{name}.kernel", np.zeros((x.shape[-1], HEADS, KEY_DIM)))  # where no part needs it
    equation = oracles_evolving.synthesizer_equation(mixture)
    expected, scores = oracles.attention(equation, weights, *inputs, mask)
    output, got = layer(*inputs, return_attention_scores=True, **call)
    check_close(output, expected, DOUBLE)
    check_close(got, scores, DOUBLE)
    check_close(layer(*inputs, **call), expected, DOUBLE)


@each_mixture
def test_equations(mixture):
    """Cross-attention, shorter than the longest that there may be, under masks."""
    inputs = cross_inputs(dtype="float64")
    layer, mask = build(make(mixture), *inputs), random_mask((BATCH, HEADS, QUERIES, KEYS))
    mask[0, :, 2] = False
    check(layer, mixture, inputs, mask, attention_mask=mask)


def test_order_of_the_parts_is_that_of_their_shares():
    x = self_input(dtype="float64")
    mixture = ("dot_product", "dense")
    layer = build(make(mixture), x)
    check(layer, mixture, (x, x, x), np.tri(QUERIES, dtype=bool)[None, None], use_causal_mask=True)


def test_longest_sequence():
    x = self_input(dtype="float64", length=LENGTH)
    layer = build(make(PARTS), x)
    check(layer, PARTS, (x, x, x), np.ones((1, 1, LENGTH, LENGTH), bool))
    longer = self_input(dtype="float64", length=LENGTH + 1)
    with refused("`max_length`", LENGTH + 1):
        layer(longer, longer)


def test_equal_shares_at_the_start():
    x = self_input(dtype="float64")
    layer = make(PARTS)
    layer.build(x.shape, x.shape)
    assert len({*array(layer.mixture_logits).tolist()}) == 1


@each_mixture
def test_weights_are_those_that_the_parts_need(mixture):
    layer = build(make(mixture), *cross_inputs())
    names = {w.path.split("/")[1] for w in layer.weights}
    expected = {"value", "attention_output"}
    expected |= {"query"} if {"dense", "dot_product"} & {*mixture} else set()
    expected |= {"key"} if "dot_product" in mixture else set()
    expected |= {"dense_kernel"} if "dense" in mixture else set()
    expected |= {"random_logits"} if "random" in mixture else set()
    assert names == (expected | {"mixture_logits"} if len(mixture) > 1 else expected)


@each_mixture
def test_step_by_step(mixture):
    """Rows and columns of the tables are those of the positions."""
    x = self_input(length=6)
    layer = build(make(mixture, "float32"), x)
    expected = array(layer(x, x, use_causal_mask=True))
    for sizes in ([1] * 6, [3, 1, 2]):
        cache, index = layer.init_cache(BATCH, LENGTH), 0
        for size in sizes:
            piece = x[:, index : index + size]
            output, cache = layer(piece, piece, cache=cache, index=index, use_causal_mask=True)
            check_close(output, expected[:, index : index + size], 5e-6)
            index += size


@each_mixture
def test_cross_attention_step_by_step(mixture):
    query, value, key = cross_inputs()
    layer = build(make(mixture, "float32"), query, value, key)
    cache, expected = layer.project_cache(value, key), array(layer(query, value, key))
    for i in range(QUERIES):
        output, cache = layer(query[:, i : i + 1], cache=cache, index=i)
        check_close(output, expected[:, i : i + 1], 5e-6)


@each_mixture
def test_config(mixture):
    layer = make(mixture)
    config = json.loads(json.dumps(layer.get_config()))
    clone = SynthesizerAttention.from_config(config)
    assert json.dumps(clone.get_config()) == json.dumps(layer.get_config())
    assert tuple(config["mixture"]) == mixture and config["max_length"] == LENGTH
