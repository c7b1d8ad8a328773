"""SavedModels that classify texts or images."""

import contextlib
import pathlib
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._private import flatten_layers
from keras_headattn.serving._attention_signature import text_attention
from keras_headattn.serving._buckets import after, bucket_lengths, is_longer, pad_to_bucket
from keras_headattn.serving._inference import in_one_thread, projected_together
from keras_headattn.serving._likeliest import likeliest, probabilities_of
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches, sample_texts
from keras_headattn.text._tokenizer import Tokenizer

PARALLEL = 10  # files decoded in parallel
SIZE = 224  # height and width of images in warm-up requests, if images may have any size
LONGEST = 128  # greatest length that texts are padded to without `max_length`


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
    cpu_only: bool = False,
) -> pathlib.Path:
    """Writes a SavedModel that classifies texts, with the vocabulary inside, and returns the `Path` of the new version.

    It needs TensorFlow only, and tensorflow-text for a `SentencePieceTokenizer` or a `WordPieceTokenizer`. Signatures:

    - `serving_default`: strings `text` `(B,)`, and `second_text` `(B,)` for pairs, to strings `classes` `(B, top)`,
      likeliest first, and their probabilities, float32 `scores` `(B, top)`;
    - `attention`, optional: also strings `pieces` `(B, n)`, `""` for padding, and, if the model has them, float32
      `weights` `(B, layers, heads, n, n)` of this library's attention layers and `pooling` `(B, heads, n)` of
      `SelfAttentivePooling`. Pairs that are not joined have `second_pieces` and so on for the second text.

    With `max_length`, every signature also returns boolean `is_cut` `(B,)`, True if a text was cut. Texts are padded to
    16, 32, 64, ... and `max_length`, or 128 without it; longer ones are not padded.

    Args:
        model, tokenizer, class_names, activation: as in `Classifier`.
        folder: str or path. The next version is written to `folder/1`, `folder/2`, ... and appears only when complete.
        max_length: int, most ids of a text; longer ones are cut. Default `None`: no limit, so long texts may exhaust
            memory.
        pairs: bool, True to classify pairs of texts. Default False.
        top: int, number of classes to return. Default `None`: all.
        run: str, name of the training run; a folder with a model of another run is refused. Default `None`: no name.
        warmup_batch_sizes: ints, batch sizes of the warm-up requests to write, see `write_warmup`: a server's
            `allowed_batch_sizes`. Default (1, 8); `()` for none.
        attention: bool, True to add the signature `attention`. Default False.
        cpu_only: bool, True if servers have no GPU: operations run in one thread, and products still in several; not on
            GPUs. Default False.

    Raises:
        ValueError: if the model and `class_names` disagree, `run` is another, there is no attention to return, or a
            model for `cpu_only` has conditions (`tf.cond`).
        OSError: if it cannot be written.

    ```python
    path = export_classifier(model, tokenizer, ["negative", "positive"], "saved_models/reviews", max_length=200)
    classify = tf.saved_model.load(path).signatures["serving_default"]
    classify(text=tf.constant(["a good film"]))["classes"]
    ```
    """
    classify = likeliest(model, class_names, top, activation)
    arguments = max_length, pairs, run, warmup_batch_sizes, attention, cpu_only
    return _export_texts(classify, model, tokenizer, folder, *arguments)


def export_regressor(
    model: keras.Model,
    tokenizer: Tokenizer,
    folder: Path,
    max_length: int | None = None,
    pairs: bool = False,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    attention: bool = False,
    cpu_only: bool = False,
) -> pathlib.Path:
    """Writes a SavedModel as `export_classifier` does, with float32 `values` `(B,)` in place of classes and scores.

    Args:
        model: Keras model from ids `(B, n)` to numbers `(B, 1)`; for pairs, as in `Classifier`.
        tokenizer, folder, max_length, pairs, run, warmup_batch_sizes, attention, cpu_only: as in `export_classifier`.

    ```python
    export_regressor(model, tokenizer, "saved_models/similarity", max_length=200, pairs=True)
    ```
    """
    numbers = probabilities_of(model, ["values"], "linear")

    def rate(inputs):
        return {"values": numbers(inputs)[:, 0]}

    arguments = max_length, pairs, run, warmup_batch_sizes, attention, cpu_only
    return _export_texts(rate, model, tokenizer, folder, *arguments)


def _export_texts(predict, model, tokenizer, folder, max_length, pairs, run, warmup_batch_sizes, attention, cpu_only):
    joins_pairs = getattr(tokenizer, "joins_pairs", False)
    if joins_pairs:
        tokenizer = tokenizer.with_max_length(max_length)
        max_length = tokenizer.max_length
    lengths = bucket_lengths(max_length or LONGEST)
    pad_id = getattr(tokenizer, "pad_id", 0)

    def encode(*texts):
        """Returns the model's inputs and the output `is_cut`."""
        if joins_pairs:
            cut = {} if max_length is None else {"is_cut": tokenizer.is_cut(*texts)}
            return pad_to_bucket(tokenizer(*texts), lengths, pad_id), cut
        sides, cut = [tokenizer(text) for text in texts], {}
        if max_length is not None:
            cut = {"is_cut": tf.reduce_any([is_longer(ids, max_length, pad_id) for ids in sides], axis=0)}
        sides = tuple(pad_to_bucket(ids[:, :max_length], lengths, pad_id) for ids in sides)
        return sides if pairs else sides[0], cut

    functions = {"serving_default": predict}
    if attention:
        functions["attention"] = text_attention(predict, model, tokenizer)
    names = ("text", "second_text") if pairs else ("text",)
    specs = [tf.TensorSpec((None,), tf.string, name=name) for name in names]
    if cpu_only:  # not the tokenizer, which would wait forever in a session of one thread
        functions = {name: in_one_thread(function) for name, function in functions.items()}
    signatures = {name: (after(encode, function), specs) for name, function in functions.items()}
    requests = batches("text", sample_texts(tokenizer, lengths, 2 if pairs and joins_pairs else 1), warmup_batch_sizes)
    warmup = dict.fromkeys(signatures, [dict.fromkeys(names, request["text"]) for request in requests])
    with _any_device(model), projected_together(model):
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
    options = tf.data.Options()
    options.autotune.enabled = False  # it starts threads for each request
    readable, pixels = dataset.with_options(options).get_single_element()
    pixels = tf.scatter_nd(readable[:, None], pixels, [rows + 1, *spec.shape])
    valid = tf.scatter_nd(readable[:, None], tf.ones_like(readable, tf.bool), [rows + 1])
    return pixels[:rows], valid[:rows]


@contextlib.contextmanager
def _any_device(model):
    """Keeps cuDNN operations, which would bind the SavedModel to GPUs, out of recurrent layers."""
    layers = [layer for layer in flatten_layers(model) if hasattr(layer, "use_cudnn")]
    before = [layer.use_cudnn for layer in layers]
    for layer in layers:
        layer.use_cudnn = False
    try:
        yield
    finally:
        for layer, use in zip(layers, before, strict=True):
            layer.use_cudnn = use
