"""One training step of a Transformer, for benchmarks of what its attention or its optimizer costs."""

import functools

import numpy as np

from benchmarks import timing

SENTENCES, LENGTH, VOCABULARY = 32, 32, 1000
SIZES = {  # layers of each side, width, width of the feed-forward layers, heads
    "small": dict(num_layers=6, hidden_dim=512, intermediate_dim=1024, heads=4),
    "base": dict(num_layers=6, hidden_dim=512, intermediate_dim=2048, heads=8),
}


def training_step(attention, optimizer, num_layers, hidden_dim, intermediate_dim, jit_compile=True):
    """Function that makes one step of a new model and returns its seconds.

    Args:
        attention: template.
        optimizer: Keras optimizer.
        num_layers, hidden_dim, intermediate_dim: of the Transformer.
        jit_compile: whether XLA compiles the step.
    """
    import keras

    from keras_headattn.models import Transformer
    from keras_headattn.training import Model

    sizes = dict(num_layers=num_layers, hidden_dim=hidden_dim, intermediate_dim=intermediate_dim)
    transformer = Transformer(VOCABULARY, **sizes, attention=attention)
    inputs = {side: keras.Input((LENGTH,), dtype="int32", name=side) for side in ("source", "target")}
    model = Model(inputs, transformer(inputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, jit_compile=jit_compile)
    source, target, labels = np.random.default_rng(0).integers(4, VOCABULARY, (3, SENTENCES, LENGTH), "int32")
    return timing.timed(functools.partial(model.train_on_batch, {"source": source, "target": target}, labels))
