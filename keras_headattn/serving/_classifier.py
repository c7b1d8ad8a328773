"""Classification of lists of texts."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._validation import check_lists, check_positive
from keras_headattn.data import source_batches
from keras_headattn.serving._buckets import bucket_lengths
from keras_headattn.serving._likeliest import Classification, classifications, probabilities_of
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

    def run(inputs, *others):
        tensors = {name: tf.constant(ids) for name, ids in inputs.items()}
        if "segment_ids" in tensors:
            return functions["segments"](tensors, *others)
        ids = tuple(tensors.values())
        return functions[len(ids)](ids if len(ids) > 1 else ids[0], *others)

    return run
