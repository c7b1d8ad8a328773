"""`Bert`: its parts, padding, any attention, dropout, files, sizes. Its heads are in test_encoder_heads.py."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.layers import EvolvingAttention, MultiHeadAttention, TalkingHeadsAttention
from keras_headattn.models import Bert, EncoderClassifier, ModernBert, TokenClassifier
from tests.layers.harness import copy_weights
from tests.models.encoders import (
    EVOLVING,
    HEADS,
    LENGTH,
    OF,
    VOCABULARY,
    WIDTH,
    inputs_of,
    make,
    make_head,
    pairs,
    paths,
    sentences,
)
from tests.models.small import array, check_close

TOLERANCE = 5e-6
each_kind = pytest.mark.parametrize("kind", OF)
each_attention = pytest.mark.parametrize("attention", layers.ATTENTIONS)


def states(model, inputs, **call):
    return array(model(inputs, **call)["sequence_output"])


# ----------------------------------------------------------------------------------------------- what it is


def test_initial_weights():
    """Normal numbers of deviation 0.02, each variable its own; those of attention too, and not those of maps, nor of
    the projection of embeddings, which are uniform by Glorot."""
    model = Bert(200, 48, 96, num_layers=2, num_heads=4, attention=EVOLVING, embedding_dim=32)
    model.build()
    found = [w for w in model.trainable_weights if "kernel" in w.path or "embeddings" in w.path]
    projection = np.abs(array(model.embedding_projection.kernel))
    assert 0.8 * np.sqrt(6 / 80) < projection.max() <= np.sqrt(6 / 80)
    found = [w for w in found if "map_kernel" not in w.path and "projection" not in w.path and w.shape[0] > 2]
    found = [array(w).ravel() for w in found]
    assert len(found) == 2 + 2 * 6 + 1
    for values in found:
        assert np.abs(values).max() <= 0.04 + 1e-6 and 0.015 < values.std() < 0.02
    assert len({values[0] for values in found}) == len(found)
    assert np.abs(array(model.blocks[1].attention.map_kernel)).max() > 0.2


def test_the_deviation_of_new_weights():
    """Of kernels and embeddings, and of a head; a normal distribution cut at two deviations has 0.88 of it."""
    encoder = Bert(400, 128, 256, num_layers=1, num_heads=4, initializer_range=0.1)
    head = EncoderClassifier(encoder, 64)
    head.build()
    drawn = [weight for weight in head.weights if "norm" not in weight.path and "bias" not in weight.path]
    assert len(drawn) == 11
    for weight in drawn:
        assert array(weight).std() == pytest.approx(0.1 * 0.88, rel=0.15), weight.path
    assert Bert.from_config(encoder.get_config()).initializer_range == 0.1


def test_attention_by_name_and_by_layer():
    """A name and a function are given dropout and initializer; a layer and the stock layer keep their own."""
    for attention in ("multi_head", MultiHeadAttention, lambda **given: MultiHeadAttention(**given)):
        layer = make(attention=attention, attention_dropout=0.3).blocks[0].attention
        assert (layer.dropout, layer.key_dim, layer.kernel_initializer.stddev) == (0.3, WIDTH // HEADS, 0.02)
    for cls in (MultiHeadAttention, keras.layers.MultiHeadAttention):
        layer = make(attention=cls(2, 5, dropout=0.1), attention_dropout=0.3).blocks[0].attention
        assert (type(layer), layer.dropout, layer.key_dim) == (MultiHeadAttention, 0.1, 5)
    model = make("roberta")
    assert model.blocks[1].attention.role == "encoder" and model.blocks[1].attention.depth == 1
    assert model.blocks[0].norms["attention"].epsilon == model.embedding_norm.epsilon == 1e-5


def test_gelu():
    """Exact by default, and by its formula with tanh."""
    x = np.linspace(-4, 4, 81)
    exact, tanh = (array(make(activation=name).blocks[0].feed_forward.activation(x)) for name in ("gelu", "gelu_tanh"))
    check_close(tanh, 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), 1e-6)
    assert 1e-4 < np.abs(exact - tanh).max() < 1e-3


def test_embeddings():
    """Sum, norm and projection, in NumPy."""
    model, inputs = make("electra"), pairs()
    tables = [
        array(layer.embeddings) for layer in (model.token_embedding, model.segment_embedding, model.position_embedding)
    ]
    x = tables[0][inputs["token_ids"]] + tables[1][inputs["segment_ids"]] + tables[2][:6]
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    x = x * array(model.embedding_norm.gamma) + array(model.embedding_norm.beta)
    kernel, bias = map(array, model.embedding_projection.weights)
    check_close(model.embed(inputs, False), x @ kernel + bias, 1e-5)


def test_pooler_and_segments():
    model, ids = make(), sentences()
    outputs = model(ids)
    kernel, bias = map(array, model.pooler.weights)
    check_close(outputs["pooled_output"], np.tanh(array(outputs["sequence_output"])[:, 0] @ kernel + bias), 1e-5)
    zeros = {"token_ids": ids, "segment_ids": np.zeros_like(ids)}
    np.testing.assert_array_equal(states(model, zeros), array(outputs["sequence_output"]))
    np.testing.assert_array_equal(states(model, {"token_ids": ids}), array(outputs["sequence_output"]))
    assert np.abs(states(model, pairs()) - array(outputs["sequence_output"])).max() > 1e-2
    assert set(make("roberta")(ids)) == {"sequence_output"}


def test_positions_without_padding():
    """Where padding has no positions, it may stand anywhere."""
    ids = sentences(pad_id=1)[:1]
    spread = np.insert(ids, [0, 2, 2, 6], 1, axis=1)
    roberta, counting = make("roberta"), make("roberta", skip_padding=False)
    check_close(states(roberta, spread)[spread != 1], states(roberta, ids)[0], TOLERANCE)
    check_close(states(counting, ids), states(roberta, ids), 0)
    assert np.abs(states(counting, spread)[spread != 1] - states(counting, ids)[0]).max() > 1e-2


def test_intermediates():
    model, inputs = make(attention=EVOLVING), pairs()
    outputs, out = model(inputs, return_intermediates=True)
    np.testing.assert_array_equal(array(outputs["sequence_output"]), states(model, inputs))
    assert set(out) == {"block_0/attention", "block_1/attention"}
    assert not array(out["block_1/attention"]["weights"])[1, :, :, 4:].any()
    head = make_head("masked")
    logits, out = head(inputs_of(head), return_intermediates=True)
    check_close(logits, head(inputs_of(head)), TOLERANCE)
    assert set(out) == {"block_0/attention", "block_1/attention"}


# -------------------------------------------------------------------------------- attentions, maps, padding


@each_attention
def test_padding_changes_nothing(attention):
    """Neither how much there is, nor what its embedding is, with every attention of the library."""
    model, inputs = make(attention=attention), pairs()
    real, expected = inputs["token_ids"] != 0, states(model, inputs)
    assert np.abs(states(model, {**inputs, "token_ids": inputs["token_ids"][::-1]}) - expected).max() > 1e-2
    padded = {name: np.pad(value, ((0, 0), (0, 3))) for name, value in inputs.items()}
    check_close(states(model, padded)[:, :6][real], expected[real], TOLERANCE)
    table = array(model.token_embedding.embeddings).copy()
    table[0] = 50.0
    model.token_embedding.embeddings.assign(table)
    check_close(states(model, inputs)[real], expected[real], TOLERANCE)


@each_kind
@pytest.mark.parametrize("kernel_size", [3, 5])
def test_padding_with_evolving_attention(kind, kernel_size):
    """Of three blocks; a sentence alone has the states that it has in a batch, and one of padding alone is finite."""
    model = make(kind, num_layers=3, attention=functools.partial(EVOLVING, kernel_size=kernel_size))
    ids = sentences(pad_id=model.pad_id)
    expected = states(model, ids)
    for length in (4, 5, 9):
        alone = np.full((1, length), model.pad_id)
        alone[:, :4] = ids[1, :4]
        check_close(states(model, alone)[0, :4], expected[1, :4], TOLERANCE)
    ids[2] = model.pad_id
    found = states(model, ids)
    assert np.isfinite(found).all()
    check_close(found[0], expected[0], TOLERANCE)


@pytest.mark.parametrize(
    "own, sizes", [({"key_dim": 5}, (HEADS, 5, 0.1)), ({"num_heads": 6, "dropout": 0.3}, (6, 2, 0.3))]
)
def test_a_partial_keeps_its_arguments(own, sizes):
    model = make(attention=functools.partial(MultiHeadAttention, **own), hidden_dim=12, attention_dropout=0.1)
    layer = model.blocks[0].attention
    assert (layer.num_heads, layer.key_dim, layer.dropout) == sizes


def test_maps_travel_through_the_blocks():
    """Each block is given what the one before returns; the first has no convolution."""
    model, ids = make(num_layers=3, attention=EVOLVING), sentences()
    kernels = [block.attention.map_kernel for block in model.blocks]
    assert kernels[0] is None and kernels[1].shape == kernels[2].shape == (3, 3, HEADS, HEADS)
    x, state = model.embed(ids, training=False), {"logits": {}}
    for block in model.blocks:
        x, state = block(x, ids != 0, previous_logits=state["logits"], return_state=True)
        assert set(state["logits"]) == {"attention"}
    check_close(x, states(model, ids), TOLERANCE)


@pytest.mark.parametrize(
    "attention",
    [
        functools.partial(EvolvingAttention, alpha=0.0, beta=0.0),
        functools.partial(TalkingHeadsAttention, mixing_initializer="identity"),
    ],
)
def test_attention_that_is_the_plain_one(attention):
    """Exactly, with the same weights and without the fused kernel; with it but for rounding."""
    plain, inputs = make(), pairs()
    model = make(attention=attention, randomly=False)
    copy_weights(plain, model)
    assert set(paths(plain)) <= set(paths(model))
    expected, _ = plain(inputs, return_intermediates=True)
    found = model(inputs)
    for name in expected:
        np.testing.assert_array_equal(array(found[name]), array(expected[name]))
        check_close(found[name], plain(inputs)[name], 1e-6)


def test_identity_kernel_keeps_most():
    """What begins with it and the weights of a plain model is nearer to that model than what begins by default."""
    plain, inputs, distances = make(), pairs(), {}
    for initializer in ("identity", "glorot_uniform"):
        attention = functools.partial(EvolvingAttention, alpha=0.0, beta=0.2, map_initializer=initializer)
        model = Bert(**{**plain.get_config(), "attention": attention})
        model.build()
        copy_weights(plain, model)
        distances[initializer] = np.abs(states(model, inputs) - states(plain, inputs)).mean()
    assert 0 < distances["identity"] < distances["glorot_uniform"]


# ------------------------------------------------------------------------------------------------- training


def test_dropout():
    """Of a seed, in training alone."""
    ids = sentences()
    first, again = (make(dropout=0.4, attention_dropout=0.2, seed=3) for _ in range(2))
    calm = make(dropout=0.0)
    np.testing.assert_array_equal(states(first, ids), states(calm, ids))
    np.testing.assert_array_equal(states(first, ids, training=True), states(again, ids, training=True))
    assert np.abs(states(first, ids, training=True) - states(first, ids)).max() > 1e-2
    for head in ("bert", "roberta", "linear", "masked"):
        model = make_head(head, dropout=0.0, attention_dropout=0.0)
        noise = np.abs(array(model(inputs_of(model), training=True)) - array(model(inputs_of(model)))).max()
        assert (noise > 1e-3) == isinstance(model, (EncoderClassifier, TokenClassifier)), head


# ---------------------------------------------------------------------------------- precision, files, shapes


@pytest.mark.parametrize(
    "kind, attention", [(kind, EVOLVING) for kind in OF] + [("bert", a) for a in layers.ATTENTIONS]
)
def test_config(kind, attention):
    model = make(kind, attention=attention, activation="gelu_tanh", seed=1)
    again = type(model).from_config(json.loads(json.dumps(model.get_config())))
    assert again.get_config() == model.get_config()
    again.build()
    assert paths(again) == paths(model)


def test_file_of_an_encoder(tmp_path):
    """Also of one that was never built by hand, whose weights load into a head's."""
    model = Bert(VOCABULARY, WIDTH, 10, num_layers=2, num_heads=HEADS, attention="disentangled_mask", max_length=LENGTH)
    expected = model(pairs())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    head = EncoderClassifier(loaded, 2)
    head(pairs())
    np.testing.assert_array_equal(states(head.encoder, pairs()), array(expected["sequence_output"]))
    head.encoder.save_weights(tmp_path / "encoder.weights.h5")
    other = make(attention="disentangled_mask")
    other.load_weights(tmp_path / "encoder.weights.h5")
    np.testing.assert_array_equal(states(other, pairs()), array(expected["sequence_output"]))


# ----------------------------------------------------------------------------------------- sizes and errors


@pytest.mark.parametrize(
    "size, pooler, plain, convolutions",
    [
        ("bert_base", True, 109_482_240, 14_388),
        ("bert_large", True, 335_141_888, 53_360),
        ("roberta_large", False, 354_307_072, 53_360),
        ("electra_small", False, 13_483_008, 11 * (9 * 16 + 4)),
        ("modernbert_base", False, 149_014_272, 21 * (9 * 144 + 12)),
        ("modernbert_large", False, 394_781_696, 27 * (9 * 256 + 16)),
    ],
)
def test_parameters(size, pooler, plain, convolutions):
    """Wang et al. 2021, table 3; ModernBERT's of Hugging Face. In a graph, whose variables are not made."""
    with tf.Graph().as_default():
        model = (ModernBert if "modern" in size else Bert).from_size(size, attention="evolving")
        model.build()
    maps = sum(np.prod(weight.shape) for weight in model.weights if weight.name in ("map_kernel", "map_bias"))
    assert (model.count_params() - maps, maps, model.pooler is not None) == (plain, convolutions, pooler)
