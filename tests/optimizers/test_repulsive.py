"""The optimizer whose particles are attention heads: what it makes of gradients."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.ops import stein_gradient
from keras_headattn.optimizers import Repulsive
from tests.optimizers.kernels import kernel_variable, normal


def step(optimizer, kernels, gradients):
    """What one update by an optimizer subtracts from kernels `(D, h, d)`."""
    variables = [kernel_variable(kernel, f"layer_{index}/query") for index, kernel in enumerate(kernels)]
    optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], variables)
    return [kernel - variable.numpy() for kernel, variable in zip(kernels, variables, strict=True)]


def sgd(**arguments):
    return Repulsive(keras.optimizers.SGD(1.0), verbose=False, **arguments)


class TestGoldenVectors:
    @pytest.mark.parametrize("case", ["h1", "h2", "h3", "h4", "h4m", "h5"])
    @pytest.mark.parametrize("grouping", ["heads", "interleaved"])
    @pytest.mark.parametrize("bandwidth", ["paper", "code"])
    def test_svgd(self, golden, case, grouping, bandwidth):
        data = golden(f"svgd_{case}.npz")
        meta = json.loads(str(data["meta_json"]))
        shape = (meta["hidden"], meta["heads"], meta["size_per_head"])
        optimizer = sgd(
            step_size=meta["stepsize"],
            repulsive_weight=meta["alpha_d_kernel_weight"],
            grouping=grouping,
            bandwidth=bandwidth,
        )
        (found,) = step(optimizer, [data["kernel"].reshape(shape)], [data["grad"].reshape(shape)])
        expected = data[f"np.{grouping.removesuffix('s')}.{bandwidth}.descent_grad"]
        np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=5e-6, rtol=1e-5)
        if (grouping, bandwidth) == ("interleaved", "code"):
            np.testing.assert_allclose(found.reshape(expected.shape), data["code_grad"], atol=5e-6, rtol=1e-5)

    @pytest.mark.parametrize("weight", [1, 0.1])
    @pytest.mark.parametrize("temperature", [1, 10])
    @pytest.mark.parametrize("step_size", [0.1, 0.01])
    def test_spos(self, golden, weight, temperature, step_size):
        data = golden("repulsive_regularisers.npz")
        theta, gradient = data["theta"][None].transpose(2, 1, 0), data["gradU"][None].transpose(2, 1, 0)
        name = f"spos.alpha{weight}.beta{temperature}.eps{step_size}"

        def run(inverse_temperature, method="spos"):
            return step(
                sgd(
                    method=method,
                    step_size=step_size,
                    repulsive_weight=weight,
                    inverse_temperature=inverse_temperature,
                    seed=3,
                ),
                [theta],
                [gradient],
            )[0].transpose(2, 1, 0)[0]

        noise = run(temperature, "sgld") - step_size * data["gradU"]
        expected = -step_size * data[f"{name}.deterministic"]
        np.testing.assert_allclose(run(temperature) - noise, expected, atol=1e-5)
        size = np.std(data[f"{name}.noise"] / data["xi"])  # of unit noise: one number
        assert size < 1e-6
        np.testing.assert_allclose(
            step_size * np.mean(data[f"{name}.noise"] / data["xi"]), np.sqrt(2 * step_size / temperature), rtol=1e-5
        )


def test_noise_is_normal_with_the_deviation_of_the_equation():
    kernel = np.zeros((64, 8, 32), "float32")
    (moved,) = step(sgd(method="sgld", step_size=0.1, inverse_temperature=10.0, seed=1), [kernel], [kernel])
    assert abs(moved.mean()) < 0.005
    np.testing.assert_allclose(moved.std(), np.sqrt(2 * 0.1 / 10), rtol=0.02)
    assert abs((moved[:, 0] * moved[:, 1]).mean()) < 0.001  # heads have their own


def test_noise_follows_seed_and_step():
    kernels, gradients = [normal(4, 2, 3)], [np.zeros((4, 2, 3), "float32")]

    def moves(seed, steps=3):
        optimizer = sgd(method="spos", inverse_temperature=1.0, seed=seed)
        variables = [kernel_variable(kernel) for kernel in kernels]
        for _ in range(steps):
            optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients], variables)
        return variables[0].numpy()

    np.testing.assert_array_equal(moves(1), moves(1))
    assert not np.allclose(moves(1), moves(2))
    first, second = moves(1, 1) - kernels[0], moves(1, 2) - moves(1, 1)
    assert not np.allclose(first, second, atol=0.05)


def test_prior_pulls_to_zero():
    kernel, gradient = normal(3, 1, 2), normal(3, 1, 2, seed=1)
    (moved,) = step(sgd(step_size=0.5, prior_deviation=2.0), [kernel], [gradient])
    np.testing.assert_allclose(moved, 0.5 * (gradient + kernel / 4), atol=1e-6)


def test_particle_sets_do_not_meet():
    """Kernels of equal shape are computed at once, and each among its own heads alone."""
    kernels = [normal(3, 2, 4, seed=1), normal(5, 2, 4, seed=2), normal(3, 2, 4, seed=3)]
    gradients = [normal(*kernel.shape, seed=9) for kernel in kernels]
    together = step(sgd(), kernels, gradients)
    for kernel, gradient, moved in zip(kernels, gradients, together, strict=True):
        np.testing.assert_allclose(moved, step(sgd(), [kernel], [gradient])[0], atol=1e-7)
        parts = [keras.ops.reshape(one.transpose(1, 0, 2), (2, -1)) for one in (kernel, gradient)]
        expected = 0.1 * keras.ops.convert_to_numpy(stein_gradient(*parts, 0.01))
        np.testing.assert_allclose(moved.transpose(1, 0, 2).reshape(2, -1), expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 1, 3), (4, 3, 2)])
@pytest.mark.parametrize("method", ["svgd", "spos"])
def test_zeros_one_head_and_identical_heads(shape, method):
    for kernel in (np.zeros(shape, "float32"), np.ones(shape, "float32")):
        for moved in step(sgd(method=method), [kernel], [normal(*shape)]):
            assert np.isfinite(moved).all()


def test_rows_of_table_11():
    """From the regularizer to eq. 14."""
    kernel, gradient = normal(4, 3, 2), normal(4, 3, 2, seed=1)
    theta, own = (one.transpose(1, 0, 2).reshape(3, -1) for one in (kernel, gradient))
    rows = [sgd(step_size=1.0, kernel="cosine", smoothing=smoothing) for smoothing in (False, True)]
    (without,), (smooth,) = (step(row, [kernel], [gradient]) for row in rows)
    units = theta / np.linalg.norm(theta, axis=1, keepdims=True)
    smoothed = (units @ units.T @ own).reshape(3, 4, 2).transpose(1, 0, 2) / 3
    np.testing.assert_allclose(without - gradient, smooth - smoothed, atol=1e-6)


def test_one_head_without_noise_is_plain_descent():
    kernel, gradient = normal(4, 1, 3), normal(4, 1, 3, seed=1)
    np.testing.assert_allclose(step(sgd(step_size=1.0), [kernel], [gradient])[0], gradient, atol=1e-6)


def compiled_step(optimizer, variable):
    """A function that applies a gradient of `variable`, in a graph: these tests take hundreds of steps."""
    optimizer.build([variable])
    return tf.function(lambda gradient: optimizer.apply([gradient], [variable]))


class TestPosterior:
    """A posterior of four equal modes, on whose one side all particles begin."""

    MODES = np.array([[2.0, 2.0], [2.0, -2.0], [-2.0, 2.0], [-2.0, -2.0]])

    def modes_with_particles(self, optimizer, steps=500):
        start = np.random.default_rng(0).normal([1.0, 1.0], 0.5, size=(16, 2)).astype("float32")
        particles = kernel_variable(start.T[:, :, None])  # (2, 16 heads, 1)
        apply = compiled_step(optimizer, particles)
        for _ in range(steps):
            apply(self.gradient(particles))
        points = keras.ops.convert_to_numpy(particles)[:, :, 0].T
        distances = np.linalg.norm(points[:, None] - self.MODES, axis=-1)
        return {int(mode) for mode in distances.argmin(axis=1)[distances.min(axis=1) < 1.5]}

    def gradient(self, particles):
        """Of the negative logarithm of a mixture of normal distributions of variance 1."""
        points = keras.ops.convert_to_numpy(particles)[:, :, 0].T
        differences = points[:, None] - self.MODES  # (16, 4, 2)
        shares = np.exp(-np.sum(differences**2, axis=-1) / 2)
        shares /= shares.sum(axis=1, keepdims=True)
        gradient = np.sum(shares[..., None] * differences, axis=1)
        return keras.ops.convert_to_tensor(gradient.T[:, :, None].astype("float32"))

    def test_particles_cover_all_modes(self):
        inner = keras.optimizers.Adam(0.05)
        optimizer = Repulsive(inner, step_size=1.0, repulsive_weight=1.0, verbose=False)
        assert self.modes_with_particles(optimizer) == {0, 1, 2, 3}

    def test_plain_descent_does_not(self):
        assert self.modes_with_particles(keras.optimizers.Adam(0.05)) < {0, 1, 2, 3}


def test_noise_alone_samples_the_posterior():
    """By Langevin steps, a Gaussian of loss x^2 / 2: its variance is 1 / b, but for steps that are not small."""
    step_size, temperature, steps = 0.1, 4.0, 600
    optimizer = sgd(method="sgld", step_size=step_size, inverse_temperature=temperature, seed=0)
    kernel, squares = kernel_variable(np.zeros((4, 8, 4), "float32")), []
    apply = compiled_step(optimizer, kernel)
    for _ in range(steps):
        apply(keras.ops.convert_to_tensor(kernel))
        squares.append(np.square(kernel.numpy()).mean())
    expected = 1 / (temperature * (1 - step_size / 2))
    assert np.mean(squares[100:]) == pytest.approx(expected, rel=0.1)
