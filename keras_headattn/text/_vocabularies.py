"""A tokenizer of words or of pieces from a text, and the vectors that its words begin with."""

import pathlib
from collections.abc import Iterable, Mapping

import keras
import numpy as np

from headattn_io.files import Path, write_atomically
from keras_headattn._validation import check_positive
from keras_headattn.text._pair_tokenizer import PairTokenizer
from keras_headattn.text._sentencepiece_tokenizer import SentencePieceTokenizer
from keras_headattn.text._sentencepiece_training import train_sentencepiece
from keras_headattn.text._word_tokenizer import WordTokenizer, learn_words
from keras_headattn.text._wordpiece_tokenizer import WordPieceTokenizer
from keras_headattn.text._wordpiece_training import learn_wordpieces

Tokenizer = WordTokenizer | SentencePieceTokenizer | PairTokenizer
TOKENIZERS = {"words": WordTokenizer, "pieces": SentencePieceTokenizer, "wordpieces": WordPieceTokenizer}


def learn_tokenizer(
    path: Path,
    texts: Iterable[str] | None = None,
    kind: str = "words",
    vocabulary_size: int | None = None,
    min_count: int = 1,
    lowercase: bool = True,
) -> Tokenizer:
    """Learns a vocabulary if its file is missing, and loads it.

    Args:
        path: str or path, the file of the vocabulary: a word a line, or a SentencePiece model.
        texts: iterable of str. Default `None`: the vocabulary has been learned.
        kind: "words" (default), "pieces" of SentencePiece, or "wordpieces" of BERT, whose file is `vocab.txt`.
        vocabulary_size: int, number of ids; words may be fewer. Default `None`: all words; pieces need a number.
        min_count: int, how often a word must occur. Default 1.
        lowercase: bool, whether text is lower-cased. Default True.

    Returns:
        `WordTokenizer`, `SentencePieceTokenizer` or `WordPieceTokenizer`.

    Raises:
        ValueError: for another `kind`, without `texts` if there is no such file, or as `learn_words`,
            `train_sentencepiece` and `learn_wordpieces` raise it.

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
            train_sentencepiece(
                map(str.lower, texts) if lowercase else texts,
                path,
                check_positive("vocabulary_size", vocabulary_size),
                "unigram",
            )
        else:
            is_word = kind == "words"
            words = (
                learn_words(texts, vocabulary_size, min_count, lowercase)
                if is_word
                else learn_wordpieces(texts, check_positive("vocabulary_size", vocabulary_size), lowercase)
            )
            write_atomically(path, "".join(f"{word}\n" for word in words).encode("utf-8"))
    return TOKENIZERS[kind](path, lowercase=lowercase)


def assign_word_vectors(
    embedding: keras.layers.Embedding, tokenizer: WordTokenizer, vectors: Mapping[str, np.ndarray]
) -> list[int]:
    """Gives the rows of an embedding the vectors of their words. Words without a vector keep what they have.

    Args:
        embedding: `keras.layers.Embedding` that is built, of `tokenizer.vocabulary_size` rows.
        tokenizer: `WordTokenizer`.
        vectors: dictionary of words to arrays `(D,)`, as `metrics.read_word_vectors` returns it.

    Returns:
        List of int, the ids of the words that have a vector.

    >>> tokenizer = WordTokenizer(["a", "cat"])
    >>> embedding = keras.layers.Embedding(tokenizer.vocabulary_size, 2)
    >>> embedding.build()
    >>> assign_word_vectors(embedding, tokenizer, {"cat": [3.0, 4.0]})
    [3]
    >>> embedding(np.array(3)).numpy().tolist()
    [3.0, 4.0]
    """
    values = np.array(embedding.embeddings)
    ids = [number for number, word in enumerate(tokenizer.vocabulary, 2) if word in vectors]
    if ids:
        values[ids] = [vectors[tokenizer.id_to_token(number)] for number in ids]
        embedding.embeddings.assign(values)
    return ids
