"""Disentangled mask attention: its losses by hand, what training remembers, where the mask is off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn import layers
from keras_headattn.layers import DecoderBlock, DisentangledMaskAttention, EncoderBlock, MultiHeadAttention
from keras_headattn.models import Transformer
from keras_headattn.ops import cluster_diversity, shared_information
from tests.layers import oracles, oracles_disentangled
from tests.layers.harness import array, build, check_close, copy_weights, self_input

HEADS, KEY_DIM, CLUSTERS = 3, 4, 5
WEIGHTS = {"shared_information": 0.3, "kept_information": 0.5, "divergence": 0.7, "diversity": 1.1}


def make(**options):
    return DisentangledMaskAttention(HEADS, KEY_DIM, **{"num_clusters": CLUSTERS, "dtype": "float64", **options})


# ------------------------------------------------------------------------------------------------------- losses


def lengths(x, counts):
    return np.arange(x.shape[1])[None] < np.array(counts)[:, None]


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_losses_are_those_of_the_equations(leave_one_out):
    """Of sentences of 5 and 2 tokens; a third is padding alone, and counts nothing."""
    x = np.random.default_rng(0).normal(size=(3, 5, 12))
    layer = build(make(**WEIGHTS, leave_one_out=leave_one_out), x)
    mask = lengths(x, [5, 2, 0])
    layer(x, x, query_mask=mask, key_mask=mask, training=True)
    weights = oracles.named_weights(layer)
    of_z, of_q = (oracles_disentangled.mixture(weights, name, HEADS) for name in ("mixture", "query_mixture"))
    totals = np.zeros(4)
    for sentence, count in ((0, 5), (1, 2)):
        rows = x[sentence, :count]
        queries = oracles.project(weights, "query", rows).swapaxes(0, 1)
        z = oracles_disentangled.split(rows, HEADS)
        divergence = oracles_disentangled.divergence(z, of_z, 0.1) + oracles_disentangled.divergence(queries, of_q, 0.1)
        diversity = sum(
            oracles_disentangled.diversity(oracles_disentangled.posteriors(points, mixture)).sum()
            for points, mixture in ((z, of_z), (queries, of_q))
        )
        totals += [
            oracles_disentangled.shared_information(queries, of_q, leave_one_out).sum(),
            oracles_disentangled.kept_information(queries, z, of_q).sum(),
            divergence.sum(0).mean(),
            diversity,
        ]
    totals /= 2
    shared, kept, divergence, diversity = WEIGHTS.values()
    expected = shared * totals[0] - kept * totals[1] + divergence * totals[2] + diversity * totals[3]
    (loss,) = layer.losses
    np.testing.assert_allclose(float(loss), expected, rtol=1e-10)


def test_losses_do_not_see_padding():
    x = self_input(dtype="float64")
    layer = build(make(**WEIGHTS), x)
    layer(x, x, training=True)
    (expected,) = map(float, layer.losses)
    padded = np.concatenate([x, np.full((2, 3, 12), 1e3)], axis=1)
    mask = lengths(padded, [5, 5])
    layer(padded, padded, query_mask=mask, key_mask=mask, training=True)
    np.testing.assert_allclose(float(layer.losses[0]), expected, rtol=1e-10)


def test_losses_of_a_transformer_do_not_see_padding():
    """Neither that of the source nor that of the target."""
    model = Transformer(
        20, num_layers=1, hidden_dim=12, intermediate_dim=8, attention=make(), dropout=0.0, dtype="float64"
    )
    rng = np.random.default_rng(0)
    source, target = rng.integers(1, 20, (2, 5)), rng.integers(1, 20, (2, 4))
    model({"source": source, "target": target}, training=True)
    losses = [float(loss) for loss in model.losses]
    padded = {"source": np.pad(source, ((0, 0), (0, 2))), "target": np.pad(target, ((0, 0), (0, 3)))}
    model(padded, training=True)
    assert len(losses) == 3
    np.testing.assert_allclose([float(loss) for loss in model.losses], losses, rtol=1e-5)  # but for rounded averages


def test_default_losses_are_small_beside_a_cross_entropy():
    """Of a width and a number of heads as in use; ten times as much slows the beginning of training."""
    layer = DisentangledMaskAttention(8, 64)
    x = np.random.default_rng(0).normal(size=(4, 20, 512)).astype("float32")
    layer(x, x, training=True)
    assert 1e-3 < abs(float(layer.losses[0])) < 0.1


@pytest.mark.parametrize("name", WEIGHTS)
def test_gradients_of_each_loss(name):
    """By finite differences, with regard to the inputs, the queries' kernel and both mixtures."""
    import tensorflow as tf

    x = tf.Variable(self_input(dtype="float64"))
    layer = build(make(**dict.fromkeys(WEIGHTS, 0.0) | {name: 1.0}, centre_gradient=1.0), array(x))
    variables = [x, layer.query_dense.kernel.value]
    variables += [variable.value for mixture in (layer.mixture, layer.query_mixture) for variable in mixture.weights]

    def loss():
        layer(x, x, training=True)
        return sum(layer.losses)

    with tf.GradientTape() as tape:
        value = loss()
    gradients = tape.gradient(value, variables, unconnected_gradients="zero")
    rng = np.random.default_rng(0)
    assert any(np.abs(array(gradient)).max() > 1e-3 for gradient in gradients)
    for variable, gradient in zip(variables, gradients, strict=True):
        kept, direction = array(variable), rng.normal(size=variable.shape)
        ends = []
        for step in (1e-5, -1e-5):
            variable.assign(kept + step * direction)
            ends.append(float(loss()))
        variable.assign(kept)
        np.testing.assert_allclose(
            np.sum(array(gradient) * direction), (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-8
        )


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 100))
def test_where_losses_end(length, seed):
    """Diversity is from 0, of a cluster for each token, to 1; heads that tell each other's queries share most."""
    rng = np.random.default_rng(seed)
    posteriors = rng.dirichlet(np.ones(CLUSTERS), (1, 1, length))
    assert 0 <= float(cluster_diversity(posteriors)[0, 0]) <= 1
    own = np.eye(max(length, 2))[None, None, :length]
    np.testing.assert_allclose(float(cluster_diversity(own)[0, 0]), 0, atol=1e-6)
    found = array(shared_information(np.log(np.repeat(own + 1e-12, 2, 1)), np.log(np.repeat(own + 1e-12, 2, 1))))
    np.testing.assert_allclose(found[0, 0, 1], 0, atol=1e-6)  # each query is certain, given that of the other head
    assert found[0, 0, 0] == 0


# ------------------------------------------------------------------------------------------------ as plain attention


@pytest.mark.parametrize("options, steps", [({"num_clusters": 1}, 1e9), ({"alpha": 0.0}, 1e9), ({}, 0)])
def test_it_is_multi_head_attention(options, steps):
    """With one cluster, without a share, or before training."""
    x = self_input(dtype="float64")
    layer, plain = build(make(**options), x), MultiHeadAttention(HEADS, KEY_DIM, dtype="float64")
    plain.build(x.shape, x.shape)
    copy_weights(layer, plain)
    layer.steps.assign(steps)
    for call in ({}, {"use_causal_mask": True}):
        check_close(layer(x, x, **call), plain(x, x, **call), 1e-12)


def test_a_decoder_has_no_mask_but_in_training():
    x = self_input(dtype="float64")
    layer, other = build(make(role="decoder"), x), build(make(role="cross"), x)
    plain = MultiHeadAttention(HEADS, KEY_DIM, dtype="float64")
    plain.build(x.shape, x.shape)
    copy_weights(layer, plain)
    check_close(layer(x, x), plain(x, x), 1e-12)
    assert np.abs(array(layer(x, x, training=True)) - array(plain(x, x))).max() > 1e-3
    assert np.abs(array(other(x, x)) - array(plain(x, x))).max() > 1e-3
    assert "posteriors" not in layer.init_cache(2, 5) and other.project_cache(x)["posteriors"].shape == (2, HEADS, 5, 5)


def test_blocks_give_roles():
    template = DisentangledMaskAttention(HEADS, KEY_DIM)
    encoder, decoder = EncoderBlock(template, 8), DecoderBlock(template, 8)
    x = self_input()
    decoder(x, encoder(x))
    roles = encoder.attention.role, decoder.attention.role, decoder.cross_attention.role
    assert roles == ("encoder", "decoder", "cross")


# ------------------------------------------------------------------------------------------ what training remembers


def test_steps_and_averages_are_those_of_training():
    x = self_input(dtype="float64")
    layer = build(make(), x)
    layer.steps.assign(0)
    layer(x, x)
    layer(x, x, training=False)
    assert float(layer.steps) == 0 and layer.losses == []
    uses, entropies = [], []
    for step in range(2):
        layer(x + step, x, training=True)
        posteriors = array(layer.posteriors(x + step))
        uses.append(posteriors.mean((0, 2)))
        entropies.append(-(posteriors * np.log(posteriors)).sum(-1).mean((0, 2)))
    assert float(layer.steps) == 2
    np.testing.assert_allclose(array(layer.cluster_use)[:-1], np.mean(uses, axis=0), atol=1e-6)
    np.testing.assert_allclose(array(layer.cluster_use)[-1].sum(), 1, atol=1e-6)
    np.testing.assert_allclose(array(layer.cluster_entropy)[:-1], np.mean(entropies, axis=0), atol=1e-6)
    assert 0 < array(layer.cluster_entropy)[-1] < np.log(CLUSTERS)
    assert np.abs(array(layer.loss_averages)).min() > 0
    shown = dict(zip(WEIGHTS, array(layer.loss_averages), strict=True))
    assert shown["shared_information"] < 0 < shown["divergence"]


def test_the_gradient_of_centres_is_multiplied():
    import tensorflow as tf

    x = self_input(dtype="float64")
    found = {}
    for factor in (1.0, 10.0):
        layer = build(make(centre_gradient=factor), x)
        with tf.GradientTape() as tape:
            layer(x, x, training=True)
            loss = sum(layer.losses)
        found[factor] = float(loss), tape.gradient(loss, [layer.mixture.centres.value, layer.mixture.log_weights.value])
    assert found[1.0][0] == found[10.0][0]
    np.testing.assert_allclose(array(found[10.0][1][0]), 10 * array(found[1.0][1][0]), rtol=1e-10)
    np.testing.assert_allclose(array(found[10.0][1][1]), array(found[1.0][1][1]), rtol=1e-10)


@pytest.mark.parametrize("dtype, least", [("mixed_float16", -4.0), ("mixed_bfloat16", -100.0), ("float32", -100.0)])
def test_losses_are_finite_far_away(dtype, least):
    """For far-away tokens, tiny variances and clusters without any token; so large gradients float16 does not hold."""
    import tensorflow as tf

    x = 30 * self_input()
    layer = build(make(dtype=dtype), x)
    for mixture in (layer.mixture, layer.query_mixture):
        mixture.log_variances.assign(np.full(mixture.log_variances.shape, least))
    with tf.GradientTape() as tape:
        output = layer(x, x, training=True)
        (loss,) = layer.losses
    gradients = tape.gradient(loss, [variable.value for variable in layer.trainable_variables])
    for value in (output, loss, *(gradient for gradient in gradients if gradient is not None)):
        assert np.isfinite(array(value)).all()


def test_a_key_alone_in_its_cluster_has_all_the_weight_in_sixteen_bits():
    """Without the mask it has 2e-9, which float16 does not hold."""
    layer = build(make(dtype="mixed_float16", alpha=1.0), self_input())
    logits = np.array([[[[0.0, 20.0]]]], "float16")
    posteriors = np.array([[[[1.0, 0.0]]]], "float32"), np.array([[[[1.0, 0.0], [0.0, 1.0]]]], "float32")
    state = layers.State(rows={"posteriors": posteriors[0], "gamma": np.ones((1, 1, 1, 1), "float32")})
    found = layer.weigh(logits, {"posteriors": posteriors[1]}, state)
    np.testing.assert_allclose(array(found), [[[[1.0, 0.0]]]], atol=1e-3)
