"""Texts that end an answer, found across the borders of tokens."""

import numpy as np
from keras import ops

MOST, LONGEST = 8, 64  # texts of a request, and bytes of each
NO_BYTE = -1


class StopTexts:
    """Search for texts in the bytes of tokens, one token at a time.

    Args:
        token_texts: sequence of bytes, the text of each token by id.
    """

    def __init__(self, token_texts):
        token_texts = [*token_texts, b""]  # the last one for ids without a token
        self._sizes = np.array([len(text) for text in token_texts], "int32")
        self._starts = np.cumsum(self._sizes, dtype="int32") - self._sizes
        self._width = max(1, self._sizes.max())
        self._bytes = np.frombuffer(b"".join(token_texts) + bytes(self._width), "uint8")

    def begin(self, rows):
        """Returns the last bytes of answers without tokens, `(rows, LONGEST + width of a token - 1)`."""
        return ops.full((rows, LONGEST + self._width - 1), NO_BYTE, "int32")

    def advance(self, last_bytes, tokens):
        """Returns the last bytes after one more token of each row `(rows,)`."""
        tokens = ops.minimum(tokens, len(self._sizes) - 1)
        places = ops.take(self._starts, tokens)[:, None] + np.arange(self._width, dtype="int32")
        longer = ops.concatenate([last_bytes, ops.cast(ops.take(self._bytes, places), "int32")], axis=1)
        kept = np.arange(last_bytes.shape[1], dtype="int32") + ops.take(self._sizes, tokens)[:, None]
        return ops.take_along_axis(longer, kept, axis=1)

    def ends(self, last_bytes, stop):
        """Returns a boolean `(rows,)`: True = the last token completed one of the texts.

        Args:
            stop: bytes of texts from the last one to the first, int `(MOST, LONGEST)`, `NO_BYTE` elsewhere.
        """
        places = LONGEST - 1 + np.arange(self._width)[:, None] - np.arange(LONGEST)
        backwards = ops.take(last_bytes, places.astype("int32"), axis=1)[:, :, None]  # from each byte of the token
        is_there = ops.all(ops.logical_or(ops.equal(backwards, stop), stop == NO_BYTE), axis=3)
        return ops.any(ops.logical_and(is_there, stop[:, 0] != NO_BYTE), axis=(1, 2))
