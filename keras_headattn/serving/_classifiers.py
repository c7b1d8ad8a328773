"""A classifier of texts as a SavedModel."""

import contextlib

import tensorflow as tf

from keras_headattn.serving._classes import likeliest, save_signatures


def export_texts(model, tokenizer, class_names, folder, max_length=None, pairs=False, top=None):
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
    path = export_texts(model, tokenizer, ["negative", "positive"], "saved_models/reviews", max_length=200)
    classify = tf.saved_model.load(path).signatures["serving_default"]
    classify(text=tf.constant(["a good film"]))["classes"]
    ```
    """
    classify = likeliest(model, class_names, top)

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


@contextlib.contextmanager
def _any_device(model):
    """Keeps cuDNN's operations out of recurrent layers, which would bind the SavedModel to GPUs."""
    layers = [layer for layer in model._flatten_layers() if hasattr(layer, "use_cudnn")]
    before = [layer.use_cudnn for layer in layers]
    for layer in layers:
        layer.use_cudnn = False
    try:
        yield
    finally:
        for layer, use in zip(layers, before, strict=True):
            layer.use_cudnn = use
