"""A classifier of texts or of images as a SavedModel."""

import contextlib

import tensorflow as tf

from keras_headattn._private import flatten_layers
from keras_headattn.serving._versions import save_signatures


def export_classifier(model, tokenizer, class_names, folder, max_length=None, pairs=False, top=None):
    """Writes a SavedModel that takes texts, with the vocabulary inside.

    With a `WordTokenizer` it runs wherever TensorFlow does; with a `SentencePieceTokenizer` tensorflow-text is needed
    too. This library is not. Its signature `serving_default` takes strings `text` `(B,)`, and of pairs `second_text`
    `(B,)`. It returns `classes` `(B, top)`, strings, the likeliest first, and their probabilities, `scores`, float32
    `(B, top)`.

    Args:
        model: Keras model from ids `(B, n)` to logits `(B, C)`; of pairs, from a tuple of two.
        tokenizer: `WordTokenizer` or `SentencePieceTokenizer`.
        class_names: list of C str.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only when
            complete, and older versions stay as they are.
        max_length: int, ids of a text beyond which it is cut. Default `None`: none is cut, and a long one may take all
            of the server's memory.
        pairs: bool, whether pairs of texts are classified. Default False.
        top: int, how many classes are returned. Default `None`: all.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the model has another number of classes than there are names.
        OSError: if it cannot be written.

    Example:

    ```python
    path = export_classifier(model, tokenizer, ["negative", "positive"], "saved_models/reviews", max_length=200)
    classify = tf.saved_model.load(path).signatures["serving_default"]
    classify(text=tf.constant(["a good film"]))["classes"]
    ```
    """
    classify = _likeliest(model, class_names, top)

    def encode(text):
        return tokenizer(text)[:, :max_length]

    def one(text):
        return classify(encode(text))

    def two(text, second_text):
        return classify((encode(text), encode(second_text)))

    specs = [tf.TensorSpec((None,), tf.string, name=name) for name in ("text", "second_text")]
    signature = (two, specs) if pairs else (one, specs[:1])
    with _any_device(model):
        return save_signatures({"serving_default": signature}, folder, model, [tokenizer])


def export_image_classifier(model, preprocess, class_names, folder, top=5):
    """Writes a SavedModel that takes the bytes of image files.

    It runs wherever TensorFlow does; this library is not needed there. Its signature `serving_default` takes strings
    `images` `(B,)`, each a whole JPEG, PNG, GIF or BMP file, and returns `classes` `(B, top)`, strings, the likeliest
    first, and their probabilities, `scores` `(B, top)`, float32. A file that cannot be decoded is an error.

    Args:
        model: Keras model from pixels `(B, height, width, 3)` to logits `(B, C)`.
        preprocess: function of the bytes of one file, a scalar string tensor, that returns its pixels, `(height,
            width, 3)`: decoded, resized, cropped.
        class_names: list of C str.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only when
            complete, and older versions stay as they are.
        top: int, how many classes are returned; all, if there are fewer. Default 5.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the model has another number of classes than there are names.
        OSError: if it cannot be written.

    Example:

    ```python
    path = export_image_classifier(model, preprocess, ["cat", "dog"], "saved_models/pets")
    with open("cat.jpg", "rb") as file:
        images = tf.constant([file.read()])
    tf.saved_model.load(path).signatures["serving_default"](images=images)["classes"]
    ```
    """
    classify = _likeliest(model, class_names, top)
    _, *shape = model.input_shape

    def files(images):
        pixels = tf.map_fn(preprocess, images, fn_output_signature=tf.TensorSpec(shape, tf.uint8))
        return classify(pixels)

    images = tf.TensorSpec((None,), tf.string, name="images")
    return save_signatures({"serving_default": (files, [images])}, folder, model)


def export_pixel_classifier(model, class_names, folder, top=5):
    """Writes a SavedModel that takes pixels, for programs that decode images themselves.

    Its signature `serving_default` takes float32 `images` `(B, height, width, 3)`, 0 to 255, and `uint8` the same as
    uint8; both return what that of `export_image_classifier` does.

    Args:
        model, class_names, folder, top: as `export_image_classifier` takes them.

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
    classify = _likeliest(model, class_names, top)
    _, *shape = model.input_shape
    signatures = {
        name: (classify, [tf.TensorSpec((None, *shape), dtype, name="images")])
        for name, dtype in (("serving_default", tf.float32), ("uint8", tf.uint8))
    }
    return save_signatures(signatures, folder, model)


def _likeliest(model, class_names, top=None):
    """A function of the model's inputs that gives the names of classes, the likeliest first, and their probabilities.

    Args:
        model: function from inputs to logits `(B, C)`, which takes `training`.
        class_names: list of C str.
        top: int, how many classes are returned. Default `None`: all.

    Returns:
        Function that returns a dictionary of `classes` `(B, top)`, strings, and `scores` `(B, top)`, float32. It raises
        a ValueError if the model has another number of classes than there are names.
    """
    class_names = list(class_names)
    names = tf.constant(class_names)
    top = len(class_names) if top is None else min(top, len(class_names))

    def classify(inputs):
        logits = tf.cast(model(inputs, training=False), tf.float32)
        if logits.shape[-1] != len(class_names):
            raise ValueError(
                f"`class_names` must be as many as the classes of the model, {logits.shape[-1]}. "
                f"Received: {len(class_names)} names"
            )
        scores, labels = tf.math.top_k(tf.nn.softmax(logits), top)
        return {"classes": tf.gather(names, labels), "scores": scores}

    return classify


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
