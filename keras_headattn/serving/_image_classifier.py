"""Classification of image files."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from headattn_io.files import Path
from keras_headattn._validation import check_positive
from keras_headattn.serving._likeliest import Classification, classifications, probabilities_of


class ImageClassifier:
    """Image classifier: files in, class names out.

    Args:
        model: trained Keras model from pixels `(B, height, width, 3)` to logits `(B, C)`.
        preprocess: function from the bytes of a file, a scalar string tensor, to its pixels `(height, width, 3)`.
        class_names: C str.
        top: int, most classes to return. Default 5.
        batch_size: int. Default 32.

    Call arguments:
        images: list of paths (str or path) or bytes of files.

    Returns:
        List of `Classification`, `None` for files that cannot be decoded.

    Raises:
        FileNotFoundError: if a path names no file.
        ValueError: if the model and `class_names` disagree on C.

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
        if not isinstance(image, bytes):
            with open(image, "rb") as file:
                image = file.read()
        try:
            return self.preprocess(tf.constant(image))
        except tf.errors.OpError:
            return None
