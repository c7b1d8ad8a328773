"""Which tokens are drawn and masked: properties, and ELECTRA's rules in NumPy."""

import itertools

import keras
import numpy as np
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_headattn._random import sample
from keras_headattn.models import Bert, MaskedLM, MaskedLMPretraining
from keras_headattn.models._bert.masking import draw_positions, mask, most_drawn, number_drawn, replace_at
from tests.models.electra import LENGTH, MASK, SPECIAL, VOCABULARY, texts
from tests.refusals import refused

SEEDS = st.integers(0, 2**31 - 1)


def integers(tensor):
    return keras.ops.convert_to_numpy(tensor)


def drawn(ids, special, seed, replacement, share=0.15):
    """Positions of each text, as the model draws them."""
    is_real, is_free = ids != 0, (ids != 0) & ~np.isin(ids, special)
    most = most_drawn(share, ids.shape[1])
    positions = integers(draw_positions(is_free, most, seed, replacement))
    number = integers(number_drawn(is_real, is_free, share, replacement))
    assert positions.shape == (len(ids), min(most, ids.shape[1]))
    return [row[:count].tolist() for row, count in zip(positions, number, strict=True)]


def number_there(ids, special, share, replacement):
    """ELECTRA's rule in float32, for one text; no more than there are, where each is drawn once."""
    free = int(((ids != 0) & ~np.isin(ids, special)).sum())
    share_of_all = np.round(np.float32(share) * np.float32((ids != 0).sum()))
    number = max(1, min(int((share + 0.005) * len(ids)), int(share_of_all)))
    return number * (free > 0) if replacement else min(number, free)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 24), min_size=1, max_size=4), share=st.sampled_from([0.15, 0.4]), seed=SEEDS,
    replacement=st.booleans(),
)  # fmt: skip
@example(lengths=[0, 1, 2, 3], share=0.15, seed=0, replacement=False)
@example(lengths=[10, 24, 23, 2], share=0.15, seed=1, replacement=True)
def test_draws(lengths, share, seed, replacement):
    """Never special, never padding, never twice, and as many as the rule says."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(2, 9, (len(lengths), 24)).astype("int32")  # 2, 3 and 4 are special
    ids[np.arange(24) >= np.array(lengths)[:, None]] = 0
    for row, positions in zip(ids, drawn(ids, (2, 3, 4), seed, replacement, share), strict=True):
        assert len(positions) == number_there(row, (2, 3, 4), share, replacement)
        assert (row[positions] > 4).all()
        assert replacement or len(set(positions)) == len(positions)


def test_all_positions_are_as_likely():
    """Of 12 free ones 3 are drawn; each comes in 1 of 4 texts, and with replacement some come twice."""
    ids = np.full((20000, 20), 7, "int32")
    ids[:, ::5], ids[:, 16:] = 2, 2
    is_free = ids == 7
    for replacement in (False, True):
        positions = integers(draw_positions(is_free, 3, 1, replacement))
        counts = np.bincount(positions.ravel(), minlength=20)[is_free[0]]
        assert counts.sum() == positions.size
        np.testing.assert_allclose(counts / len(ids), 0.25, atol=0.015)
        twice = np.mean([len(set(row)) < 3 for row in positions[:2000].tolist()])
        assert (twice > 0.15) == replacement


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, rows=st.integers(0, 3), most=st.integers(1, 6))
def test_put(seed, rows, most):
    """Means of what meets, rounded down."""
    rng = np.random.default_rng(seed)
    ids, positions, values = (
        rng.integers(0, high, size) for high, size in ((50, (rows, 8)), (8, (rows, most)), (99, (rows, most)))
    )
    chosen = rng.random((rows, most)) < 0.7
    expected = ids.copy()
    for row in range(rows):
        for place in set(positions[row][chosen[row]].tolist()):
            expected[row, place] = (
                values[row][chosen[row] & (positions[row] == place)].sum()
                // (chosen[row] & (positions[row] == place)).sum()
            )
    np.testing.assert_array_equal(integers(replace_at(ids, positions, values, chosen)), expected)


def test_masked_random_and_kept():
    """As many of each as was asked for; random tokens are all those that are not special, each as likely."""
    ids = np.full((3000, 10), 7, "int32")
    positions = np.tile([1, 4, 5, 8], (3000, 1))
    tokens = [5, 6, 7, 8, 9]
    is_drawn = np.tile([True, True, True, False], (3000, 1))
    found = integers(mask(ids, positions, is_drawn, 4, tokens, 0.6, 0.3, itertools.count()))
    chosen = found[:, [1, 4, 5]]
    shares = np.bincount(chosen.ravel(), minlength=10) / chosen.size
    np.testing.assert_allclose(shares[4:], [0.6, 0.06, 0.06, 0.1 + 0.06, 0.06, 0.06], atol=0.015)
    assert (np.delete(found, [1, 4, 5], axis=1) == 7).all()


def test_samples():
    """Their shares are the softmax, and nothing is learned through them."""
    logits = tf.constant(np.log([[0.5, 0.3, 0.15, 0.05]]).astype("float32"))
    many = tf.tile(logits, (40000, 1))
    shares = np.bincount(integers(sample(many, keras.random.uniform((40000,), seed=3))), minlength=4) / 40000
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.15, 0.05], atol=0.01)
    spread = np.random.default_rng(0).normal(size=300).astype("float32")
    counts = np.bincount(
        integers(sample(np.tile(spread, (40000, 1)), keras.random.uniform((40000,), seed=4))), minlength=300
    )
    expected = 40000 * np.exp(spread) / np.exp(spread).sum()
    assert ((counts - expected) ** 2 / expected).sum() < 300 + 5 * np.sqrt(600)  # chi-square, 299 degrees of freedom
    np.testing.assert_array_equal(
        integers(sample(100 * np.eye(300, dtype="float32")[None], keras.random.uniform((1, 300), seed=5))),
        [np.arange(300)],
    )
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total = tf.reduce_sum(tf.cast(sample(logits, np.array([0.5], "float32")), "float32"))
    assert tape.gradient(total, logits) is None


def model(**arguments):
    encoder = Bert(VOCABULARY, 8, 8, num_layers=1, num_heads=2, max_length=LENGTH, pooler=False)
    return MaskedLMPretraining(MaskedLM(encoder), MASK, SPECIAL, **arguments)


def test_numbers_are_a_state():
    """New ones at every step, the same of the same seed; in evaluation always the same, and none is drawn."""
    first, again, other = model(seed=1), model(seed=1), model(seed=2)
    draws = [integers(first.draw_masks(texts())["mask_positions"]) for _ in range(3)]
    assert any((draws[0] != draw).any() for draw in draws[1:])
    np.testing.assert_array_equal(integers(again.draw_masks(texts())["mask_positions"]), draws[0])
    assert (integers(other.draw_masks(texts())["mask_positions"]) != draws[0]).any()
    state = integers(again.seed_generator.state)
    for _ in range(2):
        masks = again.draw_masks(texts(), training=False)
        np.testing.assert_array_equal(
            integers(masks["masked_ids"]), integers(other.draw_masks(texts(), training=False)["masked_ids"])
        )
    np.testing.assert_array_equal(integers(again.seed_generator.state), state)


def test_compiled():
    """The same masks in a graph. By XLA, whose random numbers are others, the same rules; they need a known length."""
    eager, compiled, by_xla = model(seed=1), model(seed=1), model(seed=1)
    draw = tf.function(compiled.draw_masks, autograph=False)
    for _ in range(2):
        expected, found = eager.draw_masks(texts()), draw(texts())
        for name in expected:
            np.testing.assert_array_equal(integers(found[name]), integers(expected[name]), err_msg=name)
    found = tf.function(by_xla.draw_masks, jit_compile=True, autograph=False)(texts())
    np.testing.assert_array_equal(integers(found["mask_weights"]), integers(expected["mask_weights"]))
    ids = np.take_along_axis(texts()["token_ids"], integers(found["mask_positions"]), axis=1)
    assert (ids[integers(found["mask_weights"]) > 0] > 4).all()
    assert (integers(found["masked_ids"]) == MASK).any()
    signature = {"token_ids": tf.TensorSpec((None, None), "int32")}
    with refused("length of texts", "token_ids of shape (None, None)"):
        tf.function(compiled.draw_masks, input_signature=[signature], autograph=False).get_concrete_function()


def test_counts():
    """Those of the whole batch in all rows, with drawn masks and with given ones."""
    ids, drawing = texts()["token_ids"], model()
    counts = drawing.with_counts(ids)
    numbers = [number_there(row, (2, 3, 4), 0.15, False) for row in ids]
    np.testing.assert_allclose(integers(counts["mean_masks"]), np.full(len(ids), np.mean(numbers)), rtol=1e-6)
    np.testing.assert_allclose(
        integers(counts["mean_tokens"]), np.full(len(ids), (ids > 0).sum() / len(ids)), rtol=1e-6
    )
    masks = drawing.draw_masks(ids)
    np.testing.assert_allclose(integers(masks["mask_weights"]).sum(axis=1), numbers)
    masks["mask_weights"] = keras.ops.ones_like(masks["mask_weights"])
    assert integers(drawing.with_counts(masks)["mean_masks"])[0] == masks["mask_weights"].shape[1]
