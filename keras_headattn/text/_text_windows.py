"""Texts of any length as rows of a model, and their words."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_headattn.text._added_tokens import SPACE, clean_utf8
from keras_headattn.text._offsets import letters_of
from keras_headattn.text._pair_tokenizer import PairTokenizer, check_ends

MARK = r"[\p{P}\p{S}]"
ALONE = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]"  # scripts without spaces between words


class WindowRows(NamedTuple):
    """Rows of a model for texts, by `TextWindows`.

    Args:
        token_ids: int32 `(W, L)`, the windows of all texts in order, with special ids, padded.
        texts: int64 `(W,)`, the index of the text of each window.
        starts, ends: int32 `tf.RaggedTensor` `(B, n)`, the characters of each piece, as of `tokenize_with_offsets`.
        places: int64 `tf.RaggedTensor` `(B, n)`, the place of each piece in `token_ids` as a flat tensor: in the window
            in which it stands furthest from an end.
    """

    token_ids: tf.Tensor
    texts: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    places: tf.RaggedTensor

    def first_pieces(self, starts: tf.RaggedTensor, ends: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the place in `token_ids` of the first piece that begins in each word; -1 where there is none.

        Args:
            starts, ends: int32 `tf.RaggedTensor` `(B, k)`, the characters of words, in order. Words must be divided by
                single spaces: a tokenizer of byte pairs makes pieces of other white space.
        """
        step = 2 + tf.maximum(_largest(self.ends.flat_values), _largest(ends.flat_values))  # of the keys of a text

        def keys(side):
            return side.value_rowids() * step + tf.cast(side.flat_values, tf.int64)

        pieces, begin, end = keys(self.starts), keys(starts), keys(ends)
        first = tf.searchsorted(pieces, begin)
        count = tf.size(pieces)
        padded = tf.concat([pieces, [-1]], axis=0)
        is_there = (first < count) & (tf.gather(padded, first) < end)
        places = tf.concat([self.places.flat_values, [-1]], axis=0)
        return starts.with_flat_values(tf.gather(places, tf.where(is_there, first, count)))


class TextWindows(tf.Module):
    """Encoder of texts of any length as rows of at most `max_length` ids, in the graph.

    A longer text has several rows, windows that overlap by half, so that every piece has context on both sides.

    Source: Devlin et al. 2019, whose program for SQuAD has such windows (`doc_stride`).

    Args:
        tokenizer: `WordPieceTokenizer`, `BytePairTokenizer` or `SentencePiecePairTokenizer`.
        max_length: int, most ids of a row, special ones included. Default `None`: no limit.

    Call arguments:
        texts: strings `(B,)`, or a list of str.

    Returns:
        `WindowRows`.

    >>> from keras_headattn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"])
    >>> rows = TextWindows(tokenizer, max_length=4)(["a b c", "b"])
    >>> rows.token_ids.numpy().tolist(), rows.texts.numpy().tolist()
    ([[2, 4, 5, 3], [2, 5, 6, 3], [2, 5, 3, 0]], [0, 0, 1])
    """

    def __init__(self, tokenizer: PairTokenizer, max_length: int | None = None):
        super().__init__()
        check_ends("Windows of texts", tokenizer)
        self.tokenizer = tokenizer
        limits = [most for most in (max_length, tokenizer.max_length) if most is not None]
        self.max_length = min(limits, default=None)
        if self.max_length is not None and self.max_length < 4:
            raise ValueError(f"`max_length` must be at least 4. Received: max_length={max_length}")

    def __call__(self, texts: tf.Tensor | list[str]) -> WindowRows:
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        sizes = ids.row_lengths()
        room = tf.maximum(_largest(sizes), 1) if self.max_length is None else tf.constant(self.max_length - 2, tf.int64)
        stride = tf.maximum(room // 2, 1)
        counts = 1 + tf.maximum(sizes - room + stride - 1, 0) // stride
        window = tf.ragged.range(counts)
        rows = window.value_rowids()
        begin = tf.minimum(window.flat_values * stride, tf.maximum(tf.gather(sizes, rows) - room, 0))
        length = tf.minimum(room, tf.gather(sizes, rows))
        inner = tf.ragged.range(begin, begin + length)
        indices = tf.gather(ids.row_starts(), tf.gather(rows, inner.value_rowids())) + inner.flat_values
        inner = inner.with_flat_values(tf.gather(ids.flat_values, indices))
        ones = tf.ones([inner.nrows(), 1], tf.int32)
        windows = tf.concat([ones * self.tokenizer.bos_id, inner, ones * self.tokenizer.eos_id], axis=1)
        token_ids = windows.to_tensor(self.tokenizer.pad_id)
        piece = tf.ragged.range(sizes)
        text = piece.value_rowids()
        # The window whose middle is next.
        chosen = (2 * piece.flat_values - room + stride) // (2 * stride)
        chosen = tf.clip_by_value(chosen, 0, tf.gather(counts, text) - 1) + tf.gather(window.row_starts(), text)
        column = 1 + piece.flat_values - tf.gather(begin, chosen)
        places = chosen * tf.shape(token_ids, tf.int64)[1] + column
        return WindowRows(token_ids, rows, starts, ends, piece.with_flat_values(places))


def find_words(texts: tf.Tensor | list[str]) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Finds the words of texts, much as CoNLL's corpora have them, in the graph.

    Words are divided by white space. Punctuation and other signs at either end of a word are words of their own, and so
    are each Chinese character and the possessive `'s`.

    Args:
        texts: strings `(B,)`, or a list of str.

    Returns:
        Tuple of starts and ends in characters, int32 `tf.RaggedTensor` `(B, k)`.

    >>> starts, ends = find_words(["(The U.S.-based Foo's)"])
    >>> starts.to_list(), ends.to_list()
    ([[0, 1, 5, 16, 19, 21]], [[1, 4, 15, 19, 21, 22]])
    """
    letters = letters_of(tf.convert_to_tensor(texts, tf.string))
    flat = letters.flat_values
    places = tf.ragged.range(letters.row_lengths()).flat_values

    def fits(pattern):
        return tf.strings.regex_full_match(flat, pattern)

    is_space, is_alone, is_mark = fits(SPACE), fits(ALONE), fits(MARK)
    before = tf.concat([[True], is_space[:-1]], axis=0)[: tf.size(flat)] | (places == 0)
    chunk = tf.cumsum(tf.cast(before & ~is_space, tf.int32))
    index = tf.range(tf.size(flat))
    inner = tf.where(is_space | is_mark, 0, chunk)
    count = tf.size(flat) + 1
    first = tf.gather(tf.math.unsorted_segment_min(index, inner, count), chunk)
    last = tf.gather(tf.math.unsorted_segment_max(index, inner, count), chunk)
    is_possessive = (
        fits("['\u2019]") & (index + 1 == last) & tf.concat([fits("[sS]")[1:], [False]], axis=0)[: tf.size(flat)]
    )
    is_alone |= is_mark & ((index < first) | (index > last)) & ~is_possessive
    after_alone = tf.concat([[False], is_alone[:-1]], axis=0)[: tf.size(flat)]
    begins = ~is_space & (before | is_alone | after_alone | is_possessive)
    word = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    end = tf.math.unsorted_segment_max(places + 1, tf.where(is_space, -1, word), tf.size(flat))
    starts = tf.ragged.boolean_mask(letters.with_flat_values(places), letters.with_flat_values(begins))
    ends = starts.with_flat_values(end[: tf.size(starts.flat_values)])
    return tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)


def with_single_spaces(texts):
    """Replaces white space in strings `(B,)` by single spaces, and strips it at both ends."""
    texts = tf.strings.regex_replace(clean_utf8(texts), f"{SPACE}+", " ")
    return tf.strings.regex_replace(texts, "^ | $", "")


def join_words(sentences: Sequence[Sequence[str]]) -> tuple[tf.Tensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Joins the words of sentences by spaces: strings `(B,)`, and the characters of each word, as of `find_words`.

    Args:
        sentences: B lists of str.

    >>> texts, starts, ends = join_words([["Ada", "slept"]])
    >>> texts.numpy()[0].decode(), starts.to_list(), ends.to_list()
    ('Ada slept', [[0, 4]], [[3, 9]])
    """
    lengths = tf.ragged.constant([[len(word) for word in words] for words in sentences], tf.int32, ragged_rank=1)
    ends = tf.cumsum(lengths.flat_values + 1)
    before = tf.concat([[0], ends], axis=0)
    ends = ends - tf.gather(tf.gather(before, lengths.row_starts()), lengths.value_rowids()) - 1
    texts = tf.constant([" ".join(words) for words in sentences], tf.string)
    return texts, lengths.with_flat_values(ends - lengths.flat_values), lengths.with_flat_values(ends)


def _largest(values):
    """Returns the largest of values, int64, which is 0 where there are none."""
    return tf.reduce_max(tf.concat([tf.cast(values, tf.int64), [0]], axis=0))
