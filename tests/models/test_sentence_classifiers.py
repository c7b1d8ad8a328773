"""Encoders and classifiers of sentences and of pairs: equations, padding, training, compilation, files."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import BiLSTMEncoder, SentenceClassifier, SentencePairClassifier, TransformerEncoder
from keras_headattn.positions import BucketPositions, LearnedPositions, SinusoidalPositions
from keras_headattn.regularizers import Disagreement, Frobenius
from tests.layers.harness import array, check_close, randomize

VOCABULARY, CLASSES, WIDTH, HEADS = 11, 3, 12, 4
each_encoder = pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
each_model = pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])


def make_encoder(encoder="bilstm", **arguments):
    cls = BiLSTMEncoder if encoder == "bilstm" else TransformerEncoder
    return cls(VOCABULARY, WIDTH, 5, **{"num_heads": 6} if encoder == "transformer" else {}, **arguments)


def make_pooling(**arguments):
    return SelfAttentivePooling(HEADS, 6, name="pooling", **arguments)


def classifier(encoder, pair=False, pooling=None, **arguments):
    cls, own = (SentencePairClassifier, {"factor_dim": 8}) if pair else (SentenceClassifier, {})
    return cls(encoder, CLASSES, pooling or make_pooling(), mlp_dim=7, **own, **arguments)


def make(encoder="bilstm", pair=False, own=None, head_regularizer=None, **common):
    """A built classifier with random weights.

    Args:
        encoder: name.
        pair: whether of pairs.
        own: arguments of the encoder alone.
        head_regularizer: of the pooling.
        **common: arguments of encoder and classifier.
    """
    of_pooling = {name: common[name] for name in ("dtype", "kernel_regularizer") if name in common}
    pooling = make_pooling(head_regularizer=head_regularizer, **of_pooling)
    model = classifier(make_encoder(encoder, **common, **(own or {})), pair, pooling, **common)
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
    model = SentenceClassifier(BiLSTMEncoder(50, name="encoder"), 5)
    model.build()
    widths = {weight.path.split("/", 1)[1]: tuple(weight.shape) for weight in model.weights}
    assert widths["encoder/embedding/embeddings"] == (50, 300)
    assert widths["encoder/bilstm_0/forward_lstm/lstm_cell/recurrent_kernel"] == (300, 1200)
    assert widths["pooling/hidden_kernel"] == (600, 350)
    assert widths["pooling/head_kernel"] == (350, 30)
    assert widths["hidden/kernel"] == (30 * 600, 2000)


def test_bilstm_is_that_of_keras():
    """Two of them in a stack, with Keras's own mask."""
    encoder, ids = randomize(make_encoder(num_layers=2)), sentences()
    states = encoder(ids)
    stock = keras.Sequential(
        [
            keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True),
            *(keras.layers.Bidirectional(keras.layers.LSTM(5, return_sequences=True)) for _ in range(2)),
        ]
    )
    stock.build((None, None))
    stock.set_weights([array(weight) for weight in encoder.trainable_weights])
    check_close(array(states)[ids != 0], array(stock(ids))[ids != 0], 1e-6)
    assert states.shape == (3, 6, 10)
    np.testing.assert_array_equal(states._keras_mask, ids != 0)


@pytest.mark.parametrize("normalization", ["post", "pre"])
def test_transformer_is_its_parts(normalization):
    """Maps go from block to block, and the relative positions are one layer for all."""
    attention = layers.EvolvingAttention(2, 6, beta=0.3)
    own = dict(num_layers=2, attention=attention, relative_positions=BucketPositions(), positions=LearnedPositions(9))
    feed_forward = layers.FeedForward(5, "gelu", gated=True)
    encoder = make_encoder("transformer", normalization=normalization, feed_forward=feed_forward, **own)
    encoder.build()
    randomize(encoder)
    ids = sentences()
    x, maps = encoder.positions(encoder.embedding(ids)), {}
    for block in encoder.blocks:
        x, state = block(x, mask=ids != 0, previous_logits=maps, return_state=True)
        maps = state["logits"]
    expected = encoder.norm(x) if normalization == "pre" else x
    states = encoder(ids)
    check_close(states, expected, 1e-6)
    np.testing.assert_array_equal(states._keras_mask, ids != 0)
    assert [block.attention.depth for block in encoder.blocks] == [0, 1]
    first, second = (block.attention for block in encoder.blocks)
    assert first.relative_positions is second.relative_positions is encoder.relative_positions
    assert first.map_kernel is None and second.map_kernel is not None
    copy = TransformerEncoder.from_config(encoder.get_config())
    copy.build()
    copy.set_weights(encoder.get_weights())
    check_close(copy(ids), states, 1e-6)


def test_transformer_takes_any_attention():
    encoder = make_encoder("transformer", num_layers=2, attention="talking_heads")
    encoder.build()
    assert [type(block.attention) for block in encoder.blocks] == [layers.TalkingHeadsAttention] * 2
    assert encoder.blocks[0].attention.num_heads == 6
    stock = make_encoder("transformer", attention=keras.layers.MultiHeadAttention(2, 4), positions=None)
    assert stock(sentences()).shape == (3, 6, WIDTH) and stock.positions is None
    assert isinstance(make_encoder("transformer").positions, SinusoidalPositions)


@each_encoder
def test_composition(encoder):
    """Logits and matrices from the model's own layers, put together here."""
    model, ids = make(encoder), sentences()
    logits, out = model(ids, return_intermediates=True)
    matrices, same = model.encode(ids, return_intermediates=True)
    weights = out["pooling"]["weights"]
    check_close(same["pooling"]["weights"], weights)
    check_close(model.encode(ids), matrices)
    width = {"bilstm": 10, "transformer": WIDTH}[encoder]
    assert matrices.shape == (3, HEADS, width) and weights.shape == (3, HEADS, 6)
    assert not array(weights)[1, :, 4:].any()
    check_close(np.einsum("bhn,bnd->bhd", weights, model.encoder(ids)), matrices, 1e-5)
    w = {weight.path.split("/", 1)[1]: array(weight) for weight in model.weights}
    hidden = np.maximum(array(matrices).reshape(3, -1) @ w["hidden/kernel"] + w["hidden/bias"], 0)
    check_close(logits, hidden @ w["output_projection/kernel"] + w["output_projection/bias"])
    check_close(model(ids), logits)


def test_pair_is_a_product_of_projected_rows():
    model = make(pair=True)
    first, second = inputs(True)
    logits, out = model((first, second), return_intermediates=True)
    assert {name: found["weights"].shape for name, found in out.items()} == {
        "first/pooling": (3, HEADS, 6),
        "second/pooling": (3, HEADS, 5),
    }
    kernels = [array(factor.kernel) for factor in model.factors]
    projected = [
        np.stack([array(model.encode(ids))[:, i] @ kernel[i] for i in range(HEADS)], axis=1)
        for ids, kernel in zip((first, second), kernels, strict=True)
    ]
    check_close(model.classify(projected[0] * projected[1]), logits, 1e-5)
    assert np.abs(array(model((second, first))) - array(logits)).max() > 1e-3


def test_intermediates_of_blocks():
    """By the names of layers within the encoder, also in a model that was loaded or made of built parts."""
    model, ids = make("transformer", own={"num_layers": 2}), sentences()
    _, out = model(ids, return_intermediates=True)
    names = {"encoder/block_0/attention", "encoder/block_1/attention", "pooling"}
    assert set(out) == names
    assert out["encoder/block_1/attention"]["weights"].shape == (3, 6, 6, 6)
    assert not array(out["encoder/block_0/attention"]["weights"])[1, :, :, 4:].any()
    again = classifier(model.encoder, pooling=model.pooling)
    assert set(again(ids, return_intermediates=True)[1]) == names
    compiled = tf.function(lambda ids: model(ids, return_intermediates=True))(ids)
    keras.tree.map_structure(lambda x, y: check_close(x, y, 1e-5), compiled, model(ids, return_intermediates=True))


def test_layers_are_used_themselves():
    encoder, pooling = make_encoder(), make_pooling()
    one, other = classifier(encoder, pooling=pooling), classifier(encoder, pooling=pooling)
    assert one.encoder is encoder and one.pooling is pooling
    check_close(one.encode(sentences()), other.encode(sentences()), 0)


@keras.saving.register_keras_serializable(package="tests")
class LastState(keras.layers.Layer):
    """A pooling that takes no mask, and makes one vector."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def call(self, inputs):
        return inputs[:, -1]


def functional_encoder():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, WIDTH, mask_zero=True)(ids)
    return keras.Model(ids, keras.layers.GRU(5, return_sequences=True)(x))


@each_model
@pytest.mark.parametrize("pooling", [keras.layers.GlobalAveragePooling1D, LastState, make_pooling])
def test_other_encoders_and_poolings(pair, pooling, tmp_path):
    """A functional model before a matrix, or before a vector, which is a matrix without heads."""
    model = classifier(functional_encoder(), pair, pooling())
    expected, ids = model(inputs(pair)), sentences()
    states = model.encoder(ids)
    kwargs = {} if pooling is LastState else {"mask": ids != 0}
    check_close(model.encode(ids), model.pooling(states, **kwargs), 1e-6)
    if pair:
        assert model.factors[0].kernel.shape == ((HEADS, 5, 8) if pooling is make_pooling else (5, 8))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(inputs(pair))), array(expected))


def test_initial_embeddings():
    table = np.random.default_rng(5).normal(size=(VOCABULARY, WIDTH)).astype("float32")
    encoder = make_encoder(embeddings=table, train_embeddings=False)
    model = classifier(encoder)
    model(sentences())
    np.testing.assert_array_equal(array(encoder.embedding.embeddings), table)
    assert not any("embedding" in weight.path for weight in model.trainable_weights)
    assert len(model.non_trainable_weights) == 1
    assert "embeddings" not in encoder.get_config()


# ------------------------------------------------------------------------------------------------- padding


@each_encoder
@each_model
def test_padding_changes_nothing(encoder, pair):
    """How much there is, and what its embedding is; a BiLSTM reads it first from the right."""
    model, ids = make(encoder, pair), inputs(pair)
    expected = model(ids)
    padded = tf.nest.map_structure(lambda x: np.pad(x, ((0, 0), (0, 3))), ids)
    check_close(model(padded), expected, 1e-5)
    embeddings = model.encoder.embedding.embeddings
    table = array(embeddings).copy()
    table[0] = 50.0
    embeddings.assign(table)
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


@pytest.mark.parametrize(
    "encoder, pair, jit_compile",
    [("bilstm", False, True), ("transformer", True, True), ("bilstm", True, False), ("transformer", False, False)],
)
def test_a_compiled_step_of_fit(encoder, pair, jit_compile):
    """XLA, dropout and a head regularizer; every weight moves. With and without XLA the logits are the same."""
    model = make(encoder, pair, dropout=0.3, seed=1, head_regularizer=Frobenius())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=jit_compile)
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
    if jit_compile:
        check_close(tf.function(model, jit_compile=True)(inputs(pair)), model(inputs(pair)), 1e-5)


def test_head_regularizer():
    """That of the pooling, once a sentence, beside those of the blocks."""
    attention = layers.MultiHeadAttention(3, 4, head_regularizer=Disagreement("outputs"))
    for pair in (False, True):
        model = make("transformer", pair, {"attention": attention}, Frobenius())
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
    own = {"attention": layers.MultiHeadAttention(2, 4)} if encoder == "transformer" else {}
    model = classifier(make_encoder(encoder, embeddings=table, **own), pair, make_pooling(head_regularizer=Frobenius()))
    before = model.get_config()
    expected = model(inputs(pair))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(inputs(pair))), array(expected))
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config()) == json.dumps(before)
    # Keras builds an embedding with initial values at once, outside of the model.
    assert [weight.path for weight in loaded.weights[1:]] == [weight.path for weight in model.weights[1:]]
    assert loaded.pooling.head_kernel.heads.axis == 1


@each_encoder
def test_file_of_an_encoder(encoder, tmp_path):
    model = make_encoder(encoder, num_layers=2, kernel_regularizer="l2")
    expected = model(sentences())
    model.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    np.testing.assert_array_equal(array(loaded(sentences())), array(expected))
    np.testing.assert_array_equal(float(sum(loaded.losses)), float(sum(model.losses)))


@each_encoder
@each_model
def test_kernels_are_regularized(encoder, pair, tmp_path):
    """All of them and nothing else, also in a file; the attention of the blocks keeps a regularizer of its own."""
    penalty, own = keras.regularizers.L2(0.3), keras.regularizers.L1(0.2)
    arguments = {"attention": layers.MultiHeadAttention(2, 4, kernel_regularizer=own), "num_layers": 2}
    model = make(encoder, pair, arguments if encoder == "transformer" else {}, kernel_regularizer=penalty)
    kernels = [weight for weight in model.trainable_weights if "kernel" in weight.name]
    expected = [float((own if "/attention/" in kernel.path else penalty)(kernel)) for kernel in kernels]
    assert any("/attention/" in kernel.path for kernel in kernels) == (encoder == "transformer")
    model.save(tmp_path / "model.keras")
    for one in (model, keras.saving.load_model(tmp_path / "model.keras")):
        np.testing.assert_allclose([float(loss) for loss in one.losses], expected, rtol=1e-6)
    assert not make(encoder, pair).losses


@each_model
@pytest.mark.parametrize("is_built", [False, True])
def test_symbolic(pair, is_built):
    model = make(pair=pair) if is_built else classifier(make_encoder(), pair)
    symbolic = tuple(keras.Input((None,), dtype="int32") for _ in range(2))
    output = model(symbolic if pair else symbolic[0])
    assert (output.shape, output.dtype) == ((None, CLASSES), "float32")
    functional = keras.Model(list(symbolic) if pair else symbolic[0], output)
    given = inputs(pair)
    check_close(functional(list(given) if pair else given), model(given), 1e-5)
