"""The gradient of SVGD against its formula, in loops."""

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_headattn.ops import stein_gradient
from keras_headattn.ops._stein import _middle


def rbf(particles):
    """k(x, y) and its derivative by x."""
    count = len(particles)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    median = np.median([np.linalg.norm(particles[i] - particles[j]) for i, j in pairs]) if pairs else 0
    width = median**2 / np.log(count) if median else np.inf

    def kernel(x, y):
        value = np.exp(-np.sum((x - y) ** 2) / width)
        return value, value * -2 * (x - y) / width

    return kernel


def cosine(particles):
    def kernel(x, y):
        norms = np.linalg.norm(x) * np.linalg.norm(y)
        return x @ y / norms, y / norms - x @ y / norms * x / np.sum(x**2)

    return kernel


def oracle(particles, gradients, weight, kernel=rbf, smoothing=True):
    """An et al. 2020, eqs. 4 and 14, one pair of particles at a time."""
    count, kernel = len(particles), kernel(particles)
    result = np.zeros_like(particles) if smoothing else np.array(gradients)
    for i in range(count):
        for j in range(count):
            value, derivative = kernel(particles[j], particles[i])
            result[i] += (smoothing * value * gradients[j] - weight * derivative) / count
    return result


def compute(particles, gradients, weight, **arguments):
    tensors = (keras.ops.convert_to_tensor(one, dtype="float32") for one in (particles, gradients))
    return keras.ops.convert_to_numpy(stein_gradient(*tensors, weight, **arguments))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("weight", [0.0, 0.7])
@pytest.mark.parametrize("kernel", [rbf, cosine])
@pytest.mark.parametrize("smoothing", [True, False])
def test_equation(count, weight, kernel, smoothing):
    particles, gradients = np.random.default_rng(count).normal(size=(2, count, 5))
    found = compute(particles, gradients, weight, kernel=kernel.__name__, smoothing=smoothing)
    np.testing.assert_allclose(found, oracle(particles, gradients, weight, kernel, smoothing), atol=2e-6)


def test_golden_cosine(golden):
    data = golden("repulsive_regularisers.npz")
    found = compute(data["theta"], data["gradU"], 1.0, kernel="cosine")
    np.testing.assert_allclose(found, -data["phi_cos_kernel_eq14"], atol=1e-6)


def test_cosine_of_a_particle_of_zeros():
    """Its own gradient is all it follows, and it repels no other."""
    particles, gradients = np.random.default_rng(0).normal(size=(2, 4, 3))
    particles[3] = 0.0
    found = compute(particles, gradients, 1.0, kernel="cosine")
    np.testing.assert_allclose(4 * found[3], gradients[3], atol=1e-6)
    np.testing.assert_allclose(4 * found[:3], 3 * oracle(particles[:3], gradients[:3], 1.0, cosine), atol=1e-5)


def test_sets_of_particles_at_once():
    particles, gradients = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    expected = [oracle(*one, 0.5) for one in zip(particles, gradients, strict=True)]
    np.testing.assert_allclose(compute(particles, gradients, 0.5), expected, atol=2e-6)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.floats(-1e3, 1e3))
def test_only_differences_of_particles_count(seed, shift):
    particles, gradients = np.random.default_rng(seed).normal(size=(2, 5, 3))
    np.testing.assert_allclose(
        compute(particles + shift, gradients, 0.5), oracle(particles, gradients, 0.5), atol=1e-5 * (1 + abs(shift))
    )


def test_particles_are_driven_apart():
    particles = np.array([[0.0, 0.1], [0.0, -0.1], [0.1, 0.0]])
    apart = particles - 0.01 * compute(particles, np.zeros((3, 2)), 1.0)

    def spread(points):
        return sum(np.linalg.norm(one - other) for one in points for other in points)

    assert spread(apart) > spread(particles)


@pytest.mark.parametrize("options", [dict(bandwidth="paper"), dict(bandwidth="code"), dict(kernel="cosine")])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-20, 1e-10, 1e10])
def test_finite_wherever_the_particles_are(options, scale):
    particles, gradients = np.random.default_rng(0).normal(size=(2, 4, 3))
    result = compute(particles * scale, gradients, 1.0, **options)
    assert np.isfinite(result).all()
    if scale == 0.0 and "bandwidth" in options:  # nothing to tell them apart by: all follow the mean gradient
        np.testing.assert_allclose(result, np.broadcast_to(gradients.mean(axis=0), (4, 3)), atol=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from([0.0, 1e-20, 1e-3, 1.0, 1.0000001, 7.0, 1e20]) | st.floats(0, 1e6, width=32), min_size=1)
)
@example([1e-20, 1.27e-14, 1e-3, 2.0])  # two in what is left of the interval
def test_middle_numbers_are_those_of_a_sort(numbers):
    """Equal ones and zeros among them. What is left of its interval is 2^-47 of the largest number."""
    numbers = np.array(numbers, "float32")
    ranked, count = np.sort(numbers), len(numbers)
    found = [keras.ops.convert_to_numpy(one) for one in _middle(keras.ops.convert_to_tensor(numbers[None]))]
    expected = ranked[[(count - 1) // 2, count // 2]]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=0, atol=2.0**-46 * ranked[-1])


def test_xla_compiles_no_sort():
    """With one, a training step on a CPU takes three times as long."""
    import tensorflow as tf

    compiled = tf.function(lambda particles: stein_gradient(particles, particles), jit_compile=True)
    assert "sort" not in compiled.experimental_get_compiler_ir(tf.ones((2, 8, 16)))(stage="hlo")


def test_two_identical_particles_among_others():
    particles, gradients = np.random.default_rng(0).normal(size=(2, 4, 3))
    particles[1] = particles[0]
    np.testing.assert_allclose(compute(particles, gradients, 1.0), oracle(particles, gradients, 1.0), atol=2e-6)
