"""Tokenizers of words or of pieces, whose vocabulary is learned from a text."""

import pathlib

from keras_headattn._files import write_atomically
from keras_headattn.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
    learn_wordpieces,
    learn_words,
    train_sentencepiece,
)

TOKENIZERS = {"words": WordTokenizer, "pieces": SentencePieceTokenizer, "wordpieces": WordPieceTokenizer}


def learn_tokenizer(path, texts=None, kind="words", vocabulary_size=None, min_count=1, lowercase=True):
    """Learns a vocabulary if its file is missing, and loads it.

    Args:
        path: str or path, the file of the vocabulary: a word a line, or a SentencePiece model.
        texts: iterable of str. Default `None`: the vocabulary has been learned.
        kind: "words" (default), "pieces" of SentencePiece, or "wordpieces" of BERT, whose file is `vocab.txt`.
        vocabulary_size: int, number of ids; words may be fewer. Default `None`: all words; pieces need a number.
        min_count: int, how often a word must occur. Default 1.
        lowercase: True to lower-case text.

    >>> tokenizer = learn_tokenizer("vocabulary.txt", ["a cat sat", "a dog"], vocabulary_size=4)
    >>> tokenizer.vocabulary
    ('a', 'cat')
    """
    if kind not in TOKENIZERS:
        raise ValueError(f"`kind` must be one of {', '.join(TOKENIZERS)}. Received: kind={kind!r}")
    path = pathlib.Path(path)
    if not path.exists():
        if texts is None:
            raise ValueError(
                f"The folder {path.parent} is not complete: it has no {path.name}. Give the text to learn it from. "
                "Received: texts=None"
            )
        if kind == "pieces":
            train_sentencepiece(map(str.lower, texts) if lowercase else texts, path, vocabulary_size, "unigram")
        else:
            is_word = kind == "words"
            words = (
                learn_words(texts, vocabulary_size, min_count, lowercase)
                if is_word
                else learn_wordpieces(texts, vocabulary_size, lowercase)
            )
            write_atomically(path, "".join(f"{word}\n" for word in words).encode("utf-8"))
    return TOKENIZERS[kind](path, lowercase=lowercase)
