import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import central_crop, inception_crop, pad_and_crop
from keras_headattn.data._image_ops import _central_crop, color_jitter, decode
from tests.data.image_files import jpeg, pixels, png, webp


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


@pytest.mark.parametrize("height, width", [(40, 60), (60, 40), (40, 40)])
def test_the_centre(height, width):
    """Without resizing: the middle pixels themselves."""
    image = central_crop(gradient(height, width), size=20, resized=40).numpy()
    top, left = (height - 20) // 2, (width - 20) // 2
    np.testing.assert_array_equal(image[..., 0], np.mgrid[top : top + 20, left : left + 20][0])
    np.testing.assert_array_equal(image[..., 1], np.mgrid[top : top + 20, left : left + 20][1])
    assert image.dtype == "uint8"


@pytest.mark.parametrize("height, width", [(80, 121), (33, 100), (7, 90)])
def test_the_shorter_side_is_resized(height, width):
    image = central_crop(gradient(height, width), size=28, resized=32).numpy().astype(float)
    assert image.shape == (28, 28, 3)
    # The middle stays the middle, and both sides are scaled alike.
    np.testing.assert_allclose(image[..., 0].mean(), (height - 1) / 2, atol=1)
    np.testing.assert_allclose(image[..., 1].mean(), (width - 1) / 2, atol=1.5)
    scale = min(height, width) / 32
    np.testing.assert_allclose(np.diff(image[4:-4, :, 1], axis=1).mean(), scale, rtol=0.1)


@pytest.mark.parametrize(
    "height, width", [(80, 121), (33, 100), (7, 90), (1, 5), (61, 2), (300, 299), (32, 75), (1, 1)]
)
def test_the_crop_is_that_of_the_whole_resized_image(height, width):
    """Pixel for pixel what `tf.image.resize` makes of the whole image, up and down, and without resizing."""
    image = np.random.default_rng(height).integers(0, 256, (height, width, 3), "uint8")
    for size, resized in ((28, 32), (32, 32), (1, 31)):
        whole = np.round(np.array([height, width]) * resized / min(height, width)).astype(int)
        top, left = (whole - size) // 2
        expected = tf.image.resize(image, whole)[top : top + size, left : left + size]
        np.testing.assert_array_equal(_central_crop(tf.constant(image), size, resized), expected)


def test_a_line_of_pixels_takes_no_memory():
    """Resized as a whole, this file of 1 kB would have 700 GB."""
    image = np.zeros((1, 900_000, 3), "uint8")
    image[:, 450_000:] = 100
    line = tf.io.encode_png(image)
    for crop in (tf.function(central_crop), central_crop):
        row = crop(line, size=224, resized=256)[50, :, 0].numpy()
        assert row[0] < 10 and row[-1] > 90 and (np.diff(row.astype(int)) >= 0).all()
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
    for crop in (central_crop, inception_crop, pad_and_crop):
        arguments = dict(resized=8) if crop is central_crop else dict(seed=seed(0))
        for data in (b"", b"no image", jpeg(1)[:60]):
            with pytest.raises(tf.errors.InvalidArgumentError):
                crop(tf.constant(data), size=8, **arguments)
