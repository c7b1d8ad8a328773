"""Small Transformers with random weights, and tokenizers for them."""

import keras

from keras_headattn.models import Transformer
from keras_headattn.text import LanguagePair
from tests.layers.harness import randomize

ENGLISH = ["the cat sat on the mat", "a dog ran to the house", "two cats and a dog", "the house is on the hill"]
GERMAN = ["die Katze sass auf der Matte", "ein Hund rannte zum Haus", "zwei Katzen und ein Hund", "das Haus am Berg"]


def pair_of(folder, shared=True, **options):
    """A `LanguagePair`, by default of one vocabulary; of two they have different sizes."""
    sizes = dict(vocabulary_size=40) if shared else dict(vocabulary_size=34, target_vocabulary_size=36)
    return LanguagePair.learn(folder, (ENGLISH, GERMAN), shared_vocabulary=shared, **sizes, **options)


def transformer(pair, seed=1, **arguments):
    """A built `Transformer` for a `LanguagePair`, as new without a seed."""
    separate = pair.source is not pair.target
    sizes = pair.source.vocabulary_size, pair.target.vocabulary_size if separate else None
    keras.utils.set_random_seed(seed or 0)
    options = dict(num_layers=2, hidden_dim=32, intermediate_dim=48, num_heads=4) | arguments
    model = Transformer(*sizes, **options)
    model.build()
    return model if seed is None else randomize(model, seed)
