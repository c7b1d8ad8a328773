"""Base of tokenizers for single texts and pairs."""

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._private import accept_any_input
from keras_headattn._types import Tensor
from keras_headattn._validation import check_lists, check_positive
from keras_headattn.text._added_tokens import OPTIONS, AddedTokens, clean_utf8, read_added_tokens
from keras_headattn.text._offsets import letters_of, without_space


def check_ends(name, tokenizer):
    if not tokenizer.joins_pairs:
        raise ValueError(
            f"{name} need a tokenizer whose texts have a beginning and an end token. "
            f"Received: bos_id={tokenizer.bos_id}, eos_id={tokenizer.eos_id}"
        )


class PairTokenizer(keras.layers.Layer):
    """Base of tokenizers that add special ids to a text, or join two texts into one sequence.

    A subclass calls `_find_special` and overrides `_tokenize`, `_tokenize_with_offsets`, `_text`, and `_normalize` if
    added tokens may be looked for in normalized text.

    Args:
        vocabulary: list of tokens by id.
        max_length, added_tokens: see `WordPieceTokenizer`.
    """

    num_between = 1  # end symbols between two texts
    has_segments = True

    def __init__(
        self,
        vocabulary: Sequence[str],
        max_length: int | None = None,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.added_tokens = tuple(read_added_tokens(added_tokens))
        self._base = tuple(vocabulary)
        known = set(self._base)
        new = (token["content"] for token in self.added_tokens if token["content"] not in known)
        self.vocabulary = (*self._base, *new)
        self.max_length = max_length
        if max_length is not None and check_positive("max_length", max_length) <= 2 + self.num_between:
            raise ValueError(
                f"`max_length` must leave room for text beside the {2 + self.num_between} special ids of a pair. "
                f"Received: max_length={max_length}"
            )
        accept_any_input(self)  # strings are no floats
        self.supports_jit = False  # XLA has no strings

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        refuse_paths(cls, config, "vocabulary", "merges")
        return super().from_config(config)

    _normalize: Any = None

    def _pieces(self, strings, special_tokens=False):
        """Returns ids without those at the ends, int32 `tf.RaggedTensor`."""
        added = self._with_specials if special_tokens else self._added
        return added.pieces(strings, self._tokenize) if added else self._tokenize(strings)

    def _find_special(self, tokens, add_eos=True):
        """Looks up the special tokens, of which only the mask may be missing, and prepares for added ones."""
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        missing = [token for name, token in tokens.items() if token not in ids and name != "mask"]
        if missing:
            raise ValueError(f"`vocabulary` must hold the special tokens. Received: one without {', '.join(missing)}")
        names = ("pad", "unk", "mask", "bos", "eos")
        self.pad_id, self.unk_id, self.mask_id, self.bos_id, self.eos_id = (
            ids.get(tokens.get(name), -1) for name in names
        )
        self._first = [self.bos_id] if self.bos_id >= 0 else []
        self._last = [self.eos_id] if self.eos_id >= 0 and add_eos else []
        self.joins_pairs = bool(self._first and self._last)
        known = {token["content"] for token in self.added_tokens}
        # A mask takes the white space before it, as in Hugging Face's tokenizers.
        specials = {token: {**OPTIONS, "content": token, "lstrip": name == "mask"} for name, token in tokens.items()}
        specials = [token for content, token in specials.items() if content in ids and content not in known]
        added = [token for token in self.added_tokens if not token["special"]]
        self._added = AddedTokens(added, ids, self._normalize) if added else None
        specials += self.added_tokens
        self._with_specials = AddedTokens(specials, ids, self._normalize) if specials else None

    @property
    def vocabulary_size(self) -> int:
        """Number of ids."""
        return len(self.vocabulary)

    def id_to_token(self, token_id: int) -> str:
        """Returns the token of an id.

        Args:
            token_id: from 0 to `vocabulary_size - 1`.
        """
        if not 0 <= token_id < self.vocabulary_size:
            raise ValueError(f"`token_id` must be from 0 to {self.vocabulary_size - 1}. Received: token_id={token_id}")
        return self.vocabulary[token_id]

    def with_max_length(self, max_length: int | None) -> Self:
        """Returns a tokenizer that truncates rows to at most `max_length` ids.

        Args:
            max_length: int, or `None` for no further limit.
        """
        if max_length is None or (self.max_length is not None and self.max_length <= max_length):
            return self
        return type(self).from_config({**self.get_config(), "max_length": max_length})

    def call(
        self,
        texts: tf.Tensor | Sequence[str],
        second_texts: tf.Tensor | Sequence[str] | None = None,
        special_tokens: bool = False,
    ) -> Any:
        texts = as_strings("texts", texts)
        if second_texts is None:
            return self._row(texts, special_tokens).to_tensor(self.pad_id)
        joined = self._joined(texts, as_strings("second_texts", second_texts), special_tokens)
        if not self.has_segments:
            return joined.to_tensor(self.pad_id)
        return {"token_ids": joined.to_tensor(self.pad_id), "segment_ids": self._segments(joined).to_tensor(0)}

    def is_cut(
        self, texts: tf.Tensor | Sequence[str], second_texts: tf.Tensor | Sequence[str] | None = None
    ) -> tf.Tensor:
        """Returns booleans `(B,)`, True for rows that a call truncates at `max_length`.

        Args:
            texts: strings `(B,)`.
            second_texts: strings `(B,)` of pairs. Default `None`: single texts.
        """
        sizes = self._pieces(as_strings("texts", texts)).row_lengths() + len(self._first + self._last)
        if second_texts is not None:
            sizes += self._pieces(as_strings("second_texts", second_texts)).row_lengths() + self.num_between
        return tf.zeros_like(sizes, tf.bool) if self.max_length is None else sizes > self.max_length

    def tokenize_with_offsets(
        self, texts: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits texts into pieces, and says where each is in its text, in the graph.

        Offsets count characters (Unicode code points, as Python does) of the text as it is given, whatever the
        tokenizer makes of case, accents and other signs. A piece includes the accents after its letters, and no white
        space before it. Pieces that share a character, such as the bytes of an emoji, all have the whole of it.

        Args:
            texts: strings `(B,)` or `(B, 1)`, or a list of str. U+FFFD replaces bytes that are not UTF-8.

        Returns:
            Tuple of int32 `tf.RaggedTensor` `(B, n)`: ids without special ones, not truncated; starts; and ends, one
            after the last character.

        Raises:
            ValueError: for added tokens of a `WordPieceTokenizer` that are matched in normalized text.

        >>> from keras_headattn.text import WordPieceTokenizer
        >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "##s"])
        >>> ids, starts, ends = tokenizer.tokenize_with_offsets(["Zwei Cafés"])
        >>> ids.to_list(), starts.to_list(), ends.to_list()
        ([[1, 4, 5]], [[0, 5, 9]], [[4, 9, 10]])
        """
        texts = clean_utf8(as_strings("texts", texts))
        find = self._tokenize_with_offsets
        ids, starts, ends = self._added.pieces_with_offsets(texts, find) if self._added else find(texts)
        starts = without_space(starts, ends, letters_of(texts))
        return ids, tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)

    def _row(self, texts, special_tokens=False):
        """Returns ids of single texts, int32 `tf.RaggedTensor`."""
        pieces = self._pieces(texts, special_tokens)
        if self.max_length is not None:
            pieces = pieces[:, : self.max_length - len(self._first + self._last)]
        ones = tf.ones([pieces.nrows(), 1], tf.int32)
        return tf.concat([*(ones * i for i in self._first), pieces, *(ones * i for i in self._last)], axis=1)

    def _joined(self, texts, second_texts, special_tokens=False):
        """Returns ids of pairs of texts, int32 `tf.RaggedTensor`."""
        check_ends("`second_texts`", self)
        tf.debugging.assert_equal(
            tf.size(texts), tf.size(second_texts), "There must be as many `second_texts` as `texts`."
        )
        first, second = (self._pieces(side, special_tokens) for side in (texts, second_texts))
        if self.max_length is not None:
            room = self.max_length - 2 - self.num_between
            kept = longest_first(first.row_lengths(), second.row_lengths(), room)
            first, second = _cut(first, kept[0]), _cut(second, kept[1])
        ones = tf.ones([first.nrows(), 1], tf.int32)
        between = tf.tile(ones * self.eos_id, [1, self.num_between])
        return tf.concat([ones * self.bos_id, first, between, second, ones * self.eos_id], axis=1)

    def _segments(self, joined):
        """Returns 0 up to the first end symbol of each row, and 1 after it."""
        ends = tf.cumsum(tf.cast(joined.flat_values == self.eos_id, tf.int32), exclusive=True)
        return joined.with_flat_values(ends % 2)  # a row has two ends

    def encode(
        self, texts: Sequence[str], second_texts: Sequence[str] | None = None, special_tokens: bool = False
    ) -> list[np.ndarray] | dict[str, list[np.ndarray]]:
        """Encodes texts outside the graph as int32 arrays, unpadded, for data sets.

        Args:
            texts: list of str.
            second_texts: second texts of pairs, equally many. Default `None`: single texts.
            special_tokens: True to give special tokens in texts their ids.

        Returns:
            List of arrays; for pairs with segments, a dictionary of two such lists, `token_ids` and `segment_ids`.

        Raises:
            ValueError: if the number of second texts differs, or a text is not a str.
        """
        if second_texts is None:
            rows = (self._row(tf.constant(check_texts(some)), special_tokens) for some in portions(texts))
            return [row for some in rows for row in rows_of(some)]
        check_lists(texts=texts, second_texts=second_texts)
        token_ids, segment_ids = [], []
        for some in portions(zip(texts, second_texts, strict=True)):
            first, second = (tf.constant(check_texts(side)) for side in zip(*some, strict=True))
            joined = self._joined(first, second, special_tokens)
            token_ids += rows_of(joined)
            if self.has_segments:
                segment_ids += rows_of(self._segments(joined))
        return {"token_ids": token_ids, "segment_ids": segment_ids} if self.has_segments else token_ids

    def detokenize(self, ids: Tensor) -> tf.Tensor:
        """Decodes ids to strings (B,), without special tokens.

        Args:
            ids: integers (B, n). Ids without a token are left out.
        """
        ids = tf.cast(ids, tf.int32)
        without_text = self.pad_id if self.pad_id >= 0 else self.vocabulary_size
        return self._text(tf.where((ids >= 0) & (ids < self.vocabulary_size), ids, without_text))

    def compute_output_spec(self, texts: Any, second_texts: Any = None, special_tokens: bool = False) -> Any:
        check_shape("texts", texts.shape)
        ids = keras.KerasTensor((texts.shape[0], None), "int32")
        if second_texts is not None:
            check_shape("second_texts", second_texts.shape)
        if second_texts is None or not self.has_segments:
            return ids
        return {"token_ids": ids, "segment_ids": keras.KerasTensor(ids.shape, "int32")}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary": list(self._base),
            "max_length": self.max_length,
            "added_tokens": [dict(token) for token in self.added_tokens],
        }


def longest_first(first, second, room):
    """Returns the numbers of ids to keep of two texts if the longer one is truncated first.

    If `room` is odd, the longer text keeps one more, or the second if they are equal, as in Hugging Face's tokenizers.

    >>> kept = longest_first(tf.constant([2, 9, 6]), tf.constant([9, 2, 7]), 7)
    >>> [side.numpy().tolist() for side in kept]
    [[2, 5, 3], [5, 2, 4]]
    """
    short, long = tf.minimum(first, second), tf.maximum(first, second)
    kept_short = tf.minimum(short, room // 2)
    kept_long = tf.minimum(long, room - kept_short)
    is_long = first > second
    return tf.where(is_long, kept_long, kept_short), tf.where(is_long, kept_short, kept_long)


def is_token(token):
    """Returns True for text that can stand for an id."""
    if not isinstance(token, str) or not token or "\0" in token:
        return False
    try:
        token.encode("utf-8")
    except UnicodeEncodeError:  # half a pair of surrogates, as JSON may have it
        return False
    return True


def refuse_paths(cls, config, *names):
    """Raises a ValueError for a path in a saved configuration, which would read a file of this machine."""
    for name in names:
        if isinstance(config.get(name), (str, os.PathLike)):
            raise ValueError(
                f"`{name}` in a configuration of {cls.__name__} must be the content, not the path of a file, which "
                f"only the constructor takes. Received: {name}={config[name]!r:.80}"
            )


def _cut(ragged, lengths):
    positions = tf.ragged.range(ragged.row_lengths())
    return tf.ragged.boolean_mask(ragged, positions < lengths[:, None])


def as_strings(name, strings):
    strings = tf.convert_to_tensor(strings, tf.string)
    check_shape(name, strings.shape)
    return tf.reshape(strings, [-1])


def check_shape(name, shape):
    if len(shape) != 1 and tuple(shape[1:]) != (1,):
        raise ValueError(f"`{name}` must be of shape (B,) or (B, 1). Received: strings of shape {tuple(shape)}")


def rows_of(ragged):
    """Returns the rows of a `tf.RaggedTensor` as arrays."""
    return np.split(ragged.flat_values.numpy(), ragged.row_splits.numpy()[1:-1])


def portions(texts, size=10_000):
    """Yields texts, or pairs of them, in lists of at most `size`, each small enough for one tensor."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"Texts must be a list of str, not one. Received: {texts!r:.80}")
    texts = iter(texts)
    while portion := list(itertools.islice(texts, size)):
        yield portion


def check_texts(texts):
    """Returns the texts if each is a str."""
    for text in texts:
        if not isinstance(text, (str, bytes)):
            raise ValueError(f"Texts must be a list of str. Received: one with {text!r:.80}")
    return texts
