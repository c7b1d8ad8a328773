import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import central_crop
from keras_headattn.serving import ImageClassifier

CLASSES = ["Affe", "Bär", "Chamäleon"]
PREPROCESS = functools.partial(central_crop, size=8, resized=10)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    pixels = keras.Input((8, 8, 3))
    return keras.Model(pixels, keras.layers.Dense(3)(keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(pixels))))


def test_files_and_their_bytes(model, tmp_path):
    rng = np.random.default_rng(0)
    files = [tf.io.encode_png(rng.integers(0, 256, (9 + i, 16, 3), "uint8")).numpy() for i in range(4)]
    (tmp_path / "picture.png").write_bytes(files[1])
    images = [files[0], tmp_path / "picture.png", b"no picture", str(tmp_path / "picture.png"), files[2], files[3][:40]]
    found = ImageClassifier(model, PREPROCESS, CLASSES, top=2, batch_size=2)(images)
    assert [each is None for each in found] == [False, False, True, False, False, True]
    pixels = tf.stack([PREPROCESS(files[place]) for place in (0, 1, 1, 2)])
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(model(pixels)))
    for each, row in zip(filter(None, found), expected, strict=True):
        order = np.argsort(-row)[:2]
        assert each.classes == tuple(CLASSES[label] for label in order)
        np.testing.assert_allclose(each.scores, row[order], rtol=1e-4)


def test_nothing_that_can_be_read(model):
    classify = ImageClassifier(model, PREPROCESS, CLASSES)
    assert classify([]) == [] and classify([b"", b"x"]) == [None, None]
    with pytest.raises(FileNotFoundError, match="missing.png"):
        classify(["missing.png"])
