import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import _central_crop, central_crop


def gradient(height, width):
    """PNG whose red is the row and whose green is the column."""
    rows, columns = np.mgrid[:height, :width]
    return tf.io.encode_png(np.stack([rows, columns, 0 * rows], axis=-1).astype("uint8"))


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
        np.testing.assert_array_equal(_central_crop._central_crop(tf.constant(image), size, resized), expected)


def test_a_line_of_pixels_takes_no_memory():
    """Resized as a whole, this file of 1 kB would have 700 GB."""
    image = np.zeros((1, 900_000, 3), "uint8")
    image[:, 450_000:] = 100
    line = tf.io.encode_png(image)
    for crop in (tf.function(central_crop), central_crop):
        row = crop(line, size=224, resized=256)[50, :, 0].numpy()
        assert row[0] < 10 and row[-1] > 90 and (np.diff(row.astype(int)) >= 0).all()


def test_what_is_no_image():
    for data in (b"", b"no image", gradient(3, 5).numpy()[:60]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            central_crop(tf.constant(data), size=8, resized=8)
