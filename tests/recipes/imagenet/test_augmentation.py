import numpy as np
import pytest
import tensorflow as tf

from recipes.imagenet.augmentation import color_jitter, decode, inception_crop, pad_and_crop
from tests.recipes.imagenet.image_files import jpeg, pixels, png, webp


def seed(number):
    return tf.constant([7, number], tf.int64)


def gradient(height, width):
    """PNG whose red is the row and whose green is the column."""
    rows, columns = np.mgrid[:height, :width]
    return tf.io.encode_png(np.stack([rows, columns, 0 * rows], axis=-1).astype("uint8"))


def test_files_are_decoded():
    np.testing.assert_array_equal(decode(gradient(3, 5))[..., 0], np.mgrid[:3, :5][0])
    assert decode(jpeg(3)).shape == (12, 10, 3)
    np.testing.assert_array_equal(decode(webp(3)), pixels(3))
    grey = decode(tf.io.encode_jpeg(np.full((4, 4, 1), 90, "uint8")))
    assert grey.shape == (4, 4, 3) and np.ptp(grey.numpy()) == 0


def test_a_line_of_pixels_takes_no_memory():
    """Resized as a whole, this file of 1 kB would have 700 GB."""
    line = tf.io.encode_png(np.zeros((1, 900_000, 3), "uint8"))
    assert pad_and_crop(line, size=224, seed=seed(0)).shape == (224, 224, 3)


def test_random_crops_stay_within_their_bounds():
    height, width = 100, 140
    data, areas, aspects, mirrored = gradient(height, width), [], [], 0
    for number in range(60):
        image = inception_crop(data, size=50, seed=seed(number), min_area=0.2).numpy().astype(float)
        assert image.shape == (50, 50, 3)
        tall = (image[-1, :, 0] - image[0, :, 0]).mean() * 50 / 49
        wide = (image[:, -1, 1] - image[:, 0, 1]).mean() * 50 / 49
        mirrored += wide < 0
        areas.append(tall * abs(wide) / (height * width))
        aspects.append(abs(wide) / tall)
    assert 0.18 < min(areas) < 0.4 and 0.75 < max(areas) <= 1.03
    assert 0.7 < min(aspects) < 0.9 and 1.1 < max(aspects) < 1.4
    assert 15 < mirrored < 45


def test_jpeg_and_png_are_cropped_alike():
    size = dict(height=60, width=40)
    for number in range(3):
        crops = [inception_crop(encode(3, **size), size=24, seed=seed(number)) for encode in (jpeg, png)]
        np.testing.assert_allclose(*(tf.cast(crop, tf.float32) for crop in crops), atol=4)


def test_padding_moves_images():
    data, shifts, mirrored = gradient(32, 32), set(), 0
    for number in range(60):
        image = pad_and_crop(data, size=32, seed=seed(number), padding=4).numpy().astype(int)
        is_mirrored = image[16, 16, 1] > image[16, 17, 1]
        mirrored += is_mirrored
        down, right = 16 - image[16, 16, 0], (15 if is_mirrored else 16) - image[16, 16, 1]
        shifts.add(int(down))
        assert abs(down) <= 4 and abs(right) <= 4
        from_image = [0 <= row - down < 32 for row in range(32)]
        np.testing.assert_array_equal(image[:, 16, 1] > 0, from_image)
    assert shifts == set(range(-4, 5)) and 15 < mirrored < 45


def test_no_mirror_images_where_they_are_not_wanted():
    for augment in (inception_crop, pad_and_crop):
        for number in range(20):
            image = augment(gradient(32, 32), size=32, seed=seed(number), flip=False).numpy().astype(int)
            assert image[16, 10, 1] < image[16, 22, 1]


def test_a_seed_gives_one_image():
    data = jpeg(3, height=40, width=40)
    for augment in (inception_crop, pad_and_crop):
        images = [augment(data, size=32, seed=seed(n), jitter=0.3).numpy().tolist() for n in (1, 1, 2)]
        assert images[0] == images[1] != images[2]


def test_colours():
    image = tf.constant(np.random.default_rng(0).uniform(80, 150, (6, 6, 3)), tf.float32)
    assert color_jitter(image, seed(0), 0.0) is image
    means, spreads, saturations = [], [], []
    for number in range(60):
        other = color_jitter(image, seed(number), 0.5)
        means.append(float(tf.reduce_mean(other) / tf.reduce_mean(image)))
        grey, other_grey = tf.image.rgb_to_grayscale(image), tf.image.rgb_to_grayscale(other)
        spreads.append(float(tf.math.reduce_std(other_grey) / tf.math.reduce_std(grey)) / means[-1])
        saturations.append(float(tf.math.reduce_std(other - other_grey) / tf.math.reduce_std(image - grey)))
    for found, low, high in ((means, 0.49, 1.51), (spreads, 0.45, 1.55), (saturations, 0.1, 2.3)):
        assert low < min(found) < 0.75 and 1.25 < max(found) < high


def test_what_is_no_image():
    for crop in (inception_crop, pad_and_crop):
        for data in (b"", b"no image", jpeg(1)[:60]):
            with pytest.raises(tf.errors.InvalidArgumentError):
                crop(tf.constant(data), size=8, seed=seed(0))
