"""Classifying image files with a trained model."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from headattn_io.files import Path
from keras_headattn._validation import check_positive
from keras_headattn.serving._likeliest import Classification, classifications, probabilities_of


class ImageClassifier:
    """Classifies image files: files in, names of classes out.

    Args:
        model: trained Keras model from pixels `(B, height, width, 3)` to logits `(B, C)`.
        preprocess: function of the bytes of one file, a scalar string tensor, that returns its pixels, `(height,
            width, 3)`: decoded, resized, cropped.
        class_names: list of C str.
        top: int, how many classes are returned; all, if there are fewer. Default 5.
        batch_size: int, files that are read at a time. Default 32.

    Call arguments:
        images: list of files: paths (str or path), or their bytes.

    Returns:
        List of `Classification`, one for each image; `None` for one that cannot be decoded.

    Raises:
        FileNotFoundError: for a path that names no file.
        ValueError: if the model has another number of classes than there are names.

    Example:

    >>> import functools
    >>> from keras_headattn.data import central_crop
    >>> model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(2)])
    >>> preprocess = functools.partial(central_crop, size=8, resized=8)
    >>> classify = ImageClassifier(model, preprocess, ["cat", "dog"])
    >>> picture = tf.io.encode_png(np.zeros((10, 12, 3), "uint8")).numpy()
    >>> found, bad = classify([picture, b"no picture"])
    >>> len(found.classes), bad
    (2, None)
    """

    def __init__(
        self,
        model: keras.Model,
        preprocess: Callable[[tf.Tensor], tf.Tensor],
        class_names: Sequence[str],
        top: int = 5,
        batch_size: int = 32,
    ):
        self.preprocess = preprocess
        self.class_names = list(class_names)
        self.top = check_positive("top", top)
        self.batch_size = check_positive("batch_size", batch_size)
        self._probabilities = probabilities_of(model, self.class_names)

    def __call__(self, images: Sequence[Path | bytes]) -> list[Classification | None]:
        found = []
        for begin in range(0, len(images), self.batch_size):
            found += self._classify(images[begin : begin + self.batch_size])
        return found

    def _classify(self, images):
        pixels = [self._pixels(image) for image in images]
        readable = [place for place, found in enumerate(pixels) if found is not None]
        found = [None] * len(images)
        if readable:
            rows = self._probabilities(tf.stack([pixels[place] for place in readable])).numpy()
            for place, each in zip(readable, classifications(rows, self.class_names, self.top), strict=True):
                found[place] = each
        return found

    def _pixels(self, image):
        """Pixels of a file; `None` if it cannot be decoded."""
        if not isinstance(image, bytes):
            with open(image, "rb") as file:
                image = file.read()
        try:
            return self.preprocess(tf.constant(image))
        except tf.errors.OpError:
            return None
