from collections.abc import Collection

import numpy as np

from keras_headattn._files import Path, parse_number, read_lines
from keras_headattn._optional import optional_import


def read_word_vectors(path: Path, vocabulary: Collection[str]) -> dict[str, np.ndarray]:
    """Reads the vectors of some words from a GloVe or word2vec text file.

    A line is a word and its numbers, separated by spaces; a first line of two fields (word2vec) is skipped.

    Args:
        path: path of the file, plain or `.gz`, in UTF-8.
        vocabulary: words to keep.

    Returns:
        Dictionary from each word found to its float32 vector `(d,)`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a line is not a word with as many finite numbers as the others, or no word is found.
        ImportError: if tqdm is not installed.

    >>> import pathlib
    >>> _ = pathlib.Path("vectors.txt").write_text("the 1 2 3\\ncat 4 5 6\\n")
    >>> read_word_vectors("vectors.txt", {"cat"})["cat"].tolist()
    [4.0, 5.0, 6.0]
    """
    vectors, width = {}, None
    lines = read_lines(path, strip=False, errors="replace")
    lines = optional_import("tqdm", "metrics").tqdm(lines, desc=str(path), unit=" words", delay=5, disable=None)
    for line_number, line in enumerate(lines, 1):
        fields = line.rstrip().split(" ")
        if line_number == 1 and len(fields) == 2:
            continue
        width = width or len(fields) - 1
        # A word may hold spaces itself: GloVe has one that is ". . .".
        word = " ".join(fields[:-width])
        try:
            if not word:
                raise ValueError("too few fields")
            if word in vocabulary:
                vectors[word] = np.array(list(map(parse_number, fields[-width:])), "float32")
        except ValueError as error:
            raise ValueError(
                f"Line {line_number} of {path} must be a word and {width} finite numbers. Received: {line[:60]!r}"
            ) from error
    if not vectors:
        raise ValueError(f"The file has none of the words: check its language and case. Received: {path}")
    return vectors
