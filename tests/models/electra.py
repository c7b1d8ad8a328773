"""Small models of ELECTRA, texts for them, and the golden vectors' weights by their names here."""

import contextlib
import unittest.mock

import keras
import numpy as np

from keras_headattn.interop._copying import Names, copy_weights
from keras_headattn.interop._tables import BERT, HEADS, of_generator, of_tensorflow
from keras_headattn.models import ElectraPretraining
from keras_headattn.models._bert import masking

MASK, SPECIAL = 4, (2, 3)
VOCABULARY, LENGTH = 23, 20
SIZES = dict(
    vocabulary_size=VOCABULARY,
    num_layers=2,
    hidden_dim=12,
    intermediate_dim=10,
    num_heads=3,
    embedding_dim=8,
    max_length=LENGTH,
)
CALM = dict(dropout=0.0, attention_dropout=0.0)


def make(cls=ElectraPretraining, **arguments):
    """A small model, whose generator is half as wide as its discriminator."""
    arguments = {**SIZES, "generator_share": 0.5, **arguments}
    return cls.from_size("electra_small", MASK, SPECIAL, **arguments)


def texts(rows=6, seed=0):
    """[CLS], tokens, [SEP], tokens, [SEP], padding; of different lengths."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, VOCABULARY, (rows, LENGTH)).astype("int32")
    lengths = rng.integers(6, LENGTH + 1, rows)
    ids[:, 0], ids[:, 4], ids[np.arange(rows), lengths - 1] = 2, 3, 3
    ids[np.arange(LENGTH) >= lengths[:, None]] = 0
    segments = (np.arange(LENGTH) > 4) & (ids > 0)
    return {"token_ids": ids, "segment_ids": segments.astype("int32")}


def given_masks(model, rows=6):
    """Texts with masks."""
    return {name: keras.ops.convert_to_numpy(x) for name, x in model.draw_masks(texts(rows), training=False).items()}


@contextlib.contextmanager
def given_numbers(*numbers):
    """In place of uniform random numbers; the last again and again. A single number fills any shape."""
    left = list(numbers)

    def uniform(shape, dtype=None, seed=None):
        number = left.pop(0) if len(left) > 1 else left[0]
        return keras.ops.full(shape, number) if np.isscalar(number) else keras.ops.convert_to_tensor(number)

    with unittest.mock.patch.object(masking.random, "uniform", uniform):
        yield


def of_google(data, replacement=False):
    """The model of the golden vectors, with their weights."""
    model = ElectraPretraining.from_size(
        "electra_small",
        MASK,
        SPECIAL,
        generator_share=0.5,
        vocabulary_size=47,
        hidden_dim=24,
        embedding_dim=10,
        num_layers=2,
        num_heads=3,
        intermediate_dim=40,
        max_length=34,
        replacement=replacement,
    )
    model.build()
    tensors = of_tensorflow({name[2:]: data[name] for name in data.files if name.startswith("w.")})
    own = {name.removeprefix("electra."): x for name, x in tensors.items()}
    for head, found in ((model.generator, of_generator(tensors)), (model.discriminator, own)):
        copy_weights(head, found, names_of(head))
    return model


def names_of(head):
    """Hugging Face's names of a head, by ours."""
    return Names(BERT.table | HEADS["electra", type(head).__name__], unused=BERT.unused)
