"""The signature `attention` against `analysis.attention_maps` of the same model."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.analysis import attention_maps
from keras_headattn.decoding import Searcher
from keras_headattn.layers import InteractingHeadAttention, SelfAttentivePooling, TalkingHeadsAttention
from keras_headattn.models import (
    BiLSTMEncoder,
    SentenceClassifier,
    SentencePairClassifier,
    Transformer,
    TransformerEncoder,
)
from keras_headattn.serving import export_classifier, export_regressor, export_translator
from keras_headattn.serving._warmup import read_warmup
from keras_headattn.text import SentencePieceTokenizer, WordTokenizer, train_sentencepiece
from tests.refusals import refused

ENGLISH = ["the cat sat on the mat", "a dog ran after the cat", "no cat sat still"]
TEXTS = ["the cat sat", "", "a dog ran after the cat on the mat"]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return train_sentencepiece(ENGLISH, tmp_path_factory.mktemp("vocabulary") / "v.model", 32)


def make_transformer(attention, **kwargs):
    model = Transformer(32, num_layers=2, hidden_dim=16, intermediate_dim=32, attention=attention, **kwargs)
    model.build()
    random = np.random.default_rng(3)
    for weight in model.trainable_weights:  # large ones, so that translations differ
        if weight.name not in ("gamma", "beta"):
            weight.assign(random.normal(size=weight.shape) * 4 / weight.shape[-1] ** 0.5)
    return model


@pytest.mark.parametrize(
    "attention, maps",
    [(TalkingHeadsAttention(2, 8), 2), (InteractingHeadAttention(2, 8, interaction="pairwise"), 4)],
    ids=["below zero", "pairs of heads"],
)
def test_translations(attention, maps, vocabulary, tmp_path):
    tokenizer = SentencePieceTokenizer(vocabulary)
    model = make_transformer(attention)
    searcher = Searcher(model, beam_size=2, max_length=8, start_id=tokenizer.bos_id, end_id=tokenizer.eos_id)
    path = export_translator(searcher, tokenizer, tokenizer, tmp_path, attention=True)
    loaded = tf.saved_model.load(path)
    signatures = loaded.signatures
    names = [weight.name for weight in loaded.weights]
    assert any("encoder_0/attention/query/kernel" in name for name in names)
    assert not [name for name in names if re.search("decoder.*(query|key|value|output)/kernel", name)]  # held twice
    default = signatures["serving_default"](text=tf.constant(TEXTS))
    found = {name: value.numpy() for name, value in signatures["attention"](text=tf.constant(TEXTS)).items()}
    assert found["translations"].tolist() == default["translations"].numpy().tolist()
    np.testing.assert_allclose(found["scores"], default["scores"], rtol=1e-5)

    source = tokenizer(TEXTS)
    tokens = searcher(source)["tokens"][:, 0].numpy()
    lengths = [[*row, tokenizer.eos_id].index(tokenizer.eos_id) + 1 for row in tokens.tolist()]
    tokens = tokens[:, : max(lengths)]
    assert found["weights"].shape == (3, 2, maps, tokens.shape[1], found["source_pieces"].shape[1])
    for row, length in enumerate(lengths):  # each by itself, unpadded
        read, written = source.numpy()[row], tokens[row, :length]
        read = read[read > 0]
        inputs = {"source": read[None], "target": np.array([[tokenizer.bos_id, *written[:-1]]])}
        layers = [value for name, value in attention_maps(model, inputs).items() if "cross_attention" in name]
        expected = np.stack([layer.weights[0].reshape(maps, len(written), len(read)) for layer in layers])
        np.testing.assert_allclose(found["weights"][row, ..., : len(written), : len(read)], expected, atol=2e-4)
        assert not found["weights"][row, :, :, len(written) :].any()
        assert not found["weights"][row, ..., len(read) :].any()
        names = [piece.decode() for piece in found["target_pieces"][row]]
        expected = [tokenizer.id_to_token(token) if token else "" for token in written.tolist()]
        assert names == expected + [""] * (tokens.shape[1] - len(written))
        assert found["source_pieces"][row][0].decode() == tokenizer.id_to_token(int(read[0]))

    none = signatures["attention"](text=tf.constant([], tf.string))
    assert {name: len(value) for name, value in none.items()} == dict.fromkeys(found, 0)
    assert {name for name, _ in read_warmup(path)} == set(signatures)


def test_a_model_without_heads(tmp_path):
    model = keras.Sequential([keras.layers.Embedding(5, 3), keras.layers.GlobalAveragePooling1D()])
    model.build((None, None))
    with refused("attention=True", "no maps"):
        export_classifier(model, WordTokenizer(["a", "b", "c"]), ["x", "y", "z"], tmp_path, attention=True)
    assert not any(tmp_path.iterdir())


def test_classes(tmp_path):
    tokenizer = WordTokenizer(["the", "cat", "sat", "dog"])
    encoder = TransformerEncoder(tokenizer.vocabulary_size, 8, 16, num_layers=2, attention="multi_head", num_heads=2)
    model = SentenceClassifier(encoder, 3, SelfAttentivePooling(5, 4), mlp_dim=6)
    path = export_classifier(model, tokenizer, ["a", "b", "c"], tmp_path, max_length=6, attention=True)
    signatures = tf.saved_model.load(path).signatures
    found = signatures["attention"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(
        found["scores"], signatures["serving_default"](text=tf.constant(TEXTS))["scores"], rtol=1e-5
    )
    ids = tokenizer(TEXTS)[:, :6]
    _, out = model(ids, return_intermediates=True)
    real = ids.numpy() > 0
    expected = np.stack([out[f"encoder/block_{i}/attention"]["weights"] for i in range(2)], axis=1)
    np.testing.assert_allclose(found["weights"], expected * real[:, None, None, :, None], atol=1e-5)
    np.testing.assert_allclose(found["pooling"], out["pooling"]["weights"], atol=1e-5)
    pieces = [[piece.decode() for piece in row] for row in found["pieces"].numpy()]
    assert pieces[0] == ["the", "cat", "sat", "", "", ""]
    assert pieces[1] == ["<unk>", "", "", "", "", ""]
    assert len(signatures["attention"](text=tf.constant([], tf.string))["pooling"]) == 0


def test_numbers_of_pairs(tmp_path):
    tokenizer = WordTokenizer(["the", "cat", "sat", "dog"])
    encoder, pooling = BiLSTMEncoder(tokenizer.vocabulary_size, 4, 3), SelfAttentivePooling(2, 3)
    model = SentencePairClassifier(encoder, 1, pooling, mlp_dim=5, factor_dim=3)
    path = export_regressor(model, tokenizer, tmp_path, max_length=6, pairs=True, attention=True)
    attend = tf.saved_model.load(path).signatures["attention"]
    found = attend(text=tf.constant(TEXTS), second_text=tf.constant(TEXTS[::-1]))
    assert set(found) == {"values", "is_cut", "pieces", "pooling", "second_pieces", "second_pooling"}
    _, out = model(tuple(tokenizer(texts)[:, :6] for texts in (TEXTS, TEXTS[::-1])), return_intermediates=True)
    np.testing.assert_allclose(found["pooling"], out["first/pooling"]["weights"], atol=1e-5)
    np.testing.assert_allclose(found["second_pooling"], out["second/pooling"]["weights"], atol=1e-5)
