"""Translator and classifier of the benchmarks' size, with random weights and made-up words."""

import functools
import pathlib

import keras
import numpy as np

from benchmarks.sizes import DROPOUT, FEED_FORWARD, HEADS, LAYERS, VOCABULARY, WIDTH
from keras_headattn.decoding import Searcher
from keras_headattn.layers import SelfAttentivePooling
from keras_headattn.models import SentenceClassifier, Transformer, TransformerEncoder
from keras_headattn.serving import export_classifier, export_id_translator, export_translator
from keras_headattn.text import SentencePieceTokenizer, train_sentencepiece

SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
TARGET = 32  # tokens of a translation


class EndlessTokenizer(SentencePieceTokenizer):
    """Target tokenizer in which no token ends a translation, so that each has `TARGET` tokens."""

    eos_id = VOCABULARY


def make_pieces(folder):
    """Returns the path in `folder` of a SentencePiece model with `VOCABULARY` pieces."""
    path = pathlib.Path(folder, "pieces.model")
    if not path.exists():
        rng = np.random.default_rng(0)
        words = np.array(["".join(rng.choice(SYLLABLES, size)) for size in rng.integers(1, 5, 2 * VOCABULARY)])
        order = np.minimum(rng.zipf(1.1, 400_000), len(words)) - 1
        train_sentencepiece((" ".join(words[row]) for row in order.reshape(-1, 20)), path, VOCABULARY)
    return path


def make_texts(pieces, lengths):
    """Returns a text for each length, in ids with the end symbol, of words that are one piece each."""
    tokenizer = SentencePieceTokenizer(pieces)
    rng = np.random.default_rng(1)
    names = [tokenizer.id_to_token(token_id) for token_id in range(10, VOCABULARY // 2)]
    words = [name[1:] for name in names if name.startswith("\u2581") and len(name) > 1]
    texts = [" ".join(rng.choice(words, length - 1)) for length in lengths]
    assert [len(ids) for ids in tokenizer.encode(texts)] == list(lengths)
    return texts


def make_searcher(beam_size):
    """Returns the search of a model of random weights, in which no token ends a translation."""
    keras.utils.set_random_seed(0)
    model = Transformer(
        VOCABULARY,
        num_layers=LAYERS,
        hidden_dim=WIDTH,
        intermediate_dim=FEED_FORWARD,
        num_heads=HEADS,
        dropout=DROPOUT,
    )
    model.build()
    searcher = Searcher(model, beam_size=beam_size, max_length=TARGET, start_id=2)
    searcher.end_id = EndlessTokenizer.eos_id
    return searcher


def export_texts(pieces, folder, beam_size=4, **kwargs):
    """Writes the translator of texts, with the arguments of `export_translator`."""
    tokenizers = SentencePieceTokenizer(pieces), EndlessTokenizer(pieces)
    return export_translator(make_searcher(beam_size), *tokenizers, folder, max_source_length=64, **kwargs)


def export_classes(pieces, folder):
    """Writes a classifier of texts: an encoder of that size under attentive pooling."""
    tokenizer = SentencePieceTokenizer(pieces)
    encoder = TransformerEncoder(
        VOCABULARY, WIDTH, FEED_FORWARD, num_layers=LAYERS, attention="multi_head", num_heads=HEADS
    )
    model = SentenceClassifier(encoder, 2, SelfAttentivePooling(HEADS, WIDTH), mlp_dim=WIDTH)
    return export_classifier(model, tokenizer, ["no", "yes"], folder, max_length=128)


def export_all(folder, first_only=False):
    """Writes exports of each kind and returns a dictionary from description to path of a version.

    Args:
        folder: folder of a SentencePiece model and of the exports.
        first_only: True to write the first alone.
    """
    pieces = make_pieces(folder)
    writers = {
        "text, all signatures": functools.partial(export_texts, pieces, attention=True, xla_signature=True),
        "text": functools.partial(export_texts, pieces),
        "ids": functools.partial(export_id_translator, make_searcher(4)),
        "ids, bfloat16": functools.partial(export_id_translator, make_searcher(4), weights="bfloat16"),
        "ids, int8": functools.partial(export_id_translator, make_searcher(4), weights="int8"),
        "texts to classify": functools.partial(export_classes, pieces),
    }
    written = list(writers.items())[: 1 if first_only else None]
    return {name: str(write(f"{folder}/{index}")) for index, (name, write) in enumerate(written)}
