from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from keras_headattn.text._byte_texts import ByteTexts
from keras_headattn.text._offsets import letters_of
from keras_headattn.text._pair_tokenizer import is_token


@keras.saving.register_keras_serializable(package="keras_headattn")
class CharacterTokenizer(ByteTexts):
    """Tokenizer of characters, inside the TensorFlow graph, without the package tensorflow-text.

    It has no special tokens.

    Source: nanoGPT's `data/shakespeare_char`, where the vocabulary is the sorted characters of the corpus.

    Args:
        vocabulary: characters by id, such as `sorted(set(corpus))`.
        max_length: see `WordPieceTokenizer`.

    Call arguments:
        texts: string tensor (B,) or (B, 1), or a list of str. U+FFFD replaces bytes that are not UTF-8.

    Returns:
        int32 tensor (B, n), padded with -1.

    Raises:
        ValueError: for a vocabulary that is not of distinct characters, a character that it lacks (names the first; in
            a graph a `tf.errors.InvalidArgumentError`), too small a `max_length`, or `texts` of another shape.

    >>> tokenizer = CharacterTokenizer(sorted(set("a cat sat")))
    >>> tokenizer.vocabulary
    (' ', 'a', 'c', 's', 't')
    >>> tokenizer(["cats", "a"]).numpy().tolist()
    [[2, 1, 4, 3], [1, -1, -1, -1]]
    """

    def __init__(self, vocabulary: Iterable[str], max_length: int | None = None, **kwargs: Any):
        vocabulary = list(vocabulary)
        are_characters = all(is_token(c) or c == "\0" for c in vocabulary) and {*map(len, vocabulary)} == {1}
        if not are_characters or len(set(vocabulary)) < len(vocabulary):
            raise ValueError(f"`vocabulary` must be distinct characters, and not empty. Received: {vocabulary!r:.80}")
        super().__init__(vocabulary, max_length, **kwargs)
        self._find_special({})
        self._set_texts([character.encode("utf-8") for character in vocabulary])
        values = tf.lookup.KeyValueTensorInitializer(self._bytes, tf.range(len(vocabulary)), tf.string, tf.int32)
        self._ids = tf.lookup.StaticHashTable(values, -1)

    def _tokenize(self, strings):
        letters = letters_of(strings)
        ids = letters.with_flat_values(self._ids.lookup(letters.flat_values))
        unknown = tf.boolean_mask(letters.flat_values, ids.flat_values < 0)[:1]
        rule = "Texts must have characters of the vocabulary alone. Received:"
        if not tf.executing_eagerly():
            with tf.control_dependencies([tf.debugging.Assert(tf.size(unknown) == 0, [rule, unknown])]):
                return ids.with_flat_values(tf.identity(ids.flat_values))
        if tf.size(unknown):
            raise ValueError(f"{rule} {unknown.numpy()[0].decode('utf-8')!r}")
        return ids

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["added_tokens"]
        return config
