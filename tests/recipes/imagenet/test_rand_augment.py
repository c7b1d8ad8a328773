import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageEnhance, ImageOps

from recipes.imagenet.rand_augment import OPERATIONS, erase, rand_augment
from tests.recipes.imagenet.test_augmentation import seed

IMAGE = np.random.default_rng(0).integers(20, 200, (24, 20, 3)).astype("uint8")
IMAGE[..., 1] //= 2
PIL = Image.fromarray(IMAGE)


def affine(*matrix):
    return PIL.transform(PIL.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=(128,) * 3)


# What Pillow makes of a level of 0.5, and of the sign +; moves are about the middle of the pixels.
EXPECTED = {
    "identity": lambda: PIL,
    "auto_contrast": lambda: ImageOps.autocontrast(PIL),
    "equalize": lambda: ImageOps.equalize(PIL),
    "solarize": lambda: ImageOps.solarize(PIL, 128),
    "posterize": lambda: ImageOps.posterize(PIL, 6),
    "color": lambda: ImageEnhance.Color(PIL).enhance(1.45),
    "contrast": lambda: ImageEnhance.Contrast(PIL).enhance(1.45),
    "brightness": lambda: ImageEnhance.Brightness(PIL).enhance(1.45),
    "sharpness": lambda: ImageEnhance.Sharpness(PIL).enhance(1.45),
    "rotate": lambda: PIL.rotate(15, Image.Resampling.BILINEAR, fillcolor=(128,) * 3),
    "shear_x": lambda: affine(1, 0.15, -0.15 * 12, 0, 1, 0),
    "shear_y": lambda: affine(1, 0, 0, 0.15, 1, -0.15 * 10),
    "translate_x": lambda: affine(1, 0, 4.5, 0, 1, 0),
    "translate_y": lambda: affine(1, 0, 0, 0, 1, 5.4),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_those_of_pillow(name):
    """Within two levels, as Pillow rounds colours; of moves within the picture."""
    found = OPERATIONS[name](tf.constant(IMAGE), tf.constant(0.5), tf.constant(0.5)).numpy()
    moves = name.startswith(("rotate", "shear", "translate"))
    inner = np.s_[9:15, 8:12] if moves else np.s_[:]
    expected = np.asarray(EXPECTED[name]())
    np.testing.assert_allclose(found[inner].astype(int), expected[inner].astype(int), atol=2)
    assert found.dtype == np.uint8 and (name == "identity" or (found != IMAGE).any())


def test_what_moves_in_is_grey():
    found = OPERATIONS["translate_x"](tf.constant(IMAGE), tf.constant(1.0), tf.constant(1.0)).numpy()
    assert (found[:, -8:] == 128).all() and (found[:, :10] == IMAGE[:, 9:19]).all()


@pytest.mark.parametrize("name", ["auto_contrast", "equalize"])
def test_an_image_of_one_colour_stays(name):
    image = np.full((5, 4, 3), 90, "uint8")
    np.testing.assert_array_equal(OPERATIONS[name](tf.constant(image), 0.5, 0.5), image)


def test_a_seed_gives_one_image():
    images = [rand_augment(IMAGE, seed(number), 9).numpy().tolist() for number in (1, 1, *range(2, 12))]
    assert images[0] == images[1] and len({str(image) for image in images}) > 8


def test_a_graph_makes_the_same_image():
    run = tf.function(lambda seed: rand_augment(tf.constant(IMAGE), seed, 9.0))
    for number in range(5):
        np.testing.assert_array_equal(run(seed(number)), rand_augment(IMAGE, seed(number), 9.0))


def test_erasing():
    areas, aspects, erased = [], [], 0
    for number in range(150):
        image = np.zeros((40, 40, 3), "uint8")
        found = erase(tf.constant(image), seed(number), 0.6).numpy().any(axis=-1)
        erased += found.any()
        if found.any():
            rows, columns = found.any(axis=1).sum(), found.any(axis=0).sum()
            areas.append(rows * columns / 1600)
            aspects.append(rows / columns)
            assert found.sum() > 0.99 * rows * columns - 1
    assert 70 < erased < 110 and min(areas) < 0.06 and 0.25 < max(areas) < 0.36
    assert min(aspects) < 0.6 and max(aspects) > 1.7
    one, same, other = (erase(IMAGE, seed(number), 1.0).numpy().tolist() for number in (1, 1, 2))
    assert one == same != other
    np.testing.assert_array_equal(erase(IMAGE, seed(1), 0.0), IMAGE)
