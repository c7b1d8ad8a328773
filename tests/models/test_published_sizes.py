"""Wang et al. 2021, "Evolving attention", table 5: parameters and operations of Transformers for translation."""

import functools

import pytest
import tensorflow as tf

from benchmarks.flops import count_flops
from keras_headattn.layers import EvolvingAttention
from keras_headattn.models import Transformer

VOCABULARY = 8
# Of sentences of 30 tokens, which the paper does not say, but Wu et al. 2020, from whom it has "lite", do.
LENGTH = 30


def transformer(size, attention):
    plain = Transformer.from_size(size, VOCABULARY)
    if attention == "multi_head":
        return plain
    template = plain.templates["attention"].make()
    make = functools.partial(EvolvingAttention, template.num_heads, template.key_dim, beta=0.1)
    return Transformer.from_size(
        size,
        VOCABULARY,
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
    model = transformer(size, attention)
    spec = tf.TensorSpec((1, LENGTH), tf.int32)
    count = count_flops(model, {"source": spec, "target": spec})
    embedding = VOCABULARY * model.hidden_dim  # counted by neither
    assert round((model.count_params() - embedding) / 1e6, 2) == millions
    assert count - 2 * LENGTH * embedding == pytest.approx(flops, rel=0.02)
