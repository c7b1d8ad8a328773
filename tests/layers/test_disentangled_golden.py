"""Disentangled mask attention against the golden vectors: an independent transcription of its equations."""

import numpy as np
import pytest

from keras_headattn.layers import CallState, DisentangledMaskAttention
from keras_headattn.ops import cluster_diversity, kept_information, shared_information
from tests.layers.harness import array, copy_weights

HEADS, KEY_DIM = 3, 4


def make(**options):
    return DisentangledMaskAttention(HEADS, KEY_DIM, num_clusters=6, dtype="float64", **options)


@pytest.fixture
def vectors(golden):
    return golden("dma.npz")


@pytest.fixture
def transcribed(vectors):
    """The layer with the weights of the golden vectors."""
    layer = make(alpha=0.5)
    layer.build(vectors["x"].shape, vectors["y"].shape)
    for mixture, name in ((layer.mixture, "z"), (layer.query_mixture, "q")):
        for variable, value in (
            (mixture.log_weights, np.log(vectors[f"pi_{name}"].astype("float64"))),
            (mixture.centres, vectors[f"mu_{name}"]),
            (mixture.log_variances, 2 * np.log(vectors[f"sigma_{name}"].astype("float64"))),
        ):
            variable.assign(value.reshape(variable.shape))
    for dense, name in ((layer.query_dense, "q"), (layer.key_dense, "k"), (layer.value_dense, "v")):
        dense.kernel.assign(vectors[f"W{name}"].reshape(12, HEADS, KEY_DIM))
        dense.bias.assign(vectors[f"b{name}"].reshape(HEADS, KEY_DIM))
    layer.output_dense.kernel.assign(np.eye(12).reshape(HEADS, KEY_DIM, 12))
    layer.steps.assign(1000)
    return layer


def close(found, expected):
    np.testing.assert_allclose(array(found), expected, atol=3e-7, rtol=1e-6)  # of weights rounded to float32


def test_golden_weights_and_output(vectors, transcribed):
    x, y = vectors["x"].astype("float64"), vectors["y"].astype("float64")
    output, weights = transcribed(x, y, return_attention_scores=True)
    close(weights, vectors["A_hat"])
    close(output, vectors["context"])
    close(transcribed.gamma(), vectors["gamma"])
    close(transcribed.project_query(x, CallState()), vectors["Q"])
    entry = transcribed.project_key_value(y, y, CallState())
    close(entry["key"], vectors["K"])
    close(entry["value"], vectors["V"])
    for alpha, expected in ((1.0, "A_bar_masked"), (0.0, "A_masked"), (0.5, "A_hat_masked")):
        late = make(alpha=alpha)
        late.build(x.shape, y.shape)
        copy_weights(transcribed, late)
        late.steps.assign(1000 if alpha == 0.5 else 1e9)
        _, weights = late(x, y, attention_mask=vectors["mask"], return_attention_scores=True)
        close(weights, vectors[expected])
        _, weights = late(x, y, return_attention_scores=True)
        close(weights, vectors[expected.removesuffix("_masked")])


def test_golden_gamma(vectors):
    for alpha, row in zip(vectors["gamma_alpha"], vectors["gamma_minus_exponent"], strict=True):
        layer = make(alpha=float(alpha))
        layer.build((1, 2, 12), (1, 2, 12))
        for steps, expected in zip(vectors["gamma_t"], row, strict=True):
            layer.steps.assign(float(steps))
            np.testing.assert_allclose(float(layer.gamma()), expected, atol=1e-6)


def test_golden_posteriors_and_losses(vectors, transcribed):
    queries, of_z = vectors["Q"], transcribed._by_head(vectors["x"].astype("float64"))
    densities, query_densities = transcribed.mixture(of_z), transcribed.query_mixture(queries)
    posteriors = np.exp(array(transcribed.mixture.log_posteriors(densities)))
    log_posteriors = transcribed.query_mixture.log_posteriors(query_densities)
    query_posteriors = np.exp(array(log_posteriors))
    close(posteriors, vectors["post_z_query"])
    keys = transcribed._by_head(vectors["y"].astype("float64"))
    of_keys = np.exp(array(transcribed.mixture.log_posteriors(transcribed.mixture(keys))))
    close(of_keys, vectors["post_z_key"])
    same = posteriors @ of_keys.swapaxes(-1, -2)
    close(same / same.sum(-1, keepdims=True), vectors["M"])
    close(query_posteriors, vectors["post_q"])
    of_inputs = np.exp(array(transcribed.query_mixture.log_posteriors(transcribed.query_mixture(of_z))))
    close(of_inputs, vectors["post_q_of_x"])
    of_query = array(query_densities)
    shares = np.exp(np.asarray(transcribed.query_mixture.log_weights, "float64"))
    close((np.exp(of_query) * shares).sum(-1), vectors["density_q"])
    close(np.exp(of_query) / np.exp(of_query).sum(2, keepdims=True), vectors["p_q_given_c_denominator_own_head"])
    simplified = shared_information(query_densities, log_posteriors)
    close(simplified, vectors["Dqq_simplified_denominator_h"])
    full = shared_information(query_densities, log_posteriors, leave_one_out=True)
    close(full, vectors["Dqq_full_denominator_h"])
    kept = kept_information(query_posteriors, of_inputs)
    close(kept, vectors["Dxq"])
    close(array(simplified).sum((1, 2)) - array(kept).sum(1), vectors["LD_Ixq_once_per_head"])
    close(cluster_diversity(posteriors), vectors["Ldv_z"])
    close(cluster_diversity(query_posteriors), vectors["Ldv_q"])
    variance = float(vectors["sigma2"])
    close(np.stack(transcribed.mixture.divergences(densities, variance), -1), vectors["KL_z"])
    close(np.stack(transcribed.query_mixture.divergences(query_densities, variance), -1), vectors["KL_q"])


def test_golden_readings_that_are_not_taken(vectors):
    """Where the paper can be read in two ways, the vectors have both. Those that are taken are tested above."""
    assert vectors["gamma_as_printed"].max() <= 0  # never a share
    for kind in ("full", "simplified"):
        taken, other = (vectors[f"Dqq_{kind}_denominator_{name}"] for name in ("h", "hprime"))
        assert np.abs(taken - other).max() > 0.1
    assert np.abs(vectors["LD_Ixq_once_per_head"] - vectors["LD_Ixq_inside_pair_sum"]).min() > 0.1
    z = vectors["x"].reshape(2, 5, HEADS, 4).swapaxes(1, 2)
    close(z + np.sqrt(vectors["sigma2"]) * vectors["eps"], vectors["z_sample"])
    assert np.abs(vectors["KL_z"] - vectors["KL_z_q_of_c_at_sample"]).max() > 0.01  # the posterior at a sample
    for measure in ("LR", "HR"):
        assert abs(vectors[measure] - vectors[f"{measure}_if_sqrt_distance"]) > 0.01
