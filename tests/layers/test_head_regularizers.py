"""`head_regularizer` of attention layers: what they give it, and that padding does not count."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius
from tests.layers.harness import (
    BATCH,
    CASES,
    KEYS,
    QUERIES,
    array,
    build,
    check_close,
    cross_inputs,
    each_kind,
    random_mask,
    self_input,
)
from tests.models.small import make, more_padding, sentences

REGULARIZERS = [Frobenius(0.5), *(Disagreement(kind) for kind in ("outputs", "subspaces", "positions"))]
each_regularizer = pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: getattr(r, "kind", "frobenius"))
MULTI_HEAD = CASES[0]


def loss_of(layer):
    (loss,) = layer.losses
    return float(loss)


# -------------------------------------------------------------------------------- what the regularizer gets


@each_regularizer
def test_multi_head_attention(regularizer):
    """Weights, head outputs and values, computed here from the weights that the layer returns."""
    inputs, mask = cross_inputs(), random_mask((BATCH, QUERIES, KEYS))
    mask[1, 3], mask[0, :, 2] = False, False
    layer = build(MULTI_HEAD.make(head_regularizer=regularizer), *inputs)
    plain = build(MULTI_HEAD.make(), *inputs)
    output, weights = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    check_close(output, plain(*inputs, attention_mask=mask))
    assert not plain.losses
    values = layer.project_key_value(inputs[2], inputs[1], layers.CallState())["value"]
    parts = {"weights": weights, "outputs": np.matmul(array(weights), array(values)), "values": values}
    real = mask.any(1) if regularizer.of == "values" else mask.any(2)
    assert loss_of(layer) == pytest.approx(float(regularizer(parts[regularizer.of], real)), rel=1e-5)
    layer(*inputs, attention_mask=mask)
    assert loss_of(layer) == pytest.approx(float(regularizer(parts[regularizer.of], real)), rel=1e-5)


@each_kind
def test_each_layer(case):
    """A finite loss, and a gradient for whatever weights it depends on. One head agrees with itself: no gradient."""
    inputs = [tf.constant(x) for x in cross_inputs()]
    for regularizer in REGULARIZERS:
        layer = build(case.make(head_regularizer=regularizer), *inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            layer(*inputs, key_mask=random_mask((BATCH, KEYS)))
            loss = layer.losses[0]
        assert len(layer.losses) == 1 and np.isfinite(float(loss))
        gradients = [array(g) for g in tape.gradient(loss, inputs, unconnected_gradients="zero")]
        assert all(np.isfinite(gradient).all() for gradient in gradients)
        assert max(np.abs(gradient).max() for gradient in gradients) > 1e-7 or layer.num_heads == 1


@each_regularizer
def test_only_weights_take_the_path_with_weights(regularizer, monkeypatch):
    x = self_input()
    layer = build(MULTI_HEAD.make(head_regularizer=regularizer), x)
    scored = []
    monkeypatch.setattr(layer, "score", lambda *args: scored.append(1) or type(layer).score(layer, *args))
    layer(x, x)
    assert bool(scored) == (regularizer.of == "weights")


def test_no_loss_while_decoding():
    x = self_input()
    layer = build(MULTI_HEAD.make(head_regularizer=Frobenius()), x)
    layer(x[:, :1], x[:, :1], cache=layer.init_cache(BATCH, 4), index=0, use_causal_mask=True)
    assert not layer.losses


def test_more_axes_and_empty_batches():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 12)).astype("float32")
    for regularizer in REGULARIZERS:
        layer = layers.MultiHeadAttention(3, 4, attention_axes=2, head_regularizer=regularizer)
        layer(x, x)
        folded = layers.MultiHeadAttention(3, 4, head_regularizer=regularizer)
        flat = x.reshape(6, 4, 12)
        folded.build(flat.shape, flat.shape)
        folded.set_weights(layer.get_weights())
        folded(flat, flat)
        assert loss_of(layer) == pytest.approx(loss_of(folded), rel=1e-5)
        folded(flat[:0], flat[:0])
        assert loss_of(folded) == 0


# ------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("kernel_regularizer", [None, "l2"])
def test_kernels_count_once(kernel_regularizer):
    inputs = cross_inputs()
    regularizer = CosineSimilarity(0.7)
    arguments = dict(head_regularizer=regularizer, kernel_regularizer=kernel_regularizer)
    layer = build(MULTI_HEAD.make(**arguments), *inputs)
    layer(*inputs)
    layer(*inputs)
    kernels = [dense.kernel for dense in (layer.query_dense, layer.key_dense, layer.value_dense)]
    expected = sum(float(regularizer(kernel)) for kernel in kernels)
    if kernel_regularizer:
        expected += sum(0.01 * np.square(array(v)).sum() for v in layer.weights if v.path.endswith("kernel"))
    assert float(sum(layer.losses)) == pytest.approx(expected, rel=1e-5)


@each_kind
def test_kernels_say_where_their_heads_are(case):
    layer = build(case.make(), *cross_inputs())
    marked = {weight.heads.kind: weight for weight in layer.weights if hasattr(weight, "heads")}
    if case.has_output:
        assert marked.pop("attention_output").heads.axis == 0
    if case.layer is layers.CollaborativeAttention:
        assert marked.pop("mixing").heads.axis == 0
    if case.layer is layers.MultiTokenAttention:
        assert all(marked.pop(kind).heads.axis == 0 for kind in ("logits", "weights"))
    mixing = {layers.MultiHeadExplicitAttention: {"key_mixing", "value_mixing"}}
    mixing[layers.InterleavedHeadAttention] = {"query_mixing", "key_mixing", "value_mixing", "collapse"}
    mixing = mixing.get(case.layer, set())
    assert set(marked) == {"query", "key", "value"} - ({"key"} if layer.key_dense is None else set()) | mixing
    assert all(len(x.shape) == 3 or kind in mixing for kind, x in marked.items())
    assert all(x.heads.axis == 1 for x in marked.values())


# ------------------------------------------------------------------------------------------------- pooling


@pytest.mark.parametrize("regularizer", [Frobenius(), Disagreement("outputs"), Disagreement("positions")])
def test_pooling(regularizer):
    x = self_input()
    mask = np.array([[True] * 3 + [False] * 2, [False] * 5])
    layer = layers.SelfAttentivePooling(4, 6, head_regularizer=regularizer)
    z, weights = layer(x, mask=mask, return_attention_scores=True)
    expected = float(regularizer((weights if regularizer.of == "weights" else z)[:1])) / 2  # the other has no token
    assert loss_of(layer) == pytest.approx(expected, rel=1e-5)
    again = layers.SelfAttentivePooling.from_config(layer.get_config())
    assert again.head_regularizer.get_config() == regularizer.get_config()


def test_pooling_kernel():
    layer = layers.SelfAttentivePooling(4, 6, head_regularizer=CosineSimilarity())
    layer(self_input())
    assert loss_of(layer) == pytest.approx(float(CosineSimilarity()(layer.head_kernel)))


# ------------------------------------------------------------------------------------------ blocks, a model


@each_regularizer
def test_padding_does_not_count_in_a_transformer(regularizer):
    """A loss each for encoder, decoder and cross-attention, and none changes with more padding."""
    model = make(attention=MULTI_HEAD.make(head_regularizer=regularizer))
    inputs = sentences()
    model(inputs)
    losses = [float(loss) for loss in model.losses]
    model(more_padding(inputs, source=3, target=2))
    assert len(losses) == 3
    np.testing.assert_allclose([float(loss) for loss in model.losses], losses, rtol=1e-5)


def no_loss(y_true, y_pred):
    return 0 * y_pred


def test_fit_compiled(tmp_path):
    """The loss goes down by training on it alone, in XLA; the regularizer is in the model's file."""
    inputs = keras.Input((5, 12))
    attention = layers.MultiHeadAttention(3, 4, head_regularizer=Disagreement("outputs"))
    model = keras.Model(inputs, attention(inputs, inputs))
    model.compile(keras.optimizers.SGD(0.5), no_loss, jit_compile=True)
    history = model.fit(self_input(), self_input(), batch_size=BATCH, epochs=5, verbose=0).history["loss"]
    assert (np.diff(history) < 0).all()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    loaded(self_input())
    model(self_input())
    assert float(loaded.losses[0]) == pytest.approx(float(model.losses[0]), rel=1e-5)
