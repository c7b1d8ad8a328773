"""Regularizers of heads: their formulas, golden vectors, gradients, masks and invariances."""

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius

few = hypothesis.settings(max_examples=40, deadline=None)
KINDS = ("outputs", "subspaces", "positions")
OF_ACTIVITIES = [Frobenius(), *(Disagreement(kind, per=per) for kind in KINDS for per in ("sentence", "token"))]
tensors = arrays.arrays("float64", (2, 3, 4, 5), elements=st.floats(-3, 3))


def random(*shape):
    return np.random.default_rng(0).normal(size=shape)


# -------------------------------------------------------------------------------------------------- formulas


def test_golden_frobenius(golden):
    data = golden("repulsive_regularisers.npz")
    maps = data["attention"].astype("float64")
    assert float(Frobenius()(maps)) == pytest.approx(data["frobenius_sq"].mean(), rel=1e-12)
    for row, expected in zip(maps, data["frobenius_sq"], strict=True):
        assert float(Frobenius(weight=0.3)(row[None])) == pytest.approx(0.3 * expected, rel=1e-12)


@pytest.mark.parametrize(
    "kind, per, x, name",
    [
        ("outputs", "sentence", "dis_outputs", "dis_output_flat"),
        ("outputs", "token", "dis_outputs", "dis_output_token"),
        ("subspaces", "sentence", "dis_values", "dis_subspace_flat"),
        ("subspaces", "token", "dis_values", "dis_subspace_token"),
        ("positions", "sentence", "dis_attention", "dis_position_sum"),
    ],
)
def test_golden_disagreement(golden, kind, per, x, name):
    """Theirs is to be maximised."""
    data = golden("repulsive_regularisers.npz")
    x = data[x].astype("float64")
    assert float(Disagreement(kind, per=per)(x)) == pytest.approx(-data[name].mean(), rel=1e-12)


@pytest.mark.parametrize("as_printed", [False, True])
def test_golden_cosine_similarity(golden, as_printed):
    """The update of section C.6, and its opposite; after a step heads are as far apart as the sign says."""
    data = golden("repulsive_regularisers.npz")
    theta = tf.Variable(data["theta"].astype("float64"))
    regularizer = CosineSimilarity(head_axis=0, as_printed=as_printed)
    with tf.GradientTape() as tape:
        loss = regularizer(tf.identity(theta))
    gradient = tape.gradient(loss, theta).numpy()
    of_cosines = data["phi_cos_regulariser_C6_as_printed"] + data["gradU"]
    np.testing.assert_allclose(-gradient, of_cosines if as_printed else -of_cosines, rtol=1e-12, atol=1e-14)
    assert abs(float(loss)) == pytest.approx(len(data["theta"]) / 2 * float(data["mean_cosine"]), rel=1e-12)
    theta.assign_sub(0.1 * gradient)
    after = CosineSimilarity(head_axis=0)(tf.identity(theta))
    assert (float(after) > abs(float(loss))) == as_printed


def test_frobenius_of_each_query():
    x, mask = random(2, 3, 4, 5), np.array([[True, True, False, True], [True, False, False, False]])
    squares = [
        [np.square(x[b, :, i] @ x[b, :, i].T - np.eye(3)).sum() for i in range(4) if mask[b, i]] for b in range(2)
    ]
    assert float(Frobenius()(x, mask)) == pytest.approx(np.mean([np.mean(row) for row in squares]))


def test_cosine_similarity_of_a_kernel():
    kernel = random(6, 3, 4)
    heads = [kernel[:, i].ravel() / np.linalg.norm(kernel[:, i]) for i in range(3)]
    expected = sum(a @ b for a in heads for b in heads) / (2 * 3)
    assert float(CosineSimilarity(0.5)(kernel)) == pytest.approx(0.5 * expected)
    assert float(CosineSimilarity(as_printed=True)(kernel)) == pytest.approx(-expected)


# ------------------------------------------------------------------------------------------------ properties


@few
@hypothesis.given(arrays.arrays("float64", (3, 7, 7), elements=st.floats(-2, 2)))
def test_frobenius_is_zero_for_orthonormal_rows(x):
    rows = np.linalg.qr(x + 5 * np.eye(7))[0][:, :4]
    assert float(Frobenius()(rows)) == pytest.approx(0, abs=1e-20)
    assert float(Frobenius()(1.5 * rows)) > 1


@few
@hypothesis.given(tensors, st.permutations(range(3)), st.sampled_from(OF_ACTIVITIES))
def test_order_of_heads_does_not_matter(x, order, regularizer):
    assert float(regularizer(x[:, order])) == pytest.approx(float(regularizer(x)), rel=1e-9, abs=1e-12)


@few
@hypothesis.given(tensors, arrays.arrays("bool", (2, 4)), st.sampled_from(OF_ACTIVITIES))
def test_what_is_masked_counts_for_nothing(x, mask, regularizer):
    """Whatever stands there, and as if it were not there."""
    expected = float(regularizer(x, mask))
    other = np.where(mask[:, None, :, None], x, 9.0)
    assert float(regularizer(other, mask)) == pytest.approx(expected, rel=1e-12)
    alone = [float(regularizer(x[b : b + 1][:, :, mask[b]])) if mask[b].any() else 0.0 for b in range(2)]
    assert expected == pytest.approx(np.mean(alone), rel=1e-9, abs=1e-12)


@few
@hypothesis.given(
    arrays.arrays("float64", (2, 3, 4, 5), elements=st.floats(0.1, 3)),
    arrays.arrays("float64", (2, 3), elements=st.floats(0.1, 10)),
    st.sampled_from(["outputs", "subspaces"]),
)
def test_length_of_heads_does_not_matter_to_cosines(x, factors, kind):
    for per in ("sentence", "token"):
        regularizer = Disagreement(kind, per=per)
        assert float(regularizer(x * factors[..., None, None])) == pytest.approx(float(regularizer(x)), rel=1e-9)


@few
@hypothesis.given(tensors)
def test_bounds_of_cosines(x):
    """From 0 to 1, which equal heads have; M / 2 for the parameters."""
    for per in ("sentence", "token"):
        assert -1e-9 <= float(Disagreement(per=per)(x)) <= 1 + 1e-9
    equal = np.repeat(np.abs(x[:, :1]) + 0.1, 3, axis=1)
    assert float(Disagreement()(equal)) == pytest.approx(1)
    assert float(CosineSimilarity()(equal)) == pytest.approx(1.5)


def test_pooled_heads_are_those_of_one_position():
    x, mask = random(2, 3, 5), np.array([True, False])
    for regularizer in OF_ACTIVITIES:
        assert float(regularizer(x)) == pytest.approx(float(regularizer(x[:, :, None])))
        assert float(regularizer(x, mask)) == pytest.approx(float(regularizer(x[:1])) / 2)


# ----------------------------------------------------------------------------------------- gradients, dtypes


@pytest.mark.parametrize("regularizer", [*OF_ACTIVITIES, CosineSimilarity(0.7), CosineSimilarity(as_printed=True)])
def test_gradients_against_finite_differences(regularizer):
    x = tf.Variable(random(2, 3, 4, 5))
    mask = () if regularizer.of == "kernels" else (np.array([[True] * 4, [True, True, False, False]]),)

    def value():
        return regularizer(tf.identity(x), *mask)

    with tf.GradientTape() as tape:
        loss = value()
    gradient, start = tape.gradient(loss, x).numpy(), x.numpy()
    for i in (0, 17, 33, 62, 75, 119):
        shift = np.where(np.arange(start.size) == i, 1e-5, 0.0).reshape(start.shape)
        x.assign(start + shift)
        above = float(value())
        x.assign(start - shift)
        slope = (above - float(value())) / 2e-5
        assert gradient.flat[i] == pytest.approx(slope, rel=1e-6, abs=1e-9)
    if mask:
        assert not gradient[1, :, 2:].any()


@pytest.mark.parametrize("regularizer", [*OF_ACTIVITIES, CosineSimilarity()])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_zeros_and_half_precision(regularizer, dtype):
    """Zeros, one head and equal heads give finite losses and gradients; sums are in float32."""
    for x in (np.zeros((2, 3, 4, 5)), random(2, 1, 4, 5), np.ones((2, 3, 4, 5)), np.full((1, 3, 4, 5), 300.0)):
        x = tf.constant(x.astype(dtype))
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = regularizer(x)
        assert loss.dtype == tf.float32
        assert np.isfinite(loss.numpy())
        assert np.isfinite(tape.gradient(loss, x).numpy()).all() or float(loss) > 65504
    if regularizer.of != "kernels":
        assert float(regularizer(np.zeros((0, 3, 4, 5), dtype))) == 0


@pytest.mark.parametrize("regularizer", [*OF_ACTIVITIES, CosineSimilarity(2.0, head_axis=0, as_printed=True)])
def test_configuration(regularizer):
    again = keras.regularizers.get(keras.regularizers.serialize(regularizer))
    assert type(again) is type(regularizer)
    assert again.get_config() == regularizer.get_config()
    assert (again.of, set(again.get_config())) == (regularizer.of, set(vars(regularizer)))
