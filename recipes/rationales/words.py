"""Words of documents as windows of word pieces."""

import dataclasses
import math

import numpy as np

from keras_headattn.text import BytePairTokenizer
from recipes.rationales.data import SEPARATOR, choices_of


@dataclasses.dataclass(frozen=True)
class Sequence:
    """Document with its query, in windows.

    Args:
        windows: list of int32 arrays, each at most as long as a window.
        window_of, offset_of: ints `(n,)`, the window of each word's first piece, and its place there: of the words of
            the document, the end symbol, the words of the query, and the end symbol.
        num_words: int, words of the document that are read.
    """

    windows: list
    window_of: np.ndarray
    offset_of: np.ndarray
    num_words: int

    def __len__(self):
        return len(self.window_of)


def report_cut(name, sizes, read, file=None):
    """Prints how many documents are cut, if any: of `sizes` words, of which `read` are read."""
    if sum(read) < sum(sizes):
        cut = sum(few < size for few, size in zip(read, sizes, strict=True))
        print(
            f"{name}: {cut} of {len(sizes)} documents are cut, {sum(read) / sum(sizes):.0%} of the words are read.",
            file=file,
        )


class WordPieces:
    """Maker of `Sequence` of words, by a tokenizer of BERT, ELECTRA or RoBERTa.

    A window has `window` pieces, special ones included, and a document at most `max_windows`. A word is in several
    windows where they overlap. It counts in that in whose middle it is nearest.

    >>> from keras_headattn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "c"])
    >>> sequence = WordPieces(tokenizer, 8)(["ab", "c", "ab"], ["c"])
    >>> [window.tolist() for window in sequence.windows]
    [[2, 4, 5, 6, 4, 5, 3, 3], [2, 4, 5, 3, 6, 3, 3]]
    >>> sequence.window_of.tolist(), sequence.offset_of.tolist()
    ([0, 0, 0, 1, 1, 1], [1, 3, 4, 3, 4, 5])
    """

    def __init__(self, tokenizer, window, max_windows=None):
        self.tokenizer = type(tokenizer).from_config({**tokenizer.get_config(), "max_length": None})
        self.window = window
        self.max_windows = max_windows
        self.known = {}

    def __call__(self, words, query):
        self.learn([words, query])
        end = np.array([self.tokenizer.eos_id])
        asked = [end, *(self.known[word] for word in query), end]
        pieces = [self.known[word] for word in words]
        room, stride = self.window - 2, (self.window - 2) // 2
        if self.max_windows is not None:
            left = room + (self.max_windows - 1) * stride - sum(map(len, asked))
            pieces = pieces[: int(np.searchsorted(np.cumsum([len(piece) for piece in pieces]), left, side="right"))]
        units = [*pieces, *asked]
        ids = np.concatenate(units)
        starts = np.cumsum([0, *(len(unit) for unit in units[:-1])])
        num_windows = 1 + max(0, math.ceil((len(ids) - room) / stride))
        window_of = np.clip(np.floor((starts - room / 2) / stride + 0.5), 0, num_windows - 1).astype(int)
        around = np.array([self.tokenizer.bos_id]), end
        windows = [
            np.concatenate([around[0], ids[k * stride : k * stride + room], around[1]]).astype("int32")
            for k in range(num_windows)
        ]
        return Sequence(windows, window_of, starts - window_of * stride + 1, len(pieces))

    def of_choices(self, words, query, count):
        """Makes a `Sequence` for each of the `count` choices in a query; 1: of the whole query."""
        choices = choices_of(query) if count > 1 else [query]
        if len(choices) != count:
            raise ValueError(
                f"The query must have {count} choices with {SEPARATOR} between them. Received: {' '.join(query)!r}"
            )
        return [self(words, choice) for choice in choices]

    def learn(self, texts):
        """Finds the pieces of all words of some texts, lists of words."""
        new = list(dict.fromkeys(word for words in texts for word in words if word not in self.known))
        if new:
            space = " " if isinstance(self.tokenizer, BytePairTokenizer) else ""
            rows = self.tokenizer.encode([space + word for word in new])
            for word, row in zip(new, rows, strict=True):
                self.known[word] = row[1:-1] if len(row) > 2 else np.array([self.tokenizer.unk_id])
