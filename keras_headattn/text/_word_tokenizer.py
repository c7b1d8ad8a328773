import collections
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path, read_lines
from keras_headattn._private import accept_any_input
from keras_headattn._tensorflow import lower
from keras_headattn._types import Shape
from keras_headattn._validation import check_number
from keras_headattn.text._pair_tokenizer import as_strings, check_texts, portions, refuse_paths, rows_of

# Tokens besides plain words: numbers with points, endings such as n't or 's, single signs.
TOKENS = r"(\p{N}+(?:[.,]\p{N}+)+|n't\b|'(?:s|m|d|re|ve|ll)\b|[^\p{L}\p{M}\p{N}\s])"


@keras.saving.register_keras_serializable(package="keras_headattn")
class WordTokenizer(keras.layers.Layer):
    """Tokenizer of words, inside the TensorFlow graph, without the package tensorflow-text.

    Words are runs of letters and digits; other signs and English endings stand alone: `don't` is `do n't`, as in the
    Penn Treebank and GloVe. Id 0 is padding, 1 unknown words, and the vocabulary begins at 2. A text without words gets
    the single id 1.

    Args:
        vocabulary: list of distinct words, or path of a text file with a word per line.
        lowercase: True to lower-case text; the words should be, too.

    Call arguments:
        strings: string tensor (B,) or (B, 1), or a list of str.

    Returns:
        int32 tensor (B, n), padded with 0.

    Raises:
        FileNotFoundError: if `vocabulary` names no file.
        ValueError: for no, repeated or empty words, or `strings` of another shape.

    >>> tokenizer = WordTokenizer(["a", "cat", "do", "n't"])
    >>> tokenizer(["A cat!", "Don't"]).numpy().tolist()
    [[2, 3, 1], [4, 5, 0]]
    """

    joins_pairs = False
    pad_id = 0

    def __init__(self, vocabulary: Path | Sequence[str], lowercase: bool = True, **kwargs: Any):
        super().__init__(**kwargs)
        location = ""
        if isinstance(vocabulary, (str, os.PathLike)):
            location, vocabulary = f" in {vocabulary}", read_lines(vocabulary)
        self.vocabulary = tuple(vocabulary)
        self.lowercase = lowercase
        if not self.vocabulary:
            raise ValueError(f"`vocabulary` must hold at least one word. Received: vocabulary=[]{location}")
        twice = [word for word, count in collections.Counter(self.vocabulary).items() if count > 1 or not word]
        if twice:
            raise ValueError(
                f"`vocabulary` must hold every word once, and no empty one. Received: {twice[:5]}{location}"
            )
        ids = tf.range(2, 2 + len(self.vocabulary), dtype=tf.int32)
        words = tf.lookup.KeyValueTensorInitializer(tf.constant(self.vocabulary, tf.string), ids)
        self._table = tf.lookup.StaticHashTable(words, default_value=1)
        accept_any_input(self)  # strings are no floats
        self.supports_jit = False  # XLA has no strings

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        refuse_paths(cls, config, "vocabulary")
        return super().from_config(config)

    @property
    def vocabulary_size(self) -> int:
        """Number of ids."""
        return 2 + len(self.vocabulary)

    def id_to_token(self, word_id: int) -> str:
        """Returns the word of an id; `"<pad>"` and `"<unk>"` for the first two.

        Args:
            word_id: from 0 to `vocabulary_size - 1`.
        """
        if not 0 <= word_id < self.vocabulary_size:
            raise ValueError(f"`word_id` must be from 0 to {self.vocabulary_size - 1}. Received: word_id={word_id}")
        return ("<pad>", "<unk>")[word_id] if word_id < 2 else self.vocabulary[word_id - 2]

    def call(self, strings: tf.Tensor | Sequence[str]) -> tf.Tensor:
        return self._ids(as_strings("strings", strings)).to_tensor(self.pad_id)

    def _ids(self, strings):
        words = split_words(strings, self.lowercase)
        ids = words.with_flat_values(self._table.lookup(words.flat_values))
        is_empty = tf.cast(words.row_lengths() == 0, tf.int64)
        unknown = tf.RaggedTensor.from_row_lengths(tf.ones([tf.reduce_sum(is_empty)], tf.int32), is_empty)
        return tf.concat([ids, unknown], axis=1)

    def encode(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Encodes sentences outside the graph as int32 arrays, unpadded, for data sets.

        Args:
            sentences: list of str.
        """
        return [row for some in portions(sentences) for row in rows_of(self._ids(tf.constant(check_texts(some))))]

    def compute_output_spec(self, strings: Any) -> keras.KerasTensor:
        return keras.KerasTensor((strings.shape[0], None), "int32")

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0], None)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocabulary": list(self.vocabulary), "lowercase": self.lowercase}


def split_words(strings: tf.Tensor, lowercase: bool = True) -> tf.RaggedTensor:
    """Splits strings into words, as `WordTokenizer` does: ragged strings (B, n).

    Args:
        strings: string tensor (B,).
        lowercase: True to lower-case text.

    >>> split_words(tf.constant(["It's 3.5 km, isn't it?"])).to_list()
    [[b'it', b"'s", b'3.5', b'km', b',', b'is', b"n't", b'it', b'?']]
    """
    # Before TensorFlow's `lower`, which ends a string at a NUL.
    strings = tf.strings.regex_replace(strings, r"[\p{Z}\p{Cc}\x{FEFF}]", " ")
    if lowercase:
        strings = lower(strings)
    strings = tf.strings.regex_replace(strings, "\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return tf.strings.split(tf.strings.regex_replace(strings, TOKENS, r" \1 "))


def learn_words(
    sentences: Iterable[str], vocabulary_size: int | None = None, min_count: int = 1, lowercase: bool = True
) -> list[str]:
    """Returns the most frequent words of a text, most frequent first, as `vocabulary` of `WordTokenizer`.

    Args:
        sentences: iterable of str.
        vocabulary_size: largest number of ids, including the two special ones. Default `None`: no limit.
        min_count: least number of occurrences of a word.
        lowercase: True to lower-case text.

    Raises:
        ValueError: if there are no such words, or `vocabulary_size` has no room for any.

    >>> learn_words(["a cat", "a dog", "the cat"], min_count=2)
    ['a', 'cat']
    """
    if vocabulary_size is not None:
        check_number("vocabulary_size", vocabulary_size, least=3)
    counts = collections.Counter()
    for some in portions(sentences):
        counts.update(split_words(tf.constant(some), lowercase).flat_values.numpy().tolist())
    words = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
    if not words:
        raise ValueError(f"The text must have words that occur {min_count} times. Received: {len(counts)} other words")
    if vocabulary_size is not None:
        words = words[: vocabulary_size - 2]
    return [word.decode("utf-8") for word in words]
