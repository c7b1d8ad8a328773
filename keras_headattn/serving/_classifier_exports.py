"""A classifier of texts or of images as a SavedModel."""

import contextlib
import pathlib
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from headattn_io.files import Path
from keras_headattn._private import flatten_layers
from keras_headattn.serving._attention_signature import text_attention
from keras_headattn.serving._buckets import bucket_lengths, is_longer, pad_to_bucket
from keras_headattn.serving._likeliest import likeliest, probabilities_of
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches, sample_texts
from keras_headattn.text._tokenizer import Tokenizer

PARALLEL = 10  # files that are decoded at a time
SIZE = 224  # pixels of the sides of images in warm-up requests, where images may have any size
LONGEST = 128  # ids to which texts are padded at most, where they may have any number


def export_classifier(
    model: keras.Model,
    tokenizer: Tokenizer,
    class_names: Sequence[str],
    folder: Path,
    max_length: int | None = None,
    pairs: bool = False,
    top: int | None = None,
    run: str | None = None,
    activation: str = "softmax",
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    attention: bool = False,
) -> pathlib.Path:
    """Writes a SavedModel that takes texts, with the vocabulary inside.

    With a `WordTokenizer` or a `BytePairTokenizer` it runs wherever TensorFlow does; with a `SentencePieceTokenizer` or
    a `WordPieceTokenizer` tensorflow-text is needed too. This library is not. Its signature `serving_default` takes
    strings `text` `(B,)`, and of pairs `second_text` `(B,)`. It returns `classes` `(B, top)`, strings, the likeliest
    first, and their probabilities, `scores`, float32 `(B, top)`.

    The signature `attention`, if asked for, returns besides strings `pieces` `(B, n)`, `""` where there is padding, and
    float32 `weights` `(B, layers, heads, n, n)` of attention layers of this library, and `pooling` `(B, heads, n)` of
    `SelfAttentivePooling`, whichever the model has. Of pairs that are two inputs of the
    model, `second_pieces` and so on are those of the second text.

    With `max_length`, every signature also returns boolean `is_cut` `(B,)`: true where a text, or one of a pair, was
    longer, so that its end was not read.

    Texts are padded to few lengths: 16, 32, 64 and so on, and `max_length`, or 128 where none is cut; a longer
    text then stays as it is.

    Args:
        model: Keras model from ids `(B, n)`, padded with the tokenizer's `pad_id`, to logits `(B, C)`; of pairs, from a
            tuple of two or, where the tokenizer joins them, from what it makes of a pair.
        tokenizer: `WordTokenizer`, `SentencePieceTokenizer`, or `WordPieceTokenizer` or `BytePairTokenizer`, which join
            pairs.
        class_names: list of C str.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only when
            complete, and older versions stay as they are.
        max_length: int, ids of a text beyond which it is cut. Default `None`: none is cut, and a long one may take all
            of the server's memory.
        pairs: bool, whether pairs of texts are classified. Default False.
        top: int, how many classes are returned. Default `None`: all.
        run: str, the name of what the model is of. A folder with the model of another run is refused. Default `None`:
            it has no name.
        activation: `"softmax"` of one class a text, `"sigmoid"` of any of several labels, each with its own
            probability. Default `"softmax"`.
        warmup_batch_sizes: ints, batch sizes for which requests are written that a server runs before others:
            `allowed_batch_sizes` of one that batches. Default (1, 8); none are written for an empty tuple.
        attention: bool, whether to add the signature `attention`. Default False.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the model has another number of classes than there are names, or the folder has the model of
            another run, or if `attention` is asked for and the model has no heads of this library.
        OSError: if it cannot be written.

    Example:

    ```python
    path = export_classifier(model, tokenizer, ["negative", "positive"], "saved_models/reviews", max_length=200)
    classify = tf.saved_model.load(path).signatures["serving_default"]
    classify(text=tf.constant(["a good film"]))["classes"]
    ```
    """
    classify = likeliest(model, class_names, top, activation)
    return _export_texts(classify, model, tokenizer, folder, max_length, pairs, run, warmup_batch_sizes, attention)


def export_regressor(
    model: keras.Model,
    tokenizer: Tokenizer,
    folder: Path,
    max_length: int | None = None,
    pairs: bool = False,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    attention: bool = False,
) -> pathlib.Path:
    """Writes a SavedModel that takes texts and returns a number for each.

    It is as that of `export_classifier`, with `values`, float32 `(B,)`, in place of classes and scores.

    Args:
        model: Keras model from ids `(B, n)` to numbers `(B, 1)`; of pairs, as `export_classifier` takes it.
        tokenizer, folder, max_length, pairs, run, warmup_batch_sizes, attention: as `export_classifier` takes them.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError, OSError: as `export_classifier`.

    Example:

    ```python
    path = export_regressor(model, tokenizer, "saved_models/similarity", max_length=200, pairs=True)
    rate = tf.saved_model.load(path).signatures["serving_default"]
    rate(text=tf.constant(["a film"]), second_text=tf.constant(["a movie"]))["values"]
    ```
    """
    numbers = probabilities_of(model, ["values"], "linear")

    def rate(inputs):
        return {"values": numbers(inputs)[:, 0]}

    return _export_texts(rate, model, tokenizer, folder, max_length, pairs, run, warmup_batch_sizes, attention)


def _export_texts(predict, model, tokenizer, folder, max_length, pairs, run, warmup_batch_sizes, attention):
    """Writes functions of what the model takes as signatures of strings."""
    joins_pairs = getattr(tokenizer, "joins_pairs", False)
    if joins_pairs:
        tokenizer = tokenizer.with_max_length(max_length)
        max_length = tokenizer.max_length
    lengths = bucket_lengths(max_length or LONGEST)

    pad_id = getattr(tokenizer, "pad_id", 0)

    def encode(*texts):
        """Returns the inputs of the model, and the output `is_cut`."""
        if joins_pairs:
            cut = {} if max_length is None else {"is_cut": tokenizer.is_cut(*texts)}
            return pad_to_bucket(tokenizer(*texts), lengths, pad_id), cut
        sides, cut = [tokenizer(text) for text in texts], {}
        if max_length is not None:
            cut = {"is_cut": tf.reduce_any([is_longer(ids, max_length, pad_id) for ids in sides], axis=0)}
        sides = tuple(pad_to_bucket(ids[:, :max_length], lengths, pad_id) for ids in sides)
        return sides if pairs else sides[0], cut

    def of_strings(function):
        def call(*texts):
            inputs, cut = encode(*texts)
            return function(inputs) | cut

        return call

    functions = {"serving_default": predict}
    if attention:
        functions["attention"] = text_attention(predict, model, tokenizer)
    names = ("text", "second_text") if pairs else ("text",)
    specs = [tf.TensorSpec((None,), tf.string, name=name) for name in names]
    signatures = {name: (of_strings(function), specs) for name, function in functions.items()}
    requests = batches("text", sample_texts(tokenizer, lengths, 2 if pairs and joins_pairs else 1), warmup_batch_sizes)
    warmup = dict.fromkeys(signatures, [dict.fromkeys(names, request["text"]) for request in requests])
    with _any_device(model):
        return save_signatures(signatures, folder, [tokenizer], run, warmup)


def export_image_classifier(
    model: keras.Model,
    preprocess: Callable[[tf.Tensor], tf.Tensor],
    class_names: Sequence[str],
    folder: Path,
    top: int = 5,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
) -> pathlib.Path:
    """Writes a SavedModel that takes the bytes of image files.

    It runs wherever TensorFlow does; this library is not needed there. Its signature `serving_default` takes strings
    `images` `(B,)`, each a whole JPEG, PNG, GIF or BMP file, and returns `classes` `(B, top)`, strings, the likeliest
    first, their probabilities, `scores` `(B, top)`, float32, and `valid` `(B,)`, bool. A file that cannot be decoded is
    not valid: its classes are empty strings, its scores 0. The other files of the batch do not suffer from it.

    Args:
        model: Keras model from pixels `(B, height, width, 3)` to logits `(B, C)`.
        preprocess: function of the bytes of one file, a scalar string tensor, that returns its pixels, `(height,
            width, 3)`: decoded, resized, cropped.
        class_names: list of C str.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only when
            complete, and older versions stay as they are.
        top: int, how many classes are returned; all, if there are fewer. Default 5.
        run: str, the name of what the model is of. A folder with the model of another run is refused. Default `None`:
            it has no name.
        warmup_batch_sizes: ints, batch sizes for which requests are written that a server runs before others:
            `allowed_batch_sizes` of one that batches. Default (1, 8); none are written for an empty tuple.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the model has another number of classes than there are names, or the folder has the model of
            another run, or the model takes images of any size and `preprocess` does not say which it makes.
        OSError: if it cannot be written.

    Example:

    ```python
    path = export_image_classifier(model, preprocess, ["cat", "dog"], "saved_models/pets")
    with open("cat.jpg", "rb") as file:
        images = tf.constant([file.read()])
    tf.saved_model.load(path).signatures["serving_default"](images=images)["classes"]
    ```
    """
    classify = likeliest(model, class_names, top)
    _, *shape = model.input_shape

    def files(images):
        pixels, valid = _decoded(images, preprocess, shape)
        found = classify(pixels)
        return {
            "classes": tf.where(valid[:, None], found["classes"], ""),
            "scores": tf.where(valid[:, None], found["scores"], 0.0),
            "valid": valid,
        }

    images = tf.TensorSpec((None,), tf.string, name="images")
    file = tf.io.encode_jpeg(np.zeros((SIZE, SIZE, 3), "uint8")).numpy()
    warmup = {"serving_default": batches("images", [file], warmup_batch_sizes)}
    return save_signatures({"serving_default": (files, [images])}, folder, run=run, warmup=warmup)


def export_pixel_classifier(
    model: keras.Model,
    class_names: Sequence[str],
    folder: Path,
    top: int = 5,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
) -> pathlib.Path:
    """Writes a SavedModel that takes pixels, for programs that decode images themselves.

    Its signature `serving_default` takes float32 `images` `(B, height, width, 3)`, 0 to 255, and `uint8` the same as
    uint8; both return the `classes` and `scores` of `export_image_classifier`.

    Args:
        model, class_names, folder, top, run, warmup_batch_sizes: as `export_image_classifier` takes them.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError, OSError: as `export_image_classifier`.

    Example:

    ```python
    path = export_pixel_classifier(model, ["cat", "dog"], "saved_models/pets_tensors")
    pixels = tf.zeros((1, 224, 224, 3))
    tf.saved_model.load(path).signatures["serving_default"](images=pixels)["scores"]
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


def _decoded(images, preprocess, shape):
    """Pixels of files, zeros of those that cannot be decoded, and which can be."""
    rows = tf.size(images, tf.int64)
    # Only a data set goes on after an error. One row more, as `get_single_element` takes none that is empty.
    dataset = tf.data.Dataset.range(rows).map(
        lambda row: (row, tf.ensure_shape(preprocess(images[row]), shape)), PARALLEL
    )
    spec = dataset.element_spec[1]
    if not spec.shape.is_fully_defined():
        raise ValueError(
            "`preprocess` must return pixels of one size where the model takes images of any. "
            f"Received: pixels of shape {tuple(spec.shape)}"
        )
    last = tf.data.Dataset.from_tensors((rows, tf.zeros(spec.shape, spec.dtype)))
    dataset = dataset.ignore_errors().concatenate(last).batch(rows + 1)
    options = tf.data.Options()
    options.autotune.enabled = False  # it starts threads for each request
    readable, pixels = dataset.with_options(options).get_single_element()
    pixels = tf.scatter_nd(readable[:, None], pixels, [rows + 1, *spec.shape])
    valid = tf.scatter_nd(readable[:, None], tf.ones_like(readable, tf.bool), [rows + 1])
    return pixels[:rows], valid[:rows]


@contextlib.contextmanager
def _any_device(model):
    """Keeps cuDNN's operations out of recurrent layers, which would bind the SavedModel to GPUs."""
    layers = [layer for layer in flatten_layers(model) if hasattr(layer, "use_cudnn")]
    before = [layer.use_cudnn for layer in layers]
    for layer in layers:
        layer.use_cudnn = False
    try:
        yield
    finally:
        for layer, use in zip(layers, before, strict=True):
            layer.use_cudnn = use
