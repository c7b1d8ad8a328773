"""Ids of texts, and the vectors that their words begin with."""

import itertools

import numpy as np

from keras_headattn._files import read_lines
from keras_headattn.metrics import read_word_vectors
from recipes.classify.settings import WIDTH
from recipes.engine.data import learn_tokenizer

FILES = {"words": "vocabulary.txt", "pieces": "vocabulary.model"}


def make_tokenizer(train, folder, kind, **options):
    """Loads the vocabulary, which is learned if the run's folder lacks it.

    `train` is a `LabelledText`, or `None` if the vocabulary has been learned; `kind` is "words" or "pieces"; `options`
    are of `learn_tokenizer`.
    """
    texts = None if train is None else [*train.texts, *(train.second_texts or ())]
    return learn_tokenizer(folder / FILES[kind], texts, kind, **options)


def encode_columns(corpus, tokenizer, max_length):
    """Returns ids of a `LabelledText`, at most `max_length` of a text, as `"text"` and, of pairs, `"second_text"`."""
    sides = {"text": corpus.texts, "second_text": corpus.second_texts}
    return {name: [ids[:max_length] for ids in tokenizer.encode(side)] for name, side in sides.items() if side}


def embedding_width(embeddings=None, embedding_dim=None):
    """Returns the width of the embeddings: that of the word vectors in a file, or that which the settings name.

    A missing file, or vectors of another width, are errors.
    """
    if not embeddings:
        return embedding_dim or WIDTH
    width = word_vector_width(embeddings)
    if embedding_dim not in (None, width):
        raise ValueError(f"The vectors in {embeddings} have {width} numbers. Received: embedding_dim={embedding_dim}")
    return width


def load_embeddings(path, tokenizer, embedding, texts):
    """Gives a `keras.layers.Embedding` the vectors of a file, and prints how many words of the training set have one.

    Words without a vector keep what they have. `texts` is a list of integer arrays, the training set.
    """
    vectors = read_word_vectors(path, set(tokenizer.vocabulary))
    ids = assign_word_vectors(embedding, tokenizer, vectors)
    counts = np.bincount(np.concatenate(texts), minlength=tokenizer.vocabulary_size)
    print(
        f"Word vectors: of {len(vectors):,} of {len(tokenizer.vocabulary):,} words, "
        f"{counts[ids].sum() / counts.sum():.1%} of the training text"
    )


def word_vector_width(path):
    """Reads the width of the vectors in a GloVe or word2vec text file off the first one.

    >>> import pathlib
    >>> _ = pathlib.Path("vectors.txt").write_text("the 1 2 3\\ncat 4 5 6\\n")
    >>> word_vector_width("vectors.txt")
    3
    """
    lines = [*itertools.islice(read_lines(path, strip=False, errors="replace"), 2), "", ""]
    first, second, *_ = (line.rstrip().split(" ") for line in lines)
    width = len(second if len(first) == 2 else first) - 1
    if width < 1:
        raise ValueError(f"The file must have a word and its numbers in each line. Received: {path}, {first[0][:60]!r}")
    return width


def assign_word_vectors(embedding, tokenizer, vectors):
    """Assigns vectors, by word, to the rows of a built embedding; returns the ids of the words that have one.

    >>> from keras_headattn.text import WordTokenizer
    >>> tokenizer = WordTokenizer(["a", "cat"])
    >>> embedding = keras.layers.Embedding(tokenizer.vocabulary_size, 2)
    >>> embedding.build()
    >>> assign_word_vectors(embedding, tokenizer, {"cat": [3.0, 4.0]})
    [3]
    >>> embedding(np.array(3)).numpy().tolist()
    [3.0, 4.0]
    """
    values = np.array(embedding.embeddings)
    ids = [token_id for token_id, word in enumerate(tokenizer.vocabulary, 2) if word in vectors]
    if ids:
        values[ids] = [vectors[tokenizer.id_to_token(token_id)] for token_id in ids]
        embedding.embeddings.assign(values)
    return ids
