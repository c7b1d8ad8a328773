"""Classification of texts, in Python and as SavedModels."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._private import flatten_layers
from keras_headattn._validation import check_lists, check_positive
from keras_headattn.data import source_batches
from keras_headattn.serving._attention_signature import text_attention
from keras_headattn.serving._buckets import LONGEST, after, bucket_lengths, is_longer, pad_to_bucket
from keras_headattn.serving._inference import in_one_thread, projected_together
from keras_headattn.serving._likeliest import Classification, classifications, likeliest, probabilities_of
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches, sample_texts
from keras_headattn.text._tokenizer import Tokenizer


class Classifier:
    """Text classifier: texts or pairs of texts in, class names out.

    Texts are sorted by length and run in batches of a few shapes.

    Args:
        model: trained Keras model from ids `(B, n)`, padded with the tokenizer's `pad_id`, to logits `(B, C)`. For
            pairs, it takes a tuple of two or, if the tokenizer joins pairs, the tokenizer's output.
        tokenizer: `WordTokenizer`, `SentencePieceTokenizer`, `WordPieceTokenizer` or `BytePairTokenizer`. The last two
            join pairs.
        class_names: C str.
        max_length: int, most ids of a text; longer ones are cut. Default `None`: no limit.
        top: int, most classes to return. Default `None`: all.
        batch_size: int. Default 64.
        activation: `"softmax"` for one class per text, or `"sigmoid"` for independent labels. Default `"softmax"`.

    Call arguments:
        texts: N str.
        second_texts: N str, the second text of each pair. Default `None`: single texts.
        progress: function of the number of texts done, called after each batch. Default `None`.

    Returns:
        List of N `Classification`.

    Raises:
        ValueError: if `texts` is a str, the numbers of texts differ, or the model and `class_names` disagree on C.

    >>> from keras_headattn.text import WordTokenizer, learn_words
    >>> texts, labels = ["a good film", "a bad film"] * 20, np.array([1, 0] * 20)
    >>> tokenizer = WordTokenizer(learn_words(texts))
    >>> layers = [keras.layers.Embedding(6, 8), keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(2)]
    >>> model = keras.Sequential(layers)
    >>> loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    >>> model.compile(keras.optimizers.Adam(0.05), loss)
    >>> history = model.fit(tokenizer(texts), labels, epochs=20, verbose=0)
    >>> classify = Classifier(model, tokenizer, ["negative", "positive"])
    >>> [result.label for result in classify(["such a good film", "it is bad"])]
    ['positive', 'negative']
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        class_names: Sequence[str],
        max_length: int | None = None,
        top: int | None = None,
        batch_size: int = 64,
        activation: str = "softmax",
    ):
        self.model = model
        self.class_names = list(class_names)
        self.max_length = None if max_length is None else check_positive("max_length", max_length)
        self.joins_pairs = getattr(tokenizer, "joins_pairs", False)
        self.tokenizer: Any = tokenizer.with_max_length(max_length) if self.joins_pairs else tokenizer
        self.top = None if top is None else check_positive("top", top)
        self.batch_size = check_positive("batch_size", batch_size)
        self.activation = activation
        self._run = traced(probabilities_of(model, self.class_names, activation))

    def __call__(
        self,
        texts: Sequence[str],
        second_texts: Sequence[str] | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> list[Classification]:
        return classifications(self.probabilities(texts, second_texts, progress), self.class_names, self.top)

    def probabilities(
        self,
        texts: Sequence[str],
        second_texts: Sequence[str] | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> np.ndarray:
        """Returns the probabilities of all classes, in the order of `class_names`: float32 `(N, C)`.

        Args:
            texts, second_texts, progress: as in a call.
        """
        result = np.zeros((len(texts), len(self.class_names)), "float32")
        done = 0
        for members, inputs in self.batches(texts, second_texts):
            result[members] = self._run(inputs).numpy()[: len(members)]
            done += len(members)
            if progress:
                progress(done)
        return result

    def batches(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, batch_size: int | None = None
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Yields the batches that the model is run on.

        Args:
            texts, second_texts: as in a call.
            batch_size: int. Default `None`: the classifier's.

        Yields:
            Tuples of the indices of the first k texts in a batch, int `(k,)`, and its columns, int32 `(B, L)`:
            `"text"`, and `"second_text"` for pairs; joined pairs have `"text"`, or `"token_ids"` and `"segment_ids"`.
            The other B - k rows are filler.
        """
        check_lists(texts=texts, **({} if second_texts is None else {"second_texts": second_texts}))
        if not texts:
            return
        columns = self.columns(texts, second_texts)
        longest = self.max_length or max(1, *(len(ids) for column in columns.values() for ids in column))
        pad_id = getattr(self.tokenizer, "pad_id", 0)
        yield from source_batches(
            columns, bucket_lengths(longest), batch_size or self.batch_size, int(pad_id != 1), pad_id
        )

    def columns(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> dict[str, list[np.ndarray]]:
        """Returns token ids, cut but not padded: a list of N int32 arrays for each column of `batches`.

        Args:
            texts, second_texts: as in a call.
        """
        if self.joins_pairs:
            ids = self.tokenizer.encode(texts, second_texts)
            return ids if isinstance(ids, dict) else {"text": ids}
        sides = {"text": texts} | ({} if second_texts is None else {"second_text": second_texts})
        return {name: [ids[: self.max_length] for ids in self.tokenizer.encode(side)] for name, side in sides.items()}


def traced(function, *further):
    """Returns a function of the batches of a `Classifier`, traced once for each set of columns."""
    ids = tf.TensorSpec((None, None), tf.int32)
    specs = {1: ids, 2: (ids, ids), "segments": {"token_ids": ids, "segment_ids": ids}}
    functions = {
        kind: tf.function(function, input_signature=[spec, *further], autograph=False) for kind, spec in specs.items()
    }

    def run(inputs, *args):
        tensors = {name: tf.constant(ids) for name, ids in inputs.items()}
        if "segment_ids" in tensors:
            return functions["segments"](tensors, *args)
        ids = tuple(tensors.values())
        return functions[len(ids)](ids if len(ids) > 1 else ids[0], *args)

    return run


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
