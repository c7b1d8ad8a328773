import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from keras_headattn.analysis import head_distance


def test_golden(golden):
    data = golden("repulsive_regularisers.npz")
    distances = [head_distance(item[None]) for item in data["add_Z"]]
    np.testing.assert_allclose(distances, data["dist_pairs_mean"], rtol=1e-12)
    assert head_distance(data["add_Z"]) == pytest.approx(np.mean(distances))


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.integers(0, 10**6), st.integers(1, 3), st.integers(2, 5), st.integers(1, 4))
def test_definition(seed, batch, heads, width):
    """All pairs; it does not change with the order of heads and what is added to all, and grows with the scale."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(batch, heads, width))
    pairs = [(i, j) for i in range(heads) for j in range(i)]
    expected = np.mean([np.sqrt(np.sum((item[i] - item[j]) ** 2)) for item in z for i, j in pairs])
    assert head_distance(z) == pytest.approx(expected)
    assert head_distance(-2 * z[:, rng.permutation(heads)] + 5) == pytest.approx(2 * expected)
    assert head_distance(np.repeat(z[:, :1], heads, axis=1)) == 0
