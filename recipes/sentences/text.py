"""From texts to ids, and the vectors that their words begin with."""

import numpy as np

from keras_headattn._files import write_atomically
from keras_headattn.metrics import read_word_vectors, word_vector_width
from keras_headattn.text import SentencePieceTokenizer, WordTokenizer, learn_words, train_sentencepiece

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
    path = folder / FILES[config.tokens]
    if not path.exists():
        if train is None:
            raise ValueError(f"The run in {folder} is not complete: it has no {path.name}.")
        _learn(config, [*train.texts, *(train.second_texts or ())], path)
    tokenizer = WordTokenizer if config.tokens == "words" else SentencePieceTokenizer
    return tokenizer(path, lowercase=config.lowercase)


def _learn(config, texts, path):
    if config.tokens == "words":
        words = learn_words(texts, config.vocabulary_size, config.min_count, config.lowercase)
        write_atomically(path, "".join(f"{word}\n" for word in words).encode("utf-8"))
    else:
        texts = map(str.lower, texts) if config.lowercase else texts
        train_sentencepiece(texts, path, config.vocabulary_size, "unigram")


def encode(config, tokenizer, texts):
    """Ids of texts, of each at most `max_length`: list of int32 arrays; `None` for `None`."""
    return None if texts is None else [ids[: config.max_length] for ids in tokenizer.encode(texts)]


def encode_columns(config, tokenizer, texts, second_texts=None):
    """Ids of texts, or of pairs, as the columns of batches: a dict of `"text"` and, of pairs, `"second_text"`."""
    sides = {"text": texts, "second_text": second_texts}
    return {name: encode(config, tokenizer, side) for name, side in sides.items() if side is not None}


def embedding_width(config):
    """Width of the embeddings.

    Raises:
        FileNotFoundError: if the file of word vectors is missing.
        ValueError: if its vectors have another width than the settings name.
    """
    if not config.embeddings:
        return config.embedding_dim or 300
    width = word_vector_width(config.embeddings)
    if config.embedding_dim not in (None, width):
        raise ValueError(
            f"The vectors in {config.embeddings} have {width} numbers. Received: embedding_dim={config.embedding_dim}"
        )
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
    values = np.array(embedding.embeddings)
    places = [2 + place for place, word in enumerate(tokenizer.vocabulary) if word in vectors]
    values[places] = [vectors[tokenizer.id_to_token(place)] for place in places]
    embedding.embeddings.assign(values)
    counts = np.bincount(np.concatenate(texts), minlength=len(values))
    print(
        f"Word vectors: of {len(vectors):,} of {len(tokenizer.vocabulary):,} words, "
        f"{counts[places].sum() / counts.sum():.1%} of the training text"
    )
