import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path, read_json, read_lines
from keras_headattn.text._added_tokens import END, SPACE, clean_utf8
from keras_headattn.text._offsets import letters_of, to_characters
from keras_headattn.text._pair_tokenizer import PairTokenizer, is_token

SPECIALS = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
OTHER = r"[^\t-\r\x{85}\p{Z}\p{L}\p{N}]"
# GPT-2's words: an ending; letters, digits or other signs, each with the space before them; or white space.
WORD = rf"('s|'t|'re|'ve|'m|'ll|'d| ?\p{{L}}+| ?\p{{N}}+| ?{OTHER}+|{SPACE}+)"
NO_RANK = 2**31 - 1


@keras.saving.register_keras_serializable(package="keras_headattn")
class BytePairTokenizer(PairTokenizer):
    r"""Byte-level byte-pair tokenizer of RoBERTa, inside the TensorFlow graph, without the package tensorflow-text.

    It is GPT-2's encoding with RoBERTa's special tokens: a text is `<s> A </s>`, a pair `<s> A </s></s> B </s>`. Bytes
    are joined by the merges in order, so that no text is unknown. The vocabulary is saved with the model. Special
    tokens in a text are ordinary text. U+FFFD replaces bytes that are not UTF-8.

    Source: Sennrich et al. 2016, "Neural machine translation of rare words with subword units"; Radford et al. 2019,
    "Language models are unsupervised multitask learners"; Liu et al. 2019, "RoBERTa".

    Args:
        vocabulary: path of `vocab.json`, a dictionary from token to id, 0 to `V - 1`, or a list of tokens by id.
            Invisible bytes are written as in GPT-2: `"Ġ"` is a space. It must contain `<s>`, `<pad>`, `</s>` and
            `<unk>`; `<mask>` is for masked language models.
        merges: path of `merges.txt`, or a list of str, two tokens with a space between.
        max_length, added_tokens: see `WordPieceTokenizer`.
        add_prefix_space: True to put a space before text that does not begin with one, so that the first word is like
            later ones. RoBERTa uses False.

    Call arguments:
        texts, second_texts: see `WordPieceTokenizer`.

    Returns:
        int32 tensor (B, n), padded with `pad_id`, which is 1 in RoBERTa, without segments.

    Raises:
        FileNotFoundError: if `vocabulary` or `merges` names no file.
        ValueError: for an invalid vocabulary or merges, too small a `max_length`, or `texts` of another shape.

    >>> vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "a", "c", "t", "Ġ", "at", "Ġc", "Ġcat", "<mask>"]
    >>> tokenizer = BytePairTokenizer(vocabulary, ["a t", "Ġ c", "Ġc at"])
    >>> tokenizer(["a cat", "at"]).numpy().tolist()
    [[0, 4, 10, 2], [0, 8, 2, 1]]
    >>> tokenizer(["a cat"], ["at"]).numpy().tolist()
    [[0, 4, 10, 2, 2, 8, 2]]
    >>> tokenizer.detokenize([[0, 4, 10, 2]]).numpy().tolist()
    [b'a cat']
    """

    num_between = 2
    has_segments = False
    specials = SPECIALS

    def __init__(
        self,
        vocabulary: Path | Mapping[str, int] | Sequence[str],
        merges: Path | Sequence[str],
        max_length: int | None = None,
        add_prefix_space: bool = False,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        **kwargs: Any,
    ):
        super().__init__(read_vocabulary(vocabulary), max_length, added_tokens, **kwargs)
        self.merges, place = _read_merges(merges)
        self.add_prefix_space = add_prefix_space
        self._find_special(self.specials)
        ids = {token: index for index, token in enumerate(self._base)}
        self._byte_ids = tf.constant([ids.get(sign, self.unk_id) for sign in byte_signs()], tf.int32)
        pairs, self._merged = _merge_ids(self.merges, ids, place)
        ranks = tf.range(len(pairs), dtype=tf.int32)
        self._ranks = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(pairs, ranks), NO_RANK)
        added = {token["content"] for token in self.added_tokens}
        texts = _texts_of(self.vocabulary, added, {*self.specials.values()})
        self._texts = tf.constant(texts)
        self._sizes = tf.constant([len(text) or 1 for text in texts], tf.int64)  # <unk> is a byte

    def _tokenize(self, strings):
        words = split_gpt2(clean_utf8(strings), self.add_prefix_space)
        different, places = tf.unique(words.flat_values, tf.int64)
        pieces = tf.gather(self._merge(different), places)
        return tf.RaggedTensor.from_nested_row_splits(
            pieces.flat_values, [words.row_splits, pieces.row_splits]
        ).merge_dims(1, 2)

    def _tokenize_with_offsets(self, strings, letters=None):
        ids = self._tokenize(strings)
        letters = letters_of(strings) if letters is None else letters
        sizes = ids.with_flat_values(tf.gather(self._sizes, ids.flat_values))
        before = tf.cumsum(tf.reduce_sum(sizes, axis=1), exclusive=True)
        if self.add_prefix_space:
            before += tf.cast(tf.strings.regex_full_match(strings, r"(?s)[^ ].*"), tf.int64)
        ends = tf.cumsum(sizes.flat_values) - tf.gather(before, sizes.value_rowids())
        starts = tf.maximum(ends - sizes.flat_values, 0)
        return ids, *to_characters(ids.with_flat_values(starts), ids.with_flat_values(ends), letters)

    def _merge(self, words):
        """Returns the ids of words (W,) as int32 `tf.RaggedTensor` (W, n)."""
        signs = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        ids = tf.gather(self._byte_ids, tf.cast(signs, tf.int32))
        rows = tf.repeat(tf.range(tf.size(words)), tf.strings.length(words))

        def ranks_of(ids, rows):
            keys = tf.cast(ids[:-1], tf.int64) * len(self._base) + tf.cast(ids[1:], tf.int64)
            return tf.where(rows[:-1] == rows[1:], self._ranks.lookup(keys), NO_RANK)

        def merge_best(ids, rows, ranks):
            best = tf.math.unsorted_segment_min(ranks, rows[:-1], tf.size(words))
            is_best = (ranks == tf.gather(best, rows[:-1])) & (ranks != NO_RANK)
            is_first = tf.concat([every_other(is_best), [False]], axis=0)
            merged = tf.gather(self._merged, tf.where(is_first[:-1], ranks, 0))
            ids = tf.where(is_first, tf.concat([merged, [0]], axis=0), ids)
            kept = ~tf.concat([[False], is_first[:-1]], axis=0)
            ids, rows = tf.boolean_mask(ids, kept), tf.boolean_mask(rows, kept)
            return ids, rows, ranks_of(ids, rows)

        vector = tf.TensorShape([None])
        ids, rows, _ = tf.while_loop(
            lambda ids, rows, ranks: tf.reduce_any(ranks != NO_RANK),
            merge_best,
            (ids, rows, ranks_of(ids, rows)),
            (vector, vector, vector),
        )
        return tf.RaggedTensor.from_value_rowids(ids, tf.cast(rows, tf.int64), tf.size(words, tf.int64))

    def _text(self, ids):
        return tf.strings.reduce_join(tf.gather(self._texts, ids), axis=-1)

    def get_config(self) -> dict[str, Any]:
        config = {"merges": list(self.merges), "add_prefix_space": self.add_prefix_space}
        return {**super().get_config(), **config}


def split_gpt2(strings, add_prefix_space=False):
    """Splits strings `(B,)` into words with the spaces before them, as GPT-2 does: ragged `(B, n)`.

    >>> split_gpt2(tf.constant(["It's  4 o'clock!"])).to_list()
    [[b'It', b"'s", b' ', b' 4', b' o', b"'", b'clock', b'!']]
    """
    if add_prefix_space:
        strings = tf.strings.regex_replace(strings, r"^([^ ])", r" \1")
    # The last white space before a word stands apart: if it is a space, it belongs to the word.
    strings = tf.strings.regex_replace(strings, rf"({SPACE})({SPACE}[^\t-\r\x{{85}}\p{{Z}}])", rb"\1" + END + rb"\2")
    strings = tf.strings.regex_replace(strings, WORD, rb"\1" + END)
    words = tf.strings.split(strings, END)
    return tf.ragged.boolean_mask(words, tf.strings.length(words) > 0)


def every_other(flags):
    """Marks the first, third, fifth ... of each run of true flags `(n,)`.

    >>> every_other(tf.constant([True, True, True, False, True])).numpy().tolist()
    [True, False, True, False, True]
    """
    run = tf.cumsum(tf.cast(~flags, tf.int32))
    places = tf.range(tf.size(flags))
    first = tf.math.unsorted_segment_min(tf.where(flags, places, NO_RANK), run, tf.size(flags) + 1)
    return flags & ((places - tf.gather(first, run)) % 2 == 0)


def byte_signs():
    """Returns the visible character that stands for each byte in a vocabulary.

    >>> signs = byte_signs()
    >>> signs[ord("a")], signs[ord(" ")]
    ('a', 'Ġ')
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(others)) for byte in range(256)]


def _texts_of(vocabulary, added, specials):
    """Returns the bytes of each token, none for special ones."""
    bytes_of = {sign: bytes([byte]) for byte, sign in enumerate(byte_signs())}
    return [
        b""
        if token in specials
        else token.encode("utf-8")
        if token in added
        else b"".join(bytes_of.get(sign, sign.encode("utf-8", "replace")) for sign in token)
        for token in vocabulary
    ]


def _merge_ids(merges, ids, place):
    """Returns pairs of ids as one integer each, in merge order, and the ids they become."""
    pairs, merged = {}, []
    for index, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else ()
        if len(parts) != 2 or not all(token in ids for token in (*parts, "".join(parts))):
            raise ValueError(
                "`merges` must be pairs of tokens with a space between; both tokens and the joined one must be in the "
                f"vocabulary. Received: {place(index)}={merge!r}"
            )
        pair = ids[parts[0]] * len(ids) + ids[parts[1]]
        if pair in pairs:
            raise ValueError(
                f"`merges` must be distinct. Received: {merge!r} in {place(index)}, as in {place(pairs[pair])}"
            )
        pairs[pair] = index
        merged.append(ids["".join(parts)])
    return np.array([*pairs] or [-1], "int64"), tf.constant(merged or [0], tf.int32)  # no table may be empty


def read_vocabulary(vocabulary):
    """Returns the tokens by id."""
    place = "`vocabulary`"
    if isinstance(vocabulary, (str, os.PathLike)):
        place, vocabulary = str(vocabulary), read_json(vocabulary)
        if not isinstance(vocabulary, dict):
            raise ValueError(f"{place} must have a dictionary of tokens to ids. Received: {type(vocabulary).__name__}")
    if isinstance(vocabulary, dict):
        wrong = [token for token, index in vocabulary.items() if type(index) is not int]
        if wrong:
            raise ValueError(f"{place} must have integers as ids. Received: {wrong[0]!r}: {vocabulary[wrong[0]]!r:.80}")
        ids = sorted(vocabulary.values())
        if ids != list(range(len(ids))):
            raise ValueError(
                f"{place} must have the ids 0 to {len(ids) - 1}, each once. "
                f"Received: ids from {min(ids, default=0)} to {max(ids, default=0)}"
            )
        vocabulary = sorted(vocabulary, key=vocabulary.get)
    tokens, first = list(vocabulary), {}
    for index, token in enumerate(tokens):
        if not is_token(token):
            raise ValueError(
                f"{place} must have non-empty str without NUL as tokens. Received: {token!r} of id {index}"
            )
        if first.setdefault(token, index) != index:
            raise ValueError(
                f"{place} must hold every token once. Received: {token!r} of ids {first[token]} and {index}"
            )
    return tokens


def _read_merges(merges):
    """Returns the merges, and a function that names the place of each in messages."""
    if not isinstance(merges, (str, os.PathLike)):
        return tuple(merges), lambda index: f"merges[{index}]"
    lines = [line.rstrip("\r\n") for line in read_lines(merges, strip=False)]
    header = bool(lines) and lines[0].startswith("#version")
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line and not (header and number == 1)]
    return tuple(line for _, line in numbered), lambda index: f"{merges}, line {numbered[index][0]}"
