import codecs
import hashlib
import json
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_headattn.text._offsets import letters_of, to_characters
from keras_headattn.text._pair_tokenizer import PairTokenizer


class ByteTexts(PairTokenizer):
    """Base of tokenizers whose text is the joined bytes of its tokens. A subclass calls `_set_texts`."""

    has_segments = False
    can_cut = True  # between words
    _prefixed = ""  # pattern of texts that get a space before them

    def _set_texts(self, texts):
        self._bytes = texts
        self._sizes = tf.constant([len(text) or 1 for text in texts], tf.int64)  # <unk> is a byte
        self._texts = tf.constant([*texts, b""])  # the last one for ids without a token

    def _text(self, ids):
        return tf.strings.reduce_join(tf.gather(self._texts, ids), axis=-1)

    def _tokenize_with_offsets(self, strings, letters=None):
        """Returns ids, starts and ends, counted in `letters`: parts of the strings, by default characters."""
        ids = self._tokenize(strings)
        letters = letters_of(strings) if letters is None else letters
        sizes = ids.with_flat_values(tf.gather(self._sizes, ids.flat_values))
        totals = tf.reduce_sum(sizes, axis=1)
        before = tf.cumsum(totals, exclusive=True)
        if self._prefixed:
            before += tf.cast(tf.strings.regex_full_match(strings, self._prefixed), tf.int64)
        elif self.unk_id < 0:
            lengths = tf.cast(tf.strings.length(strings), tf.int64)
            tf.debugging.assert_equal(totals, lengths, "Offsets need a vocabulary with every byte of the texts.")
        ends = tf.cumsum(sizes.flat_values) - tf.gather(before, sizes.value_rowids())
        starts = tf.maximum(ends - sizes.flat_values, 0)
        return ids, *to_characters(ids.with_flat_values(starts), ids.with_flat_values(ends), letters)

    @property
    def token_texts(self) -> list[bytes]:
        """Text of each token, V bytes; empty for special tokens."""
        return [*self._bytes]

    @property
    def token_bytes(self) -> np.ndarray:
        """Number of bytes of each token's text, int32 (V,); 0 for special tokens."""
        return np.array([len(text) for text in self._bytes], "int32")

    @property
    def fingerprint(self) -> str:
        """Checksum of all settings that change ids, `max_length` excepted, as hexadecimal digits."""
        config = self.get_config()
        for name in ("name", "dtype", "trainable", "max_length"):
            config.pop(name, None)
        return hashlib.sha256(json.dumps([type(self).__name__, config], sort_keys=True).encode("utf-8")).hexdigest()

    def stream_decoder(self) -> "StreamDecoder":
        """Returns a new `StreamDecoder` for the tokens of one text."""
        return StreamDecoder(self._bytes)


class StreamDecoder:
    """Decoder of token ids one by one, made by the method `stream_decoder` of a tokenizer.

    Bytes of an unfinished UTF-8 character are held back until the character is complete. U+FFFD replaces bytes that are
    not UTF-8. The pieces of text, joined, are the text of `detokenize`.

    Args:
        texts: sequence of bytes, the text of each token by id.

    >>> decoder = StreamDecoder([b"a", b"\\xc3", b"\\xa9"])
    >>> [decoder.decode(token_id) for token_id in (0, 1, 2, 1)], decoder.finish()
    (['a', '', 'é', ''], '\ufffd')
    """

    def __init__(self, texts: Sequence[bytes]):
        self._texts = texts
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, token_id: int) -> str:
        """Returns the characters that a token completes, often none.

        Args:
            token_id: int. Ids without a token have no text.
        """
        token_id = int(token_id)
        return self._decoder.decode(self._texts[token_id] if 0 <= token_id < len(self._texts) else b"")

    def finish(self) -> str:
        """Returns what is left of the text, U+FFFD if its last character is incomplete."""
        return self._decoder.decode(b"", final=True)
