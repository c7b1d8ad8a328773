import numpy as np
import pytest

from keras_headattn.data import LabelledBatches, balanced_class_weights

RNG = np.random.default_rng(0)
TEXTS = [RNG.integers(1, 50, size=length) for length in RNG.integers(1, 13, size=45)]
LABELS = RNG.integers(0, 3, size=45)


def batches(**options):
    return LabelledBatches(TEXTS, LABELS, batch_size=8, bucket_lengths=(4, 12), **options)


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
    assert made.padding_share == pytest.approx(1 - sum(map(len, TEXTS)) / positions)
    assert "45 examples" in made.summary() and "lengths 4, 12" in made.summary()


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
    made = LabelledBatches([[1, 2], [3]], [0, 1], [[4], [5, 6, 7]], batch_size=1, bucket_lengths=(2, 3))
    assert [(inputs["text"].tolist(), inputs["second_text"].tolist()) for inputs, *_ in made] == [
        ([[1, 2]], [[4, 0]]),
        ([[3, 0, 0]], [[5, 6, 7]]),
    ]


def test_mistakes():
    with pytest.raises(ValueError, match="fit in a bucket"):
        LabelledBatches(TEXTS, LABELS, bucket_lengths=(4,))
    with pytest.raises(ValueError, match="multiple of the 3 replicas. Received: batch_size=8"):
        batches(num_replicas=3)
