"""The word that each token of a text belongs to."""

import itertools
import re

import numpy as np


def word_places(tokenizer, columns, *sides):
    """Returns the word index of each id, -1 for special ones: a list of arrays for each input of ids."""
    words = [[re.findall(r"\s*\S+", text) for text in side] for side in sides]  # each with the white space before it
    columns = [column for name, column in columns.items() if name != "segment_ids"]
    if len(columns) == len(sides):
        places = [_single(tokenizer, *pair) for pair in zip(columns, words, strict=True)]
    else:
        places = [_joined(tokenizer, columns[0], *words)]
    if len(places) == 2:
        shifted = zip(places[1], words[0], strict=True)
        places[1] = [np.where(word_indices < 0, -1, word_indices + len(first)) for word_indices, first in shifted]
    return places


def _single(tokenizer, rows, texts):
    places = []
    for ids, (start, end), words in zip(rows, (_text(tokenizer, ids) for ids in rows), texts, strict=True):
        word_indices = np.full(len(ids), -1)
        indices = _words_of(tokenizer, words, ids[start:end])
        word_indices[start : start + len(indices)] = indices
        places.append(word_indices)
    return places


def _joined(tokenizer, rows, first_texts, second_texts):
    places = []
    for ids, first, second in zip(rows, first_texts, second_texts, strict=True):
        word_indices = np.full(len(ids), -1)
        end = int(np.argmax(ids == tokenizer.eos_id))  # of the first text
        begin = end + tokenizer.num_between
        word_indices[1:end] = _words_of(tokenizer, first, ids[1:end])
        word_indices[begin:-1] = _words_of(tokenizer, second, ids[begin:-1]) + len(first)
        places.append(word_indices)
    return places


def _text(tokenizer, ids):
    """Returns the first and the last position of a row's text, without special ids."""
    joins = tokenizer.joins_pairs
    begins, ends = (joins or getattr(tokenizer, name, False) for name in ("add_bos", "add_eos"))
    return int(begins), len(ids) - int(bool(ends and len(ids) and ids[-1] == tokenizer.eos_id))


def _pieces(tokenizer, texts):
    return [ids[slice(*_text(tokenizer, ids))] for ids in tokenizer.encode(texts)]


def _words_of(tokenizer, words, ids):
    """Returns the word index of each id; ids that belong to no word take the last one's."""
    pieces = _pieces(tokenizer, words)
    counts = list(map(len, pieces))
    if not words or not np.array_equal(np.concatenate(pieces)[: len(ids)], ids):  # pieces that span words
        ends = [len(row) for row in _pieces(tokenizer, list(itertools.accumulate(words)))]
        counts = np.diff(np.maximum.accumulate([0, *ends]))
    indices = np.repeat(np.arange(len(words)), counts)[: len(ids)]
    return np.pad(indices, (0, len(ids) - len(indices)), constant_values=indices[-1] if len(indices) else -1)
