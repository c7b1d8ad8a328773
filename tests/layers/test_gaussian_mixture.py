"""Mixtures of Gaussians: densities, posteriors, divergences against sampling, extremes."""

import keras
import numpy as np
import pytest
from scipy import stats

from keras_headattn.layers import GaussianMixture
from tests.layers.harness import array, randomize


def mixture_of(heads=2, clusters=3, width=4, **options):
    layer = GaussianMixture(clusters, heads, **options)
    layer.build((None, heads or 2, None, width))
    return randomize(layer)


@pytest.mark.parametrize("heads", [None, 2])
def test_densities_and_posteriors(heads):
    layer = mixture_of(heads, dtype="float64")
    x = np.random.default_rng(0).normal(size=(3, 2, 5, 4))
    found = array(layer(x))
    centres, deviations = np.asarray(layer.centres), np.exp(np.asarray(layer.log_variances) / 2)
    for head in range(2):
        own = head if heads else 0
        for c in range(3):
            expected = stats.norm(centres[own, c], deviations[own, c]).logpdf(x[:, head]).sum(-1)
            np.testing.assert_allclose(found[:, head, :, c], expected, rtol=1e-10)
    shares = np.exp(np.asarray(layer.log_weights))
    joint = np.exp(found) * shares[:, None]
    posteriors = np.exp(array(layer.log_posteriors(found)))
    np.testing.assert_allclose(posteriors, joint / joint.sum(-1, keepdims=True), rtol=1e-10)


def test_divergences_are_those_of_samples():
    """Closed form against the mean over draws of z and of its cluster."""
    layer = mixture_of(1, dtype="float64")
    point, variance = np.random.default_rng(1).normal(size=(1, 1, 1, 4)), 0.1
    gaussian, categorical = (float(np.squeeze(part)) for part in layer.divergences(layer(point), variance))
    draws = point + np.sqrt(variance) * np.random.default_rng(2).normal(size=(1, 1, 200_000, 4))
    posterior = np.exp(array(layer.log_posteriors(layer(point))))[0, 0, 0]
    own = stats.norm(point, np.sqrt(variance)).logpdf(draws).sum(-1)[0, 0]
    of_clusters = own[:, None] - array(layer(draws))[0, 0]
    np.testing.assert_allclose(gaussian, of_clusters.mean(0) @ posterior, atol=0.03)
    shares = np.exp(np.asarray(layer.log_weights)[0])
    np.testing.assert_allclose(categorical, np.sum(posterior * np.log(posterior / (shares / shares.sum()))), rtol=1e-10)
    assert gaussian > 0 and categorical > 0


def test_clusters_begin_alike():
    """Of points about the origin each cluster has its share: none begins as the one that takes all."""
    keras.utils.set_random_seed(0)
    layer = GaussianMixture(4, 8)
    x = np.random.default_rng(0).normal(size=(16, 8, 32, 64))
    posteriors = np.exp(array(layer.log_posteriors(layer(x))))
    use = posteriors.mean((0, 2))
    assert use.min() > 0.15 and use.max() < 0.35
    assert (posteriors.max(-1) > 0.5).mean() > 0.3  # yet tokens have clusters of their own
    centres = np.asarray(layer.centres)
    np.testing.assert_allclose(centres @ centres.swapaxes(1, 2), np.broadcast_to(np.eye(4), (8, 4, 4)), atol=1e-5)


def test_float32_far_from_the_origin():
    """Narrow clusters near each other, a thousand deviations from the origin."""
    layer, exact = mixture_of(width=16), mixture_of(width=16, dtype="float64")
    centres = 10 + 0.02 * np.random.default_rng(0).normal(size=layer.centres.shape)
    for each in (layer, exact):
        each.centres.assign(centres)
        each.log_variances.assign(np.full(each.centres.shape, np.log(1e-4)))
    x = (10 + 0.02 * np.random.default_rng(1).normal(size=(3, 2, 5, 16))).astype("float32")
    np.testing.assert_allclose(array(layer(x)), array(exact(x)), rtol=1e-3)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_sixteen_bits_do_not_round_the_clusters(policy):
    """Points that 16 bits hold, about centres that they do not."""
    layer, exact = mixture_of(dtype=policy), mixture_of()
    x = np.random.default_rng(0).integers(-3, 4, (3, 2, 5, 4)).astype("float32")
    for each in (layer, exact):
        randomize(each)
        each.centres.assign(np.full(each.centres.shape, 0.30009))
        each.log_variances.assign(np.full(each.centres.shape, -4.1003))
    np.testing.assert_allclose(array(layer(x)), array(exact(x)), rtol=1e-6)


def test_a_point_on_a_narrow_centre_has_no_more_than_its_density():
    """Squares as the difference of large numbers may not fall below zero."""
    layer = mixture_of()
    layer.log_variances.assign(np.full(layer.centres.shape, np.log(1e-6)))
    centres = 8 * np.random.default_rng(0).normal(size=layer.centres.shape)
    layer.centres.assign(centres)
    highest = -0.5 * 4 * (np.log(2 * np.pi) + np.log(1e-6))
    found = array(layer(centres[None].astype("float32")))
    assert found.max() <= highest * (1 + 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_extremes_are_finite(dtype):
    layer = mixture_of(dtype=dtype)
    layer.log_variances.assign(np.full(layer.log_variances.shape, -200.0))
    x = np.full((1, 2, 3, 4), 6e4 if dtype == "float16" else 1e30)
    densities = layer(x)
    assert keras.backend.standardize_dtype(densities.dtype) == "float32"
    for value in (densities, layer.log_posteriors(densities), *layer.divergences(densities)):
        assert np.isfinite(array(value)).all()


def test_config_and_file(tmp_path):
    layer = mixture_of(centre_gradient=3.0)
    x = keras.Input((2, None, 4))
    model = keras.Model(x, layer(x))
    model.save(tmp_path / "model.keras")
    values = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype("float32")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again(values)), array(model(values)))
    assert again.layers[-1].get_config() == layer.get_config() and model.output_shape == (None, 2, None, 3)
