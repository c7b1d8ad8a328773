"""From texts to ids, and the vectors that their words begin with, as a configuration names them."""

import numpy as np

from keras_headattn.metrics import read_word_vectors, word_vector_width
from keras_headattn.text import assign_word_vectors, learn_tokenizer

FILES = {"words": "vocabulary.txt", "pieces": "vocabulary.model"}


def make_tokenizer(config, train, folder):
    """Learns the vocabulary if the run's folder lacks it, and loads it.

    Args:
        config: `ClassifyConfig`.
        train: `LabelledText`, or `None` if the vocabulary has been learned.
        folder: path of the run.

    Returns:
        `WordTokenizer` or `SentencePieceTokenizer`.

    Raises:
        ValueError: without `train`, if the folder has no vocabulary.
    """
    return learn_tokenizer(
        folder / FILES[config.tokens],
        None if train is None else [*train.texts, *(train.second_texts or ())],
        config.tokens,
        config.vocabulary_size,
        config.min_count,
        config.lowercase,
    )


def encode_columns(config, tokenizer, corpus):
    """Ids of a `LabelledText`, of each text at most `max_length`: a dict of `"text"` and, of pairs, `"second_text"`."""
    sides = {"text": corpus.texts, "second_text": corpus.second_texts}
    return {name: [ids[: config.max_length] for ids in tokenizer.encode(side)] for name, side in sides.items() if side}


def embedding_width(config):
    """Width of the embeddings.

    Raises:
        FileNotFoundError: if the file of word vectors is missing.
        ValueError: if its vectors have another width than the settings name.
    """
    if not config.embeddings:
        return config.width
    width, given = word_vector_width(config.embeddings), config.model_arguments.get("embedding_dim")
    if given not in (None, width):
        raise ValueError(f"The vectors in {config.embeddings} have {width} numbers. Received: embedding_dim={given}")
    return width


def load_embeddings(config, tokenizer, embedding, texts):
    """Gives an embedding the vectors of a file, and says how many of the words have one.

    Args:
        config: `ClassifyConfig` with `embeddings`, the file.
        tokenizer: `WordTokenizer`.
        embedding: `keras.layers.Embedding`. Words without a vector keep what they have.
        texts: list of integer arrays, the training set.
    """
    vectors = read_word_vectors(config.embeddings, set(tokenizer.vocabulary))
    ids = assign_word_vectors(embedding, tokenizer, vectors)
    counts = np.bincount(np.concatenate(texts), minlength=tokenizer.vocabulary_size)
    print(
        f"Word vectors: of {len(vectors):,} of {len(tokenizer.vocabulary):,} words, "
        f"{counts[ids].sum() / counts.sum():.1%} of the training text"
    )
