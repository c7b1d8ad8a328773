"""Classification of image files."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from keras_headattn._files import Path
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
    >>> good, bad = classify([picture, b"no picture"])
    >>> len(good.classes), bad
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
        results: list[Classification | None] = [None] * len(images)
        for begin in range(0, len(images), self.batch_size):
            batch = {begin + i: self._pixels(image) for i, image in enumerate(images[begin : begin + self.batch_size])}
            batch = {index: pixels for index, pixels in batch.items() if pixels is not None}
            if batch:
                rows = self._probabilities(tf.stack(list(batch.values()))).numpy()
                for index, result in zip(batch, classifications(rows, self.class_names, self.top), strict=True):
                    results[index] = result
        return results

    def _pixels(self, image):
        if not isinstance(image, bytes):
            with open(image, "rb") as file:
                image = file.read()
        try:
            return self.preprocess(tf.constant(image))
        except tf.errors.OpError:
            return None
