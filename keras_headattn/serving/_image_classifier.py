"""Classification of images, in Python and as SavedModels."""

import pathlib
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._tensorflow import untuned
from keras_headattn._validation import check_positive
from keras_headattn.serving._likeliest import Classification, likeliest
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches

PARALLEL = 10  # files decoded in parallel
SIZE = 224  # height and width of images in warm-up requests, if images may have any size
FILES = tf.TensorSpec((None,), tf.string, name="images")
OUTPUTS = "classes", "scores", "valid"


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
        ValueError: if the model and `class_names` disagree on C, or neither the model nor `preprocess` fixes the size
            of images.

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
        self.batch_size = check_positive("batch_size", batch_size)
        files = _of_files(model, preprocess, list(class_names), check_positive("top", top))
        self._classify = tf.function(files, input_signature=[FILES], autograph=False)

    def __call__(self, images: Sequence[Path | bytes]) -> list[Classification | None]:
        results: list[Classification | None] = []
        for begin in range(0, len(images), self.batch_size):
            batch = images[begin : begin + self.batch_size]
            data = [image if isinstance(image, bytes) else pathlib.Path(image).read_bytes() for image in batch]
            outputs = self._classify(tf.constant(data))
            for names, scores, is_valid in zip(*(outputs[name].numpy() for name in OUTPUTS), strict=True):
                result = Classification(tuple(name.decode("utf-8") for name in names), tuple(scores.tolist()))
                results.append(result if is_valid else None)
        return results


def export_image_classifier(
    model: keras.Model,
    preprocess: Callable[[tf.Tensor], tf.Tensor],
    class_names: Sequence[str],
    folder: Path,
    top: int = 5,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
) -> pathlib.Path:
    """Writes a SavedModel that classifies image files, and returns the `Path` of the new version.

    It needs TensorFlow only. Its signature `serving_default` takes strings `images` `(B,)`, the bytes of JPEG, PNG, GIF
    or BMP files, and returns strings `classes` `(B, top)`, likeliest first, their probabilities, float32 `scores`
    `(B, top)`, and boolean `valid` `(B,)`. A file that cannot be decoded is not valid: classes are `""`, scores 0.

    Args:
        model: Keras model from pixels `(B, height, width, 3)` to logits `(B, C)`.
        preprocess: function from the bytes of a file, a scalar string tensor, to its pixels `(height, width, 3)`.
        class_names: C str.
        top: int, most classes to return. Default 5.
        folder, run, warmup_batch_sizes: as in `export_classifier`.

    Raises:
        ValueError: if the model and `class_names` disagree, `run` is another, or neither the model nor `preprocess`
            fixes the size of images.
        OSError: if it cannot be written.

    ```python
    path = export_image_classifier(model, preprocess, ["cat", "dog"], "saved_models/pets")
    with open("cat.jpg", "rb") as file:
        images = tf.constant([file.read()])
    tf.saved_model.load(path).signatures["serving_default"](images=images)["classes"]
    ```
    """
    files = _of_files(model, preprocess, class_names, top)
    file = tf.io.encode_jpeg(np.zeros((SIZE, SIZE, 3), "uint8")).numpy()
    warmup = {"serving_default": batches("images", [file], warmup_batch_sizes)}
    return save_signatures({"serving_default": (files, [FILES])}, folder, run=run, warmup=warmup)


def export_pixel_classifier(
    model: keras.Model,
    class_names: Sequence[str],
    folder: Path,
    top: int = 5,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
) -> pathlib.Path:
    """Writes a SavedModel as `export_image_classifier` does, for programs that decode images themselves.

    Its signature `serving_default` takes float32 `images` `(B, height, width, 3)`, 0 to 255, and `uint8` takes them as
    uint8. Both return `classes` and `scores`.

    Args:
        model, class_names, folder, top, run, warmup_batch_sizes: as in `export_image_classifier`.

    ```python
    path = export_pixel_classifier(model, ["cat", "dog"], "saved_models/pets_tensors")
    tf.saved_model.load(path).signatures["serving_default"](images=tf.zeros((1, 224, 224, 3)))["scores"]
    ```
    """
    classify = likeliest(model, class_names, top)
    _, *shape = model.input_shape
    signatures = {
        name: (classify, [tf.TensorSpec((None, *shape), dtype, name="images")])
        for name, dtype in (("serving_default", tf.float32), ("uint8", tf.uint8))
    }
    pixels = np.zeros([size or SIZE for size in shape])
    warmup = dict.fromkeys(signatures, batches("images", [pixels], warmup_batch_sizes))
    return save_signatures(signatures, folder, run=run, warmup=warmup)


def _of_files(model, preprocess, class_names, top):
    """Returns a function from the bytes of files, strings `(B,)`, to the outputs of `export_image_classifier`."""
    classify = likeliest(model, class_names, top)
    _, *shape = model.input_shape

    def files(images):
        pixels, valid = _decoded(images, preprocess, shape)
        result = classify(pixels)
        return {
            "classes": tf.where(valid[:, None], result["classes"], ""),
            "scores": tf.where(valid[:, None], result["scores"], 0.0),
            "valid": valid,
        }

    return files


def _decoded(images, preprocess, shape):
    """Returns the pixels of files, zeros for files that cannot be decoded, and boolean `(B,)` for those that can."""
    rows = tf.size(images, tf.int64)
    # Only data sets continue after an error. An extra row, as `get_single_element` refuses empty batches.
    dataset = tf.data.Dataset.range(rows).map(
        lambda row: (row, tf.ensure_shape(preprocess(images[row]), shape)), PARALLEL
    )
    spec = dataset.element_spec[1]
    if not spec.shape.is_fully_defined():
        raise ValueError(
            "`preprocess` must return images of one size if the model takes images of any size. "
            f"Received: pixels of shape {tuple(spec.shape)}"
        )
    last = tf.data.Dataset.from_tensors((rows, tf.zeros(spec.shape, spec.dtype)))
    dataset = dataset.ignore_errors().concatenate(last).batch(rows + 1)
    readable, pixels = untuned(dataset).get_single_element()
    pixels = tf.scatter_nd(readable[:, None], pixels, [rows + 1, *spec.shape])
    valid = tf.scatter_nd(readable[:, None], tf.ones_like(readable, tf.bool), [rows + 1])
    return pixels[:rows], valid[:rows]
