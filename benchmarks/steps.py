"""A Transformer and its training step, for benchmarks of attention and optimizers."""

import functools

import numpy as np

from benchmarks import timing

SENTENCES, LENGTH, VOCABULARY = 32, 32, 1000
SIZES = {  # layers of each side, width, width of the feed-forward layers, heads
    "small": dict(num_layers=6, hidden_dim=512, intermediate_dim=1024, heads=4),
    "base": dict(num_layers=6, hidden_dim=512, intermediate_dim=2048, heads=8),
}


def translator(**arguments):
    """Returns a `training.Model` of a Transformer with these arguments, a batch of its inputs, and labels."""
    import keras

    from keras_headattn.models import Transformer
    from keras_headattn.training import Model

    inputs = {side: keras.Input((LENGTH,), dtype="int32", name=side) for side in ("source", "target")}
    model = Model(inputs, Transformer(VOCABULARY, **arguments)(inputs))
    source, target, labels = np.random.default_rng(0).integers(4, VOCABULARY, (3, SENTENCES, LENGTH), "int32")
    return model, {"source": source, "target": target}, labels


def training_step(optimizer, **arguments):
    """Returns a function that makes one step of a new `translator`, compiled by XLA, and returns its seconds."""
    import keras

    model, x, labels = translator(**arguments)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=True)
    return timing.timed(functools.partial(model.train_on_batch, x, labels))
