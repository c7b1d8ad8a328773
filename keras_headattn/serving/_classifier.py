"""Classifying lists of texts with a trained model."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._validation import check_positive
from keras_headattn.data import source_batches
from keras_headattn.serving._buckets import bucket_lengths
from keras_headattn.serving._likeliest import Classification, classifications, probabilities_of
from keras_headattn.text._tokenizer import Tokenizer


class Classifier:
    """Classifies texts, or pairs of texts: text in, names of classes out.

    Texts are sorted by length and classified in batches of few shapes.

    Args:
        model: trained Keras model from ids `(B, n)`, padded with the tokenizer's `pad_id`, to logits `(B, C)`; of
            pairs, from a tuple of two or, where the tokenizer joins them, from what it makes of a pair.
        tokenizer: `WordTokenizer`, `SentencePieceTokenizer`, or `WordPieceTokenizer` or `BytePairTokenizer`, which join
            pairs.
        class_names: list of C str.
        max_length: int, ids of a text beyond which it is cut. Default `None`: none is cut.
        top: int, how many classes are returned; all, if there are fewer. Default `None`: all.
        batch_size: int, texts at a time. Default 64.
        activation: `"softmax"` of one class a text, `"sigmoid"` of any of several labels, each with its own
            probability. Default `"softmax"`.

    Call arguments:
        texts: list of N str.
        second_texts: list of N str, of pairs. Default `None`: single texts are classified.
        progress: function of (texts done), called after each batch. Default `None`.

    Returns:
        List of N `Classification`.

    Raises:
        ValueError: if `texts` is a single str, if there are more or fewer second texts, or if the model has another
            number of classes than there are names.

    Example:

    >>> from keras_headattn.text import WordTokenizer, learn_words
    >>> texts, labels = ["a good film", "a bad film"] * 20, np.array([1, 0] * 20)
    >>> tokenizer = WordTokenizer(learn_words(texts))
    >>> layers = [keras.layers.Embedding(6, 8), keras.layers.GlobalMaxPooling1D(), keras.layers.Dense(2)]
    >>> model = keras.Sequential(layers)
    >>> loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    >>> model.compile(keras.optimizers.Adam(0.05), loss)
    >>> history = model.fit(tokenizer(texts), labels, epochs=20, verbose=0)
    >>> classify = Classifier(model, tokenizer, ["negative", "positive"])
    >>> [found.label for found in classify(["such a good film", "it is bad"])]
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
        """Probabilities of all classes, in the order of their names.

        Args:
            texts, second_texts, progress: as a call takes them.

        Returns:
            float32 array `(N, C)`.
        """
        found = np.zeros((len(texts), len(self.class_names)), "float32")
        done = 0
        for members, inputs in self.batches(texts, second_texts):
            found[members] = self._run(inputs).numpy()[: len(members)]
            done += len(members)
            if progress:
                progress(done)
        return found

    def batches(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, batch_size: int | None = None
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """The batches in which texts are classified.

        Args:
            texts, second_texts: as a call takes them.
            batch_size: int, texts at a time. Default `None`: that of the classifier.

        Yields:
            Tuples of the indices of the first rows, int array `(k,)`, and a dictionary of `"text"` and, of pairs,
            `"second_text"`, int32 `(B, L)`. Of pairs that are joined it has `"text"` alone, or `"token_ids"` and
            `"segment_ids"`. Further rows are to be dropped.
        """
        if isinstance(texts, str) or isinstance(second_texts, str):
            raise ValueError(f"Give lists of str. Received: the str {(second_texts or texts)[:60]!r}")
        if second_texts is not None and len(texts) != len(second_texts):
            raise ValueError(
                "There must be as many `second_texts` as `texts`. "
                f"Received: {len(texts)} texts and {len(second_texts)} second texts"
            )
        if not texts:
            return
        columns = self.columns(texts, second_texts)
        longest = self.max_length or max(1, *(len(ids) for column in columns.values() for ids in column))
        pad_id = getattr(self.tokenizer, "pad_id", 0)
        yield from source_batches(
            columns, bucket_lengths(longest), batch_size or self.batch_size, int(pad_id != 1), pad_id
        )

    def columns(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> dict[str, list[np.ndarray]]:
        """The ids of texts, cut but not padded.

        Args:
            texts, second_texts: as a call takes them.

        Returns:
            Dictionary of the columns of a batch to lists of N int32 arrays.
        """
        if self.joins_pairs:
            ids = self.tokenizer.encode(texts, second_texts)
            return ids if isinstance(ids, dict) else {"text": ids}
        sides = {"text": texts} | ({} if second_texts is None else {"second_text": second_texts})
        return {name: [ids[: self.max_length] for ids in self.tokenizer.encode(side)] for name, side in sides.items()}


def traced(function, *further):
    """A function of the batches of a `Classifier`, as a graph for each kind of batch, whatever its shape."""
    ids = tf.TensorSpec((None, None), tf.int32)
    specs = {1: ids, 2: (ids, ids), "segments": {"token_ids": ids, "segment_ids": ids}}
    functions = {
        kind: tf.function(function, input_signature=[spec, *further], autograph=False) for kind, spec in specs.items()
    }

    def run(inputs, *others):
        tensors = {name: tf.constant(ids) for name, ids in inputs.items()}
        if "segment_ids" in tensors:
            return functions["segments"](tensors, *others)
        ids = tuple(tensors.values())
        return functions[len(ids)](ids if len(ids) > 1 else ids[0], *others)

    return run
