"""Added tokens, which tokenizers never split."""

import tensorflow as tf

SPACE = r"[\t-\r\x{85}\p{Z}]"  # what Unicode calls white space
END = b"\xff"  # no UTF-8 has this byte, and no pattern fits it
OPTIONS = {"normalized": False, "lstrip": False, "rstrip": False, "special": False}


def clean_utf8(strings):
    """Replaces bytes that are not UTF-8 by U+FFFD."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")


def read_added_tokens(tokens):
    """Checks a tokenizer's argument `added_tokens` and returns a list of dicts, each with all `OPTIONS`."""
    read = [{"content": token} if isinstance(token, str) else dict(token) for token in tokens]
    for token in read:
        content, unknown = token.get("content"), set(token) - {"content", *OPTIONS}
        if unknown or not isinstance(content, str) or not content or "\0" in content:
            raise ValueError(
                "`added_tokens` must be non-empty str, or dictionaries with the str `content` and any of "
                f"{', '.join(OPTIONS)}. Received: {token!r}"
            )
    if len({token["content"] for token in read}) < len(read):
        raise ValueError(f"`added_tokens` must be distinct. Received: {[token['content'] for token in read]}")
    return [{**OPTIONS, **token} for token in read]


class AddedTokens(tf.Module):
    """Splitter of texts at added tokens, as in Hugging Face's tokenizers; a tokenizer gets the text between them.

    Tokens that are not normalized are looked for first, in the original text; the others in normalized text.
    """

    def __init__(self, tokens, ids, normalize=None):
        super().__init__()
        self._normalize = normalize
        rounds = [t for t in tokens if not t["normalized"]], [t for t in tokens if t["normalized"]]
        as_they_are = [t["content"] for t in rounds[0]]
        normal = [t["content"] for t in rounds[1]]
        if normalize and normal:
            normal = [text.decode("utf-8") for text in normalize(tf.constant(normal)).numpy()]
        self._raw = _Finder(rounds[0], as_they_are, ids)
        self._normalized = _Finder(rounds[1], normal, ids)
        self.patterns = "|".join(filter(None, [self._raw.patterns, self._normalized.patterns]))

    def pieces(self, strings, tokenize):
        """Returns the ids of strings (B,) as int32 `tf.RaggedTensor` (B, n); `tokenize` gets the text between added
        tokens.
        """
        texts, rows, ids = self._raw.split(*_whole(clean_utf8(strings)))
        if self._normalized.patterns:
            texts = self._normalize(texts) if self._normalize else texts
            texts, rows, ids = self._normalized.split(texts, rows, ids)
        return _joined(ids, ids, tokenize(texts), rows, tf.size(strings, tf.int64))

    def pieces_with_offsets(self, strings, tokenize):
        """Returns ids, starts and ends; `tokenize` returns those of the text between added tokens."""
        if self._normalized.patterns and self._normalize:
            raise ValueError(
                "`added_tokens` that are matched in normalized text have no offsets: make them with "
                "`normalized=False`. Received: a tokenizer with some"
            )
        places = tf.zeros([tf.size(strings), 2], tf.int64)  # start of each text, and characters of an added token
        texts, rows, ids, places = self._raw.split(*_whole(strings), places)
        texts, rows, ids, places = self._normalized.split(texts, rows, ids, places)
        pieces, starts, ends = tokenize(texts)
        begin, size = places[:, 0], places[:, 1]
        starts, ends = (
            side.with_flat_values(side.flat_values + tf.gather(begin, side.value_rowids())) for side in (starts, ends)
        )
        return [
            _joined(ids, values, piece_values, rows, tf.size(strings, tf.int64))
            for values, piece_values in ((ids, pieces), (begin, starts), (begin + size, ends))
        ]


def _whole(strings):
    """Returns texts, rows and ids, as `_Finder.split` does, of texts without tokens."""
    count = tf.size(strings, tf.int64)
    return strings, tf.range(count), tf.fill([count], -1)


def _joined(ids, values, pieces, rows, count):
    """Joins values of added tokens, where `ids` has some, and those of pieces, to a ragged tensor of `count` rows."""
    is_added = ids >= 0
    added = tf.RaggedTensor.from_row_lengths(values[is_added], tf.cast(is_added, tf.int64))
    pieces = tf.concat([added, tf.cast(pieces, values.dtype)], axis=1)
    return tf.RaggedTensor.from_value_rowids(pieces, rows, count).merge_dims(1, 2)


class _Finder(tf.Module):
    """Finder of tokens by their texts; the longest match wins."""

    def __init__(self, tokens, texts, ids):
        super().__init__()
        tokens_by_text = {}
        for token, text in zip(tokens, texts, strict=True):
            if text:
                tokens_by_text.setdefault(text, token)
        self.patterns = "|".join(_pattern(text) for text in sorted(tokens_by_text, key=len, reverse=True))
        values = {text: ids[token["content"]] for text, token in tokens_by_text.items()} or {"": -1}
        self._ids = _table(values)
        self._strips = {
            side: _table({text: int(token[side]) for text, token in tokens_by_text.items()} or {"": 0})
            for side in ("lstrip", "rstrip")
            if any(token[side] for token in tokens)
        }

    def split(self, texts, rows, ids, places=None):
        """Splits texts (N,) without an id at tokens; returns texts, rows and ids (M,), with empty texts for tokens.

        `places` (N, 2), the first character of each text and the length of each token, are returned as (M, 2).
        """
        if not self.patterns:
            kept = tf.where(ids >= 0, "", texts), rows, ids
            return kept if places is None else (*kept, places)
        parts = tf.strings.split(tf.strings.regex_replace(texts, f"({self.patterns})", END + rb"\1" + END), END)
        parents, texts = parts.value_rowids(), parts.flat_values
        before = tf.gather(ids, parents)
        part_ids = tf.where(before >= 0, before, self._ids.lookup(texts))
        if places is not None:
            places = _places(parts, tf.gather(places, parents), is_new=(part_ids >= 0) & (before < 0))
        for side, strips in self._strips.items():
            flags = tf.concat([[0], tf.maximum(strips.lookup(texts), 0), [0]], axis=0)
            # A text stands before and after each token, though it may be empty.
            is_beside = flags[2:] if side == "lstrip" else flags[:-2]
            pattern = f"{SPACE}+$" if side == "lstrip" else f"^{SPACE}+"
            stripped = tf.where(is_beside > 0, tf.strings.regex_replace(texts, pattern, ""), texts)
            if places is not None and side == "rstrip":
                moved = tf.cast(_characters(texts) - _characters(stripped), tf.int64)
                places += tf.stack([moved, tf.zeros_like(moved)], axis=1)
            texts = stripped
        kept = tf.where(part_ids >= 0, "", texts), tf.gather(rows, parents), part_ids
        return kept if places is None else (*kept, places)


def _characters(texts):
    return tf.strings.length(texts, "UTF8_CHAR")


def _places(parts, places, is_new):
    """Returns the places of parts of texts, ragged (N, m), from those of the texts, (M, 2)."""
    sizes = tf.cast(_characters(parts.flat_values), tf.int64)
    before = tf.cumsum(sizes, exclusive=True)
    before -= tf.gather(tf.concat([before, [0]], axis=0), tf.gather(parts.row_starts(), parts.value_rowids()))
    return tf.stack([places[:, 0] + before, tf.where(is_new, sizes, places[:, 1])], axis=1)


def _table(values):
    keys, ids = tf.constant(list(values), tf.string), tf.constant(list(values.values()), tf.int32)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, ids), -1)


def _pattern(text):
    return "".join(f"\\x{{{ord(character):x}}}" for character in text)
