"""Output shapes without a call: `compute_output_shape` of models and blocks, as `TimeDistributed` asks for it."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_headattn import layers, models
from tests.models import graphs
from tests.models.small import sentences, shared
from tests.models.test_sentence_classifiers import make as make_classifier


def encoder(num_layers=1, **arguments):
    return models.Bert(30, 8, 16, num_layers=num_layers, num_heads=2, **arguments)


def attention():
    return layers.MultiHeadAttention(2, 4)


IDS = np.array([[5, 6, 0, 0], [5, 6, 7, 8]], "int32")
STATES = {"states": np.ones((2, 1, 5, 3, 8), "float32"), "mask": np.ones((2, 1, 5), bool)}
WORDS = {"token_ids": np.ones((3, 1, 2, 8), "int32"), "places": np.array([[[1, 2, 9, -1]]] * 3)}
MODELS = {
    "Bert": lambda: (encoder(), IDS),
    "Bert, segments": lambda: (encoder(), {"token_ids": IDS, "segment_ids": IDS * 0}),
    "EncoderClassifier": lambda: (models.EncoderClassifier(encoder(), 3), IDS),
    "TokenClassifier": lambda: (models.TokenClassifier(encoder(pooler=False), 3), IDS),
    "MaskedLM": lambda: (models.MaskedLM(encoder(pooler=False)), IDS),
    "ReplacedTokenDetector": lambda: (models.ReplacedTokenDetector(encoder(pooler=False)), IDS),
    "SpanAnswerer": lambda: (models.SpanAnswerer(encoder()), {"token_ids": IDS, "answer_mask": IDS}),
    "Transformer": lambda: (shared(), sentences()),
    "T5": lambda: (models.T5(13, 8, 16, num_layers=1, num_heads=2, key_dim=4), sentences()),
    "CausalLM": lambda: (models.CausalLM(13, 1, 8, num_heads=2), IDS),
    "CausalLM, documents": lambda: (
        models.CausalLM(13, 1, 8, num_heads=2),
        {"token_ids": IDS, "sequence_ids": IDS * 0},
    ),
    "SentenceClassifier": lambda: (make_classifier(), IDS),
    "SentencePairClassifier": lambda: (make_classifier(pair=True), (IDS, IDS)),
    "RationaleReader": lambda: (models.RationaleReader(2, 3, lstm_dim=4, pooling_dim=4, hidden_dim=4), STATES),
    "RationaleClassifier": lambda: (models.RationaleClassifier(encoder(2, pooler=False), 2, lstm_dim=4), WORDS),
    "ViT": lambda: (models.ViT((4, 4, 3), 2, 8, 8, num_layers=1, num_heads=2, classes=5), np.ones((2, 4, 4, 3))),
    "GraphWriter": lambda: (graphs.shared(), graphs.graphs()),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model, inputs = MODELS[name]()
    outputs = keras.tree.map_structure(lambda output: tuple(output.shape), model(inputs))
    shapes = keras.tree.map_structure(np.shape, inputs)
    found = model.compute_output_shape(shapes)
    assert keras.tree.map_structure(lambda size: size, found) == outputs


@pytest.mark.parametrize(
    "block",
    [
        lambda: layers.EncoderBlock(attention(), intermediate_dim=16),
        lambda: layers.DecoderBlock(attention(), intermediate_dim=16, cross_attention=[]),
        lambda: encoder(pooler=False).blocks[0],
    ],
)
def test_blocks_over_time(block):
    x = np.ones((2, 3, 6, 8), "float32")
    layer = block()
    output = keras.layers.TimeDistributed(layer)(keras.Input((3, 6, 8)))
    assert output.shape == (None, 3, 6, 8)
    assert keras.layers.TimeDistributed(block())(x).shape == (2, 3, 6, 8)


@pytest.mark.parametrize("pooler", [False, True])
def test_the_padding_of_an_encoder_is_handed_on(pooler):
    ids = keras.Input((None,), dtype="int32")
    states = encoder(pooler=pooler)(ids)["sequence_output"]
    model = keras.Model(ids, keras.layers.GlobalAveragePooling1D()(states))
    alone, padded = model(IDS[:1, :2]), model(IDS[:1])
    np.testing.assert_allclose(ops.convert_to_numpy(padded), ops.convert_to_numpy(alone), rtol=1e-5, atol=1e-6)


def test_a_pooled_output_has_no_mask():
    outputs = encoder()(IDS)
    np.testing.assert_array_equal(outputs["sequence_output"]._keras_mask, IDS > 0)
    assert getattr(outputs["pooled_output"], "_keras_mask", None) is None


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_losses_of_tokens_leave_padding_out(dtype):
    model = models.TokenClassifier(encoder(pooler=False, dtype=dtype), 3, dtype=dtype)
    for output in (model(IDS), model(IDS, return_intermediates=True)[0]):
        np.testing.assert_array_equal(output._keras_mask, IDS > 0)


@pytest.mark.parametrize("cls", [layers.RealFormerAttention, layers.GraphAttention])
def test_shapes_of_build_are_those_of_the_output(cls):
    """Keras's summary gives all of them to `compute_output_shape`."""
    layer = cls(2, 4)
    layer.build((None, 5, 8), (None, 6, 8), previous_logits_shape=(None, 2, 5, 6))
    assert layer.compute_output_shape(**layer._build_shapes_dict) == (None, 5, 8)
