""" "Disentangled mask attention in Transformer", tables 1, 2, 3, 6 and 7: parameters.

Tables 2, 3 and 6 round their vocabularies to thousands: of 44,000 and 45,000 pieces theirs are those that give what
they print for multi-head attention.
"""

import numpy as np
import pytest

from keras_headattn.layers import DisentangledMaskAttention, MultiHeadAttention
from keras_headattn.models import Transformer

SMALL = 8
IWSLT = 8848 + 6632  # of two languages; one output matrix is tied to the embedding
WMT = 43_722
CHINESE = 45_800
BLOCKS = 6  # of encoder and decoder, all alike: a model of one has the weights of all


def numbers(layer):
    return sum(int(np.prod(variable.shape)) for variable in layer.trainable_variables)


@pytest.mark.parametrize(
    "width, intermediate_dim, heads, vocabulary, clusters, millions",
    [
        (512, 1024, 4, IWSLT, None, 39.5),
        (512, 1024, 4, IWSLT, 4, 39.56),
        (512, 1024, 4, IWSLT, 8, 39.65),
        (512, 1024, 4, IWSLT, 12, 39.74),
        (384, 1024, 4, IWSLT, 4, 26.1),
        (256, 512, 4, IWSLT, 4, 11.9),
        (512, 2048, 8, 37_000, None, 63.08),
        (512, 2048, 8, 37_000, 4, 63.16),
        (512, 2048, 8, WMT, None, 66.52),
        (512, 2048, 8, WMT, 4, 66.61),
        (384, 2048, 8, WMT, 4, 46.4),
        (512, 1024, 4, CHINESE, None, 55.0),
        (512, 1024, 4, CHINESE, 4, 55.1),
    ],
)
def test_parameters(width, intermediate_dim, heads, vocabulary, clusters, millions):
    attention = MultiHeadAttention(heads, width // heads)
    if clusters:
        attention = DisentangledMaskAttention(heads, width // heads, num_clusters=clusters)
    model = Transformer(
        SMALL,
        num_layers=1,
        hidden_dim=width,
        intermediate_dim=intermediate_dim,
        attention=attention,
        normalization="post",
    )
    ids = np.ones((1, 2), "int32")
    model({"source": ids, "target": ids})
    blocks = sum(map(numbers, model.encoder_blocks + model.decoder_blocks))
    count = numbers(model) + (BLOCKS - 1) * blocks + (vocabulary - SMALL) * width
    digits = len(str(millions).partition(".")[2])
    unit = 10 ** (6 - digits)
    assert round(millions * 1e6 / unit) in (round(count / unit), count // unit)  # some are rounded, some cut off
