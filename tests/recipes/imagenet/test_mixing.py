import functools

import numpy as np
import pytest
import tensorflow as tf

from recipes.imagenet.batches import ImageBatches
from recipes.imagenet.folders import MemoryImages
from recipes.imagenet.mixing import mix
from tests.recipes.imagenet.image_files import png
from tests.recipes.imagenet.test_augmentation import seed

COUNT, SIZE = 200, 16
# Image n has the number n everywhere, and label n: each share of a label is that of the pixels.
IMAGES = np.broadcast_to(np.arange(COUNT, dtype="uint8")[:, None, None, None], (COUNT, SIZE, SIZE, 3))
LABELS = np.arange(COUNT, dtype="int32")


def mixed(number=0, labels=LABELS, **arguments):
    images, shares = mix(tf.constant(IMAGES), tf.constant(labels), seed(number), COUNT, **arguments)
    return images.numpy(), shares.numpy()


def own_shares(shares):
    """The share of each image's own label; the rest must be that of the image before."""
    own, before = shares[LABELS, LABELS], shares[LABELS, LABELS - 1]
    np.testing.assert_allclose(own + before, 1, atol=1e-6)
    assert ((shares > 0).sum(axis=1) <= 2).all()
    return own


def test_mixup():
    """Every pixel has the shares of the labels; they are drawn from Beta(0.8, 0.8), image by image."""
    images, shares = mixed(mixup=0.8)
    own = own_shares(shares)
    expected = own * LABELS + (1 - own) * np.roll(LABELS, 1)
    np.testing.assert_allclose(images, np.broadcast_to(expected[:, None, None, None], images.shape), atol=0.51)
    draws = np.random.default_rng(0).beta(0.8, 0.8, 100_000)
    assert abs(own.mean() - 0.5) < 0.08 and abs(own.std() - draws.std()) < 0.05


def test_small_parameters_hardly_mix():
    own = own_shares(mixed(mixup=0.01)[1])
    assert np.isfinite(own).all() and (np.minimum(own, 1 - own) < 0.01).mean() > 0.9


def test_cutmix():
    """A rectangle of the image before, whose share of the pixels is that of its label."""
    images, shares = mixed(cutmix=1.0)
    own, areas = own_shares(shares), []
    for number, image in enumerate(images[1:], 1):
        cut = image[..., 0] == number - 1
        np.testing.assert_array_equal(image[..., 0], np.where(cut, number - 1, number))
        rows, columns = cut.any(axis=1), cut.any(axis=0)
        np.testing.assert_array_equal(cut, rows[:, None] & columns)
        assert own[number] == pytest.approx(1 - cut.mean(), abs=1e-6)
        areas.append(cut.mean())
    assert min(areas) < 0.02 and max(areas) > 0.7 and 0.2 < np.mean(areas) < 0.5


def test_either_at_random():
    images, _ = mixed(mixup=0.8, cutmix=1.0)
    is_cut = np.ptp(images.reshape(COUNT, -1), axis=1) > 0
    assert 0.35 < is_cut.mean() < 0.6


def test_labels_as_shares_and_nothing_to_mix():
    one_hot = np.eye(COUNT, dtype="float32")
    for arguments in ({"mixup": 0.8}, {"cutmix": 1.0}, {}):
        for found, expected in zip(mixed(labels=one_hot, **arguments), mixed(**arguments), strict=True):
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(mixed()[1], one_hot)


def test_a_seed_gives_one_batch():
    one, same, other = (mixed(number, mixup=0.8, cutmix=1.0)[0].tolist() for number in (1, 1, 2))
    assert one == same != other


def test_batches_are_a_function_of_seed_and_epoch():
    """Also after an epoch of another number, and on batches read by another object."""
    source = MemoryImages([png(number) for number in range(12)], [0, 1, 2] * 4, ["a", "b", "c"])
    mixing = functools.partial(mix, num_classes=3, mixup=0.8, cutmix=1.0)

    def batches(seed):
        def decoded(data, seed):
            return tf.ensure_shape(tf.io.decode_png(data, 3), (12, 10, 3))

        return ImageBatches(source, 4, decoded, training=True, seed=seed, mix=mixing)

    def epoch(batches, number):
        batches.epoch = number
        return [(images.numpy().tolist(), shares.numpy().tolist()) for images, shares in batches.dataset()]

    first = batches(0)
    found = [epoch(first, number) for number in (0, 1, 0)]
    assert found[0] == found[2] == epoch(batches(0), 0) and found[1] == epoch(batches(0), 1)
    assert found[0] != found[1] and epoch(batches(1), 0) != found[0]
    for _, shares in found[0]:
        np.testing.assert_allclose(np.sum(shares, axis=1), 1, atol=1e-6)


def test_one_hot_labels_to_evaluate_on():
    source = MemoryImages([png(number) for number in range(3)], [0, 2, 1], ["a", "b", "c"])
    decoded = lambda data: tf.ensure_shape(tf.io.decode_png(data, 3), (12, 10, 3))  # noqa: E731
    ((_, labels, weights),) = ImageBatches(source, 4, decoded, one_hot=True).dataset()
    np.testing.assert_array_equal(labels, np.eye(3)[[0, 2, 1, 0]])
    assert (weights.numpy() > 0).tolist() == [True, True, True, False]
