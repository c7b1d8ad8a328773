import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path, read_json, read_lines
from keras_headattn.text._added_tokens import END, clean_utf8
from keras_headattn.text._byte_texts import ByteTexts
from keras_headattn.text._pair_tokenizer import is_token
from keras_headattn.text._pre_tokenizers import compose, rules_of, split_into_words

SPECIALS = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
ALONE = r"([^\p{M}\x{1160}-\x{11ff}])"  # what no character before it is composed with: no mark, no inner jamo
NO_RANK = 2**31 - 1


@keras.saving.register_keras_serializable(package="keras_headattn")
class BytePairTokenizer(ByteTexts):
    r"""Byte-level byte-pair tokenizer of RoBERTa and of language models, inside the TensorFlow graph.

    A text is split into words, and the bytes of a word are joined by the merges in order. RoBERTa's, the default, is
    GPT-2's encoding with special tokens: a text is `<s> A </s>`, a pair `<s> A </s></s> B </s>`. A language model has
    `specials` of its own, or none. The vocabulary is saved with the model. Special tokens in a text are ordinary text
    by default. U+FFFD replaces bytes that are not UTF-8.

    | `pre_tokenizer` | words | used by |
    |---|---|---|
    | `"gpt2"` | English endings; a space or none, and letters, digits or other signs; white space | GPT-2, RoBERTa |
    | `"gpt_neox"` | as `"gpt2"`, of text in Unicode's form NFC | Pythia |
    | `"smollm"` | each digit alone, else as `"gpt2"` | SmolLM |
    | `"llama3"` | endings in either case; a sign or none, and letters; up to 3 digits; other signs; lines | Llama 3 |
    | `"qwen2"` | as `"llama3"`, each digit alone, of text in the form NFC | Qwen 2, Qwen 3 |

    NFC needs the package tensorflow-text in a SavedModel; the others need TensorFlow alone.

    Source: Sennrich et al. 2016, "Neural machine translation of rare words with subword units"; Radford et al. 2019,
    "Language models are unsupervised multitask learners"; Liu et al. 2019, "RoBERTa"; for other words the
    `tokenizer.json` of the models.

    Args:
        vocabulary: path of `vocab.json`, a dictionary from token to id, 0 to `V - 1`, or a list of tokens by id.
            Invisible bytes are written as in GPT-2: `"Ġ"` is a space.
        merges: path of `merges.txt`, or a list of str, two tokens with a space between.
        max_length, added_tokens: see `WordPieceTokenizer`.
        add_prefix_space: True to put a space before text that does not begin with one, so that the first word is like
            later ones; for `"gpt2"` and `"gpt_neox"` only. RoBERTa uses False.
        specials: dictionary from `"bos"`, `"eos"`, `"pad"`, `"unk"` and `"mask"` to tokens, which the vocabulary must
            hold, except the mask. A text begins with `"bos"` and ends with `"eos"`, where given. Bytes that the
            vocabulary lacks are `"unk"`, or left out without it. Default: RoBERTa's five. `None`: no special tokens.
        pre_tokenizer: name in the table.
        add_eos: False to leave `"eos"` to the caller, as for language models: `eos_id` then ends documents and answers.
        ignore_merges: True to take words of the vocabulary whole, as Llama 3 does.

    Call arguments:
        texts, second_texts, special_tokens: see `WordPieceTokenizer`. Pairs need `"bos"` and `"eos"`.

    Returns:
        int32 tensor (B, n), padded with `pad_id`, without segments. `pad_id` is 1 in RoBERTa, and -1 without `"pad"`.

    Raises:
        FileNotFoundError: if `vocabulary` or `merges` names no file.
        ValueError: for an invalid vocabulary, merges, specials or name, too small a `max_length`, or `texts` of another
            shape.

    >>> vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "a", "c", "t", "Ġ", "at", "Ġc", "Ġcat", "<mask>"]
    >>> merges = ["a t", "Ġ c", "Ġc at"]
    >>> tokenizer = BytePairTokenizer(vocabulary, merges)
    >>> tokenizer(["a cat", "at"]).numpy().tolist()
    [[0, 4, 10, 2], [0, 8, 2, 1]]
    >>> tokenizer(["a cat"], ["at"]).numpy().tolist()
    [[0, 4, 10, 2, 2, 8, 2]]
    >>> tokenizer.detokenize([[0, 4, 10, 2]]).numpy().tolist()
    [b'a cat']
    >>> tokenizer = BytePairTokenizer(vocabulary, merges, specials={"eos": "</s>"}, add_eos=False)
    >>> tokenizer(["a cat</s>", "at"], special_tokens=True).numpy().tolist()
    [[4, 10, 2], [8, -1, -1]]
    >>> tokenizer.token_bytes.tolist()
    [3, 5, 0, 5, 1, 1, 1, 1, 2, 2, 4, 6]
    """

    num_between = 2

    def __init__(
        self,
        vocabulary: Path | Mapping[str, int] | Sequence[str],
        merges: Path | Sequence[str],
        max_length: int | None = None,
        add_prefix_space: bool = False,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        specials: Mapping[str, str] | None = SPECIALS,
        pre_tokenizer: str = "gpt2",
        add_eos: bool = True,
        ignore_merges: bool = False,
        **kwargs: Any,
    ):
        super().__init__(read_vocabulary(vocabulary), max_length, added_tokens, **kwargs)
        self.merges, locate = _read_merges(merges)
        self.add_prefix_space = add_prefix_space
        self._prefixed = "(?s)[^ ].*" if add_prefix_space else ""
        self.specials = check_specials(specials)
        self.pre_tokenizer = pre_tokenizer
        self.add_eos = add_eos
        self.ignore_merges = ignore_merges
        self._rules = rules_of(pre_tokenizer, add_prefix_space)
        self._normalize = compose if self._rules.composes else None
        self._find_special(self.specials, add_eos)
        ids = {token: index for index, token in enumerate(self._base)}
        self._byte_ids = tf.constant([ids.get(sign, self.unk_id) for sign in byte_signs()], tf.int32)
        pairs, self._merged = _merge_ids(self.merges, ids, locate)
        self._ranks = _table(pairs, np.arange(len(pairs)), NO_RANK)
        self._set_texts(_texts_of(self.vocabulary, self.added_tokens, {*self.specials.values()}))
        if ignore_merges:
            whole = {_raw(token): ids[token] for token in self._base if set(token) <= {*byte_signs()}}
            self._whole = _table([*whole, b""], [*whole.values(), -1], -1)  # no table may be empty

    def _tokenize(self, strings):
        if self.add_prefix_space:
            strings = tf.strings.regex_replace(clean_utf8(strings), r"^([^ ])", r" \1")
        words = split_into_words(strings, self._rules)
        different, places = tf.unique(words.flat_values, tf.int64)
        pieces = tf.gather(self._ids_of(different), places)
        return tf.RaggedTensor.from_nested_row_splits(
            pieces.flat_values, [words.row_splits, pieces.row_splits]
        ).merge_dims(1, 2)

    def _tokenize_with_offsets(self, strings, letters=None):
        if not self._rules.composes:
            return super()._tokenize_with_offsets(strings)
        groups = tf.strings.split(tf.strings.regex_replace(strings, ALONE, END + rb"\1"), END)
        groups = tf.ragged.boolean_mask(groups, groups.with_flat_values(tf.strings.length(groups.flat_values) > 0))
        normal = groups.with_flat_values(compose(groups.flat_values))
        ids, *sides = super()._tokenize_with_offsets(tf.strings.reduce_join(normal, axis=-1), normal)
        sizes = groups.with_flat_values(tf.cast(tf.strings.length(groups.flat_values, "UTF8_CHAR"), tf.int64))
        before = tf.cumsum(tf.reduce_sum(sizes, axis=1), exclusive=True)
        ends = tf.cumsum(sizes.flat_values) - tf.gather(before, sizes.value_rowids())  # of groups, in characters
        edges = tf.concat([tf.zeros([sizes.nrows(), 1], tf.int64), sizes.with_flat_values(ends)], axis=1)
        first = tf.gather(edges.row_starts(), ids.value_rowids())
        return ids, *(side.with_flat_values(tf.gather(edges.flat_values, first + side.flat_values)) for side in sides)

    def _ids_of(self, words):
        """Returns the ids of words (W,) as int32 `tf.RaggedTensor` (W, n)."""
        if not self.ignore_merges:
            return self._merge(words)
        whole = self._whole.lookup(words)
        is_whole = whole >= 0
        ids = tf.RaggedTensor.from_row_lengths(tf.boolean_mask(whole, is_whole), tf.cast(is_whole, tf.int64))
        return tf.concat([ids, self._merge(tf.where(is_whole, "", words))], axis=1)

    def _merge(self, words):
        signs = tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8)
        ids = tf.gather(self._byte_ids, tf.cast(signs, tf.int32))
        rows = tf.repeat(tf.range(tf.size(words)), tf.strings.length(words))
        if self.unk_id < 0:
            ids, rows = tf.boolean_mask(ids, ids >= 0), tf.boolean_mask(rows, ids >= 0)

        def ranks_of(ids, rows):
            keys = tf.cast(ids[:-1], tf.int64) * len(self._base) + tf.cast(ids[1:], tf.int64)
            return tf.where((rows[:-1] == rows[1:]) & (ids[1:] < len(self._base)), self._ranks.lookup(keys), NO_RANK)

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

    def get_config(self) -> dict[str, Any]:
        config = {name: getattr(self, name) for name in ("add_prefix_space", "pre_tokenizer", "add_eos")}
        config |= {"merges": list(self.merges), "specials": self.specials, "ignore_merges": self.ignore_merges}
        return {**super().get_config(), **config}


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
    replacements = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(replacements)) for byte in range(256)]


@functools.cache
def _bytes_of():
    return {sign: bytes([byte]) for byte, sign in enumerate(byte_signs())}


def _raw(token):
    """Returns the bytes of a token of the vocabulary."""
    return b"".join(_bytes_of().get(sign, sign.encode("utf-8")) for sign in token)


def _texts_of(vocabulary, added, specials):
    """Returns the bytes of each token, none for special ones."""
    texts = {token["content"]: b"" if token["special"] else token["content"].encode("utf-8") for token in added}
    texts |= dict.fromkeys(specials, b"")
    return [texts[token] if token in texts else _raw(token) for token in vocabulary]


def _table(keys, values, default):
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values, tf.int32))
    return tf.lookup.StaticHashTable(initializer, default)


def check_specials(specials):
    specials = dict(specials or {})
    if set(specials) - {*SPECIALS} or not all(map(is_token, specials.values())):
        raise ValueError(f"`specials` must be a dictionary from {', '.join(SPECIALS)} to tokens. Received: {specials}")
    return specials


def _merge_ids(merges, ids, locate):
    """Returns pairs of ids as one integer each, in merge order, and the ids they become."""
    pairs, merged = {}, []
    for index, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else ()
        if len(parts) != 2 or not all(token in ids for token in (*parts, "".join(parts))):
            raise ValueError(
                "`merges` must be pairs of tokens with a space between; both tokens and the joined one must be in the "
                f"vocabulary. Received: {locate(index)}={merge!r}"
            )
        pair = ids[parts[0]] * len(ids) + ids[parts[1]]
        if pair in pairs:
            raise ValueError(
                f"`merges` must be distinct. Received: {merge!r} in {locate(index)}, as in {locate(pairs[pair])}"
            )
        pairs[pair] = index
        merged.append(ids["".join(parts)])
    return np.array([*pairs] or [-1], "int64"), tf.constant(merged or [0], tf.int32)  # no table may be empty


def read_vocabulary(vocabulary):
    """Returns the tokens by id."""
    source = "`vocabulary`"
    if isinstance(vocabulary, (str, os.PathLike)):
        source, vocabulary = str(vocabulary), read_json(vocabulary)
        if not isinstance(vocabulary, dict):
            raise ValueError(f"{source} must have a dictionary of tokens to ids. Received: {type(vocabulary).__name__}")
    if isinstance(vocabulary, dict):
        wrong = [token for token, index in vocabulary.items() if type(index) is not int]
        if wrong:
            raise ValueError(
                f"{source} must have integers as ids. Received: {wrong[0]!r}: {vocabulary[wrong[0]]!r:.80}"
            )
        ids = sorted(vocabulary.values())
        if ids != list(range(len(ids))):
            raise ValueError(
                f"{source} must have the ids 0 to {len(ids) - 1}, each once. "
                f"Received: ids from {min(ids, default=0)} to {max(ids, default=0)}"
            )
        vocabulary = sorted(vocabulary, key=vocabulary.get)
    tokens, first = list(vocabulary), {}
    for index, token in enumerate(tokens):
        if not is_token(token):
            raise ValueError(
                f"{source} must have non-empty str without NUL as tokens. Received: {token!r} of id {index}"
            )
        if first.setdefault(token, index) != index:
            raise ValueError(
                f"{source} must hold every token once. Received: {token!r} of ids {first[token]} and {index}"
            )
    return tokens


def _read_merges(merges):
    """Returns the merges, and a function that names the place of each in messages."""
    if not isinstance(merges, (str, os.PathLike)):
        return tuple(merges), lambda index: f"merges[{index}]"
    lines = [line.rstrip("\r\n") for line in read_lines(merges, strip=False)]
    header = bool(lines) and lines[0].startswith("#version")
    numbered = [
        (line_number, line) for line_number, line in enumerate(lines, 1) if line and not (header and line_number == 1)
    ]
    return tuple(line for _, line in numbered), lambda index: f"{merges}, line {numbered[index][0]}"
