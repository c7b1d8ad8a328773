"""Classifiers of sentences and of pairs: equations, padding, training, compilation, files."""

import json
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.models import SentenceClassifier, SentenceEncoder, SentencePairClassifier
from keras_headattn.regularizers import Disagreement, Frobenius
from tests.layers.harness import array, check_close, randomize

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY, CLASSES, WIDTH, HEADS = 11, 3, 12, 4
SIZES = dict(embedding_dim=WIDTH, hidden_dim=5, num_heads=HEADS, attention_dim=6, mlp_dim=7)
each_encoder = pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
each_model = pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])


def make(encoder="bilstm", pair=False, **arguments):
    cls = SentencePairClassifier if pair else SentenceClassifier
    model = cls(VOCABULARY, CLASSES, encoder, **{**SIZES, **({"factor_dim": 8} if pair else {}), **arguments})
    model.build()
    return randomize(model)


def sentences(seed=0, batch=3, length=6):
    """The first is whole, the second ends with two padding tokens."""
    ids = np.random.default_rng(seed).integers(1, VOCABULARY, (batch, length)).astype("int32")
    ids[1, -2:] = 0
    return ids


def inputs(pair):
    return (sentences(), sentences(1, length=5)) if pair else sentences()


# ----------------------------------------------------------------------------------------------- what it is


def test_defaults_are_those_of_lin_et_al():
    model = SentenceClassifier(50, 5)
    model.build()
    widths = {weight.path.split("/", 1)[1]: tuple(weight.shape) for weight in model.weights}
    assert widths["bilstm_0/forward_lstm/lstm_cell/recurrent_kernel"] == (300, 1200)
    assert widths["pooling/hidden_kernel"] == (600, 350)
    assert widths["pooling/head_kernel"] == (350, 30)
    assert widths["hidden/kernel"] == (30 * 600, 2000)


@each_encoder
def test_composition(encoder):
    """Logits and matrices from the model's own layers, put together here."""
    model, ids = make(encoder), sentences()
    logits, weights = model(ids, return_attention_scores=True)
    matrices, same = model.encode(ids, return_attention_scores=True)
    check_close(same, weights)
    check_close(model.encode(ids), matrices)
    assert matrices.shape == (3, HEADS, model.width) and weights.shape == (3, HEADS, 6)
    assert not array(weights)[1, :, 4:].any()
    w = {weight.path.split("/", 1)[1]: array(weight) for weight in model.weights}
    hidden = np.maximum(array(matrices).reshape(3, -1) @ w["hidden/kernel"] + w["hidden/bias"], 0)
    check_close(logits, hidden @ w["output_projection/kernel"] + w["output_projection/bias"])
    check_close(model(ids), logits)


def test_pair_is_a_product_of_projected_rows():
    model = make(pair=True)
    first, second = inputs(True)
    logits, weights = model((first, second), return_attention_scores=True)
    assert [w.shape for w in weights] == [(3, HEADS, 6), (3, HEADS, 5)]
    kernels = [array(factor.kernel) for factor in model.factors]
    projected = [
        np.stack([array(model.encode(ids))[:, i] @ kernel[i] for i in range(HEADS)], axis=1)
        for ids, kernel in zip((first, second), kernels, strict=True)
    ]
    check_close(model.classify(projected[0] * projected[1]), logits, 1e-5)
    assert np.abs(array(model((second, first))) - array(logits)).max() > 1e-3


def test_initial_embeddings():
    table = np.random.default_rng(5).normal(size=(VOCABULARY, WIDTH)).astype("float32")
    model = SentenceClassifier(VOCABULARY, CLASSES, embeddings=table, train_embeddings=False, **SIZES)
    model(sentences())
    np.testing.assert_array_equal(array(model.embedding.embeddings), table)
    assert not any("embedding" in weight.path for weight in model.trainable_weights)
    assert len(model.non_trainable_weights) == 1
    assert "embeddings" not in model.get_config()


def test_transformer_takes_any_attention():
    model = make("transformer", num_layers=2, attention=layers.TalkingHeadsAttention(2, 4))
    assert [type(block.attention) for block in model.encoder_layers] == [layers.TalkingHeadsAttention] * 2
    assert make("transformer").encoder_layers[0].attention.num_heads == 6


# ------------------------------------------------------------------------------------------------- padding


@each_encoder
@each_model
def test_padding_changes_nothing(encoder, pair):
    """How much there is, and what its embedding is; a BiLSTM reads it first from the right."""
    model, ids = make(encoder, pair), inputs(pair)
    expected = model(ids)
    padded = tf.nest.map_structure(lambda x: np.pad(x, ((0, 0), (0, 3))), ids)
    check_close(model(padded), expected, 1e-5)
    table = array(model.embedding.embeddings).copy()
    table[0] = 50.0
    model.embedding.embeddings.assign(table)
    check_close(model(ids), expected, 1e-5)


@each_encoder
def test_sentences_are_independent_and_may_be_empty(encoder):
    model, ids = make(encoder), sentences()
    expected = array(model(ids))
    check_close(array(model(ids[1:2, :4]))[0], expected[1], 1e-5)
    ids[2] = 0
    logits = array(model(ids))
    assert np.isfinite(logits).all()
    check_close(logits[:2], expected[:2], 1e-5)
    assert not array(model.encode(ids))[2].any()


# ------------------------------------------------------------------------------------------------- training


@each_encoder
@each_model
def test_gradient_reaches_every_weight(encoder, pair):
    model = make(encoder, pair)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(inputs(pair)) ** 2)
    variables = model.trainable_variables
    gradients = tape.gradient(loss, [v.value for v in variables])
    for variable, gradient in zip(variables, gradients, strict=True):
        gradient = array(tf.convert_to_tensor(gradient))
        # A key's bias moves all logits of a query alike.
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 1e-9 or variable.path.endswith("key/bias"), variable.path


@each_encoder
@each_model
def test_a_compiled_step_of_fit(encoder, pair):
    """XLA, dropout and a head regularizer; every weight moves. With and without XLA the logits are the same."""
    model = make(encoder, pair, dropout=0.3, seed=1, head_regularizer=Frobenius())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=True)
    before = model.get_weights()
    labels = np.array([0, 2, 1])
    data = tf.data.Dataset.from_tensors((inputs(pair), labels))
    history = model.fit(data, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    still = [
        variable.path
        for variable, old in zip(model.weights, before, strict=True)
        if not np.abs(array(variable) - old).max() > 0 and "seed" not in variable.path
    ]
    assert not [path for path in still if not path.endswith("key/bias")]
    if not pair:
        check_close(tf.function(model, jit_compile=True)(inputs(pair)), model(inputs(pair)), 1e-5)


def test_head_regularizer():
    """That of the pooling, once a sentence, beside those of the blocks."""
    attention = layers.MultiHeadAttention(3, 4, head_regularizer=Disagreement("outputs"))
    for pair in (False, True):
        model = make("transformer", pair, attention=attention, head_regularizer=Frobenius())
        model(inputs(pair))
        losses = [float(loss) for loss in model.losses]
        padded = tf.nest.map_structure(lambda x: np.pad(x, ((0, 0), (0, 3))), inputs(pair))
        model(padded)
        assert len(losses) == (4 if pair else 2)
        np.testing.assert_allclose([float(loss) for loss in model.losses], losses, rtol=1e-5)


def test_dropout():
    model, ids = make(dropout=0.5, seed=3), sentences()
    calm = make(dropout=0.0)
    check_close(model(ids), calm(ids))
    first, again = model(ids, training=True), make(dropout=0.5, seed=3)(ids, training=True)
    np.testing.assert_array_equal(array(first), array(again))
    assert np.abs(array(first) - array(model(ids, training=True))).max() > 1e-3


# ---------------------------------------------------------------------------------- precision, files, shapes


@each_encoder
def test_mixed_precision(encoder):
    expected = make(encoder)(sentences())
    model = make(encoder, dtype="mixed_bfloat16")
    logits = model(sentences())
    assert logits.dtype == "float32" and model.encode(sentences()).dtype == "bfloat16"
    check_close(logits, expected, 0.1)


@each_encoder
@each_model
def test_file(encoder, pair, tmp_path):
    """Also of a model that was never built by hand; initial embeddings are among its weights."""
    table = np.random.default_rng(5).normal(size=(VOCABULARY, WIDTH)).astype("float32")
    cls = SentencePairClassifier if pair else SentenceClassifier
    arguments = {"attention": layers.MultiHeadAttention(2, 4)} if encoder == "transformer" else {}
    model = cls(VOCABULARY, CLASSES, encoder, embeddings=table, head_regularizer=Frobenius(), **SIZES, **arguments)
    expected = model(inputs(pair))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(inputs(pair))), array(expected))
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())
    assert loaded.pooling.head_kernel.heads.axis == 1


@each_encoder
@each_model
def test_kernels_are_regularized(encoder, pair, tmp_path):
    """All of them and nothing else, also in a file; the attention of the blocks keeps a regularizer of its own."""
    penalty, own = keras.regularizers.L2(0.3), keras.regularizers.L1(0.2)
    arguments = {"attention": layers.MultiHeadAttention(2, 4, kernel_regularizer=own), "num_layers": 2}
    arguments = arguments if encoder == "transformer" else {}
    model = make(encoder, pair, kernel_regularizer=penalty, **arguments)
    kernels = [weight for weight in model.trainable_weights if "kernel" in weight.name]
    expected = [float((own if "/attention/" in kernel.path else penalty)(kernel)) for kernel in kernels]
    assert any("/attention/" in kernel.path for kernel in kernels) == (encoder == "transformer")
    model.save(tmp_path / "model.keras")
    for one in (model, keras.saving.load_model(tmp_path / "model.keras")):
        np.testing.assert_allclose([float(loss) for loss in one.losses], expected, rtol=1e-6)
    assert not make(encoder, pair).losses


@each_model
def test_symbolic(pair):
    model = make(pair=pair)
    symbolic = tuple(keras.Input((None,), dtype="int32") for _ in range(2))
    output = model(symbolic if pair else symbolic[0])
    assert (output.shape, output.dtype) == ((None, CLASSES), "float32")
    functional = keras.Model(list(symbolic) if pair else symbolic[0], output)
    given = inputs(pair)
    check_close(functional(list(given) if pair else given), model(given), 1e-5)


LOADS_AND_PREDICTS = """
import sys, keras, numpy as np
import keras_headattn.models
model = keras.saving.load_model(sys.argv[1])
model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
with np.load(sys.argv[2]) as given:
    inputs = tuple(given[name] for name in sorted(given))
    inputs = inputs if len(inputs) > 1 else inputs[0]
logits = model.predict(inputs, batch_size=3, verbose=0)
np.savez(sys.argv[3], logits=logits, loss=model.train_on_batch(inputs, np.array([0, 2, 1])))
"""


@each_model
def test_jax_backend(pair, tmp_path):
    """A model saved here is loaded there; predictions and a training step, both compiled.

    There Keras forgets the loss of a layer that is called again, as the pooling is for the second sentence.
    """
    pytest.importorskip("jax")
    model = make(pair=pair, dropout=0.0, head_regularizer=None if pair else Frobenius())
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "in.npz", *(inputs(pair) if pair else [inputs(pair)]))
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    files = [str(tmp_path / name) for name in ("model.keras", "in.npz", "out.npz")]
    command = [sys.executable, "-c", LOADS_AND_PREDICTS, *files]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500)
    assert run.returncode == 0, run.stderr[-3000:]
    logits = model(inputs(pair))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(np.array([0, 2, 1]), logits)
    with np.load(files[2]) as theirs:
        check_close(theirs["logits"], logits, 1e-5)
        np.testing.assert_allclose(theirs["loss"], float(loss) + float(sum(model.losses)), rtol=1e-4)


def test_sentence_encoder():
    encoder = SentenceEncoder(VOCABULARY, embedding_dim=WIDTH, hidden_dim=5, num_heads=HEADS, attention_dim=6)
    matrices = encoder(sentences())
    assert matrices.shape == (3, HEADS, 10)
    check_close(encoder.encode(sentences()), matrices)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"encoder": "cnn"}, "`encoder` must be 'bilstm' or 'transformer'. Received: encoder='cnn'"),
        ({"embeddings": np.zeros((3, 4))}, r"`embeddings` must be of shape .*\(11, 12\). Received: .* \(3, 4\)"),
        ({"encoder": "transformer", "embedding_dim": 8}, "`embedding_dim` must be a multiple .* Received: .*=8"),
        ({"attention": "heads"}, "`attention` must be a layer such as .* Received: 'heads'"),
        ({"dropout": 1.5}, r"`dropout` must be a number in \[0, 1\). Received: dropout=1.5"),
    ],
)
def test_arguments_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SentenceClassifier(VOCABULARY, CLASSES, **{**SIZES, **arguments})
