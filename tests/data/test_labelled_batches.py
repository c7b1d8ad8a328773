import numpy as np
import pytest

from keras_headattn.data import LabelledBatches
from recipes.engine.texts.training import balanced_class_weights

RNG = np.random.default_rng(0)
TEXTS = [RNG.integers(1, 50, size=length) for length in RNG.integers(1, 13, size=45)]
LABELS = RNG.integers(0, 3, size=45)


def batches(**options):
    return LabelledBatches({"text": TEXTS}, LABELS, batch_size=8, bucket_lengths=(4, 12), **options)


def rows(items):
    """The real rows of batches: list of (ids without padding, label)."""
    return [
        (tuple(ids[ids != 0]), int(label))
        for inputs, labels, weights in items
        for ids, label, weight in zip(inputs["text"], labels, weights, strict=True)
        if weight
    ]


EVERYTHING = sorted((tuple(ids), int(label)) for ids, label in zip(TEXTS, LABELS, strict=True))


@pytest.mark.parametrize("training", [False, True])
def test_every_text_comes_once(training):
    made = batches(training=training)
    items = list(made)
    assert len(items) == len(made) and sorted(rows(items)) == EVERYTHING
    assert {inputs["text"].shape for inputs, *_ in items} == {(8, 4), (8, 12)}
    assert all(inputs["text"][:, 0].all() for inputs, *_ in items)  # no row is all padding
    positions = sum(inputs["text"].size for inputs, *_ in items)
    assert made.padding_share["text"] == pytest.approx(1 - sum(map(len, TEXTS)) / positions)
    assert "45 examples in 7 batches" in made.summary() and "8 x 4, 8 x 12" in made.summary()


def test_the_order_is_that_of_the_epoch():
    made, again = batches(training=True), batches(training=True)
    first = rows(made.dataset().as_numpy_iterator())
    made.epoch = again.epoch = 1
    second = rows(made.dataset().as_numpy_iterator())
    assert first != second == rows(again) and sorted(second) == EVERYTHING
    assert rows(batches()) == rows(batches())


def test_weights_make_means():
    """Of each batch when training; over all of them otherwise."""
    for _, _, weights in batches(training=True):
        assert weights.mean() == pytest.approx(1) and len(set(weights)) <= 2
    losses = [np.mean(weights * labels) for _, labels, weights in batches()]
    assert np.mean(losses) == pytest.approx(LABELS.mean())


def test_class_weights():
    weights = balanced_class_weights(LABELS, 4)
    assert weights[3] == 0 and weights[LABELS].mean() == pytest.approx(1)
    assert [weights[c] * np.sum(LABELS == c) for c in range(3)] == pytest.approx([15, 15, 15])
    for _, labels, found in batches(training=True, class_weights=weights):
        real = found > 0
        np.testing.assert_allclose(found[real], weights[labels[real]] * 8 / real.sum(), rtol=1e-6)


def test_pairs_share_a_length():
    pairs = {"text": [[1, 2], [3]], "second_text": [[4], [5, 6, 7]]}
    made = LabelledBatches(pairs, [0, 1], batch_size=1, bucket_lengths=(2, 3))
    assert [(inputs["text"].tolist(), inputs["second_text"].tolist()) for inputs, *_ in made] == [
        ([[1, 2]], [[4, 0]]),
        ([[3, 0, 0]], [[5, 6, 7]]),
    ]


def test_numbers_to_predict():
    made = LabelledBatches({"text": TEXTS}, LABELS / 2, batch_size=8, bucket_lengths=(4, 12), training=True, seed=1)
    classes = batches(training=True, seed=1)
    assert made.dataset().element_spec[1].dtype == "float32"
    for (inputs, labels, weights), (same, doubled, equal) in zip(made, classes, strict=True):
        assert labels.dtype == "float32" and doubled.dtype == "int32"
        np.testing.assert_array_equal(2 * labels, doubled)
        np.testing.assert_array_equal(inputs["text"], same["text"])
        np.testing.assert_array_equal(weights, equal)


def test_several_labels_at_once():
    """Rows of 0 and 1, whose width the dataset knows; rows that fill up have none."""
    several = np.eye(3, dtype=int)[LABELS] + np.eye(3, dtype=int)[(LABELS + 1) % 3]
    made = LabelledBatches({"text": TEXTS}, several, batch_size=8, bucket_lengths=(4, 12))
    assert made.dataset().element_spec[1].shape == (8, 3) and made.dataset().element_spec[0]["text"].shape == (8, None)
    found = []
    for inputs, labels, weights in made.dataset().as_numpy_iterator():
        assert not labels[weights == 0].any()
        found += [
            (tuple(ids[ids != 0]), tuple(row)) for ids, row in zip(inputs["text"], labels, strict=True) if any(row)
        ]
    assert sorted(found) == sorted((tuple(ids), tuple(row)) for ids, row in zip(TEXTS, several, strict=True))


def test_a_text_without_ids_is_not_all_padding():
    inputs, *_ = LabelledBatches({"text": [[], [5, 6]]}, [0, 1], batch_size=2, bucket_lengths=(2,))[0]
    assert inputs["text"].tolist() == [[1, 0], [5, 6]]
