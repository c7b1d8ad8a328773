import os
import re
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text

from keras_headattn._files import Path, read_lines
from keras_headattn._tensorflow import lower
from keras_headattn.text._added_tokens import clean_utf8
from keras_headattn.text._offsets import letters_of, to_characters, with_marks
from keras_headattn.text._pair_tokenizer import PairTokenizer, is_token

SPECIALS = {"pad": "[PAD]", "unk": "[UNK]", "bos": "[CLS]", "eos": "[SEP]", "mask": "[MASK]"}
MAX_LETTERS = 100  # of a word, as in Hugging Face's tokenizers
MAX_BYTES = 256  # of a token, in tensorflow-text
NEVER = "[\ufdd0{}]"  # replaces tokens with white space; no text contains it
NO_TEXT = r"[^\P{C}\t\n\r]|\x{fffd}"  # control and invisible characters, and the replacement of invalid bytes


@keras.saving.register_keras_serializable(package="keras_headattn")
class WordPieceTokenizer(PairTokenizer):
    """WordPiece tokenizer of BERT, inside the TensorFlow graph.

    A text is `[CLS] A [SEP]`, a pair `[CLS] A [SEP] B [SEP]` with segment 1 for `B [SEP]`. The vocabulary is saved with
    the model; a SavedModel needs the package tensorflow-text. Special tokens in a text are ordinary text by default.
    Control characters and bytes that are not UTF-8 are dropped. A word of more than 100 characters is one `[UNK]`.

    Source: Devlin et al. 2019, "BERT: pre-training of deep bidirectional transformers for language understanding"; Song
    et al. 2021, "Fast WordPiece tokenization".

    Args:
        vocabulary: path of BERT's `vocab.txt`, a token per line, or a list of tokens by id. It must contain `[PAD]`,
            `[UNK]`, `[CLS]` and `[SEP]`; `[MASK]` is for masked language models. Pieces inside words begin with `##`.
        lowercase: True to lower-case text and strip accents, as "uncased" checkpoints expect.
        max_length: most ids of a row, special ones included; longer rows are truncated, in a pair the longer text
            first. Default `None`: no limit.
        strip_accents: True to strip accents. Default `None`: as `lowercase`.
        added_tokens: tokens that are never split, such as `["[E1]"]`: str, or dictionaries of `content` and the flags
            `normalized` (matched in lower-cased text), `lstrip` and `rstrip` (include white space before or after), and
            `special` (found only with `special_tokens=True`). New ones get the ids after the vocabulary.

    Call arguments:
        texts: string tensor (B,) or (B, 1), or a list of str.
        second_texts: second texts of pairs, equally many. Default `None`: single texts.
        special_tokens: True to give special tokens in texts, such as `[MASK]`, their ids.

    Returns:
        int32 tensor (B, n), padded with `pad_id`; for pairs a dictionary of `token_ids` and `segment_ids`, padded with
        0.

    Raises:
        FileNotFoundError: if `vocabulary` names no file.
        ValueError: for an invalid vocabulary, too small a `max_length`, or `texts` of another shape.

    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "##s"])
    >>> tokenizer(["Cats!", "a cat"]).numpy().tolist()
    [[2, 5, 6, 1, 3], [2, 4, 5, 3, 0]]
    >>> pairs = tokenizer(["a cat"], ["cats"])
    >>> pairs["token_ids"].numpy().tolist(), pairs["segment_ids"].numpy().tolist()
    ([[2, 4, 5, 3, 5, 6, 3]], [[0, 0, 0, 0, 1, 1, 1]])
    >>> tokenizer.detokenize(pairs["token_ids"]).numpy().tolist()
    [b'a cat cats']
    """

    def __init__(
        self,
        vocabulary: Path | Sequence[str],
        lowercase: bool = True,
        max_length: int | None = None,
        strip_accents: bool | None = None,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        **kwargs: Any,
    ):
        vocabulary, locate = _read_vocabulary(vocabulary)
        super().__init__(vocabulary, max_length, added_tokens, **kwargs)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        _check_pieces(self._base, locate)
        self._find_special(SPECIALS)
        # `lower_case_nfd_strip_accents` would also decompose signs such as ² and …, unlike BERT.
        self._graph_tokenizer = tensorflow_text.FastBertTokenizer(
            [NEVER.format(i) if re.search(r"\s", token) else token for i, token in enumerate(self._base)],
            token_out_type=tf.int32,
            max_bytes_per_word=4 * MAX_LETTERS,
        )
        pieces = [token.removeprefix("##") for token in self._base]
        self._lengths = tf.constant([len(piece) for piece in pieces], tf.int32)
        self._begins = tf.constant([token == piece for token, piece in zip(self._base, pieces, strict=True)])

    def _normalize(self, strings):
        return normalize_bert(strings, self.lowercase, self.strip_accents)

    def _tokenize(self, strings):
        ids, is_kept, _ = self._without_long(self._graph_tokenizer.tokenize(self._normalize(strings)))
        return tf.ragged.boolean_mask(ids, is_kept)

    def _without_long(self, pieces):
        """Returns ids with [UNK] for words that are too long, a mask of all but their inner pieces, and flat words."""
        ids = pieces.flat_values
        begins = tf.gather(self._begins, ids)
        words = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        letters = tf.math.unsorted_segment_sum(tf.gather(self._lengths, ids), words, tf.size(ids))
        is_long = tf.gather(letters, words) > MAX_LETTERS
        pieces = pieces.with_flat_values(tf.where(is_long, self.unk_id, ids))
        return pieces, pieces.with_flat_values(begins | ~is_long), tf.where(is_long, words, -1)

    def _tokenize_with_offsets(self, strings):
        letters = letters_of(strings)
        different, places = tf.unique(letters.flat_values)
        normal = letters.with_flat_values(tf.gather(self._normalize(different), places))
        pieces, starts, ends = self._graph_tokenizer.tokenize_with_offsets(tf.strings.reduce_join(normal, axis=-1))
        starts, ends = to_characters(starts, ends, normal)
        ids, is_kept, long_words = self._without_long(pieces)
        last = tf.math.unsorted_segment_max(ends.flat_values, long_words, tf.size(long_words))
        last = tf.where(long_words < 0, ends.flat_values, tf.gather(last, tf.maximum(long_words, 0)))
        ends = with_marks(ends.with_flat_values(last), letters, normal.flat_values == "")
        return [tf.ragged.boolean_mask(side, is_kept) for side in (ids, starts, ends)]

    def _text(self, ids):
        specials = tf.constant([self.pad_id, self.bos_id, self.eos_id, self.mask_id])
        is_text = tf.reduce_all(ids[..., None] != specials, axis=-1)
        tokens = tf.ragged.boolean_mask(tf.gather(tf.constant(self.vocabulary), ids), is_text)
        return tf.strings.regex_replace(tf.strings.reduce_join(tokens, axis=-1, separator=" "), r" ##", "")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "lowercase": self.lowercase, "strip_accents": self.strip_accents}


def _read_vocabulary(vocabulary):
    """Returns the tokens, and a function that names the place of each in messages."""
    if not isinstance(vocabulary, (str, os.PathLike)):
        return list(vocabulary), lambda index: f"vocabulary[{index}]"
    tokens = [line.rstrip("\r\n") for line in read_lines(vocabulary, strip=False)]
    return tokens, lambda index: f"{vocabulary}, line {index + 1}"


def _check_pieces(tokens, locate):
    first = {}
    for index, token in enumerate(tokens):
        if not is_token(token):
            raise ValueError(f"A token must be a non-empty str without NUL. Received: {token!r} in {locate(index)}")
        if len(token.removeprefix("##").encode("utf-8")) > MAX_BYTES:
            raise ValueError(
                f"A token must have at most {MAX_BYTES} bytes. Received: {token[:20]!r}... in {locate(index)}"
            )
        if first.setdefault(token, index) != index:
            raise ValueError(
                f"`vocabulary` must hold every token once. Received: {token!r} in {locate(index)}, as in "
                f"{locate(first[token])}"
            )
    if set(tokens) <= {*SPECIALS.values(), "##"}:
        raise ValueError(
            "`vocabulary` must hold at least one piece beside the special tokens. "
            f"Received: {len(tokens)} tokens in {locate(0).partition(', line ')[0]}"
        )


def normalize_bert(strings, lowercase=True, strip_accents=None):
    """Removes control characters and, in lower case, accents, as BERT does.

    >>> normalize_bert(tf.constant(["Ça, 3 km²!"])).numpy()[0].decode()
    'ca, 3 km²!'
    """
    strings = tf.strings.regex_replace(clean_utf8(strings), NO_TEXT, "")
    if lowercase if strip_accents is None else strip_accents:
        strings = tf.strings.regex_replace(tensorflow_text.normalize_utf8(strings, "NFD"), r"\p{Mn}", "")
    if not lowercase:
        return strings
    strings = tf.strings.regex_replace(strings, "Σ", "σ")  # or it would become ς where a word ends
    return lower(strings)
