"""Wang et al. 2021, "Evolving attention", table 5: parameters and operations of Transformers for translation."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.flops import count_flops
from keras_headattn.layers import EvolvingAttention
from keras_headattn.models import Transformer

VOCABULARY = 8
# Of sentences of 30 tokens, which the paper does not say, but Wu et al. 2020, from whom it has "lite", do.
LENGTH = 30


def transformer(size, attention, num_layers):
    plain = Transformer.from_size(size, VOCABULARY, num_layers=num_layers)
    if attention == "multi_head":
        return plain
    template = plain.templates["attention"].make()
    make = functools.partial(EvolvingAttention, template.num_heads, template.key_dim, beta=0.1)
    return Transformer.from_size(
        size,
        VOCABULARY,
        num_layers=num_layers,
        attention=lambda **_: make(alpha=0.1),
        decoder_attention=make(alpha=0, role="decoder"),
        cross_attention=make(alpha=0, role="cross"),
    )


@pytest.mark.parametrize(
    "size, attention, millions, flops",
    [
        ("lite", "multi_head", 2.48, 158.31e6),
        ("lite", "evolving", 2.49, 163.46e6),
        ("base", "multi_head", 44.14, 2.68e9),
        ("base", "evolving", 44.15, 2.70e9),
    ],
)
def test_table_5(size, attention, millions, flops):
    """Of models of one block and of two; each of the other blocks has as much as the second has more."""
    blocks = Transformer.from_size(size, VOCABULARY).num_layers
    spec = tf.TensorSpec((1, LENGTH), tf.int32)
    counts = []
    for num_layers in (1, 2):
        model = transformer(size, attention, num_layers)
        operations = count_flops(model, {"source": spec, "target": spec})
        counts.append(np.array([model.count_params(), operations]))
    weights, operations = counts[1] + (blocks - 2) * (counts[1] - counts[0])
    embedding = VOCABULARY * model.hidden_dim  # counted by neither
    assert round((weights - embedding) / 1e6, 2) == millions
    assert operations - 2 * LENGTH * embedding == pytest.approx(flops, rel=0.02)
