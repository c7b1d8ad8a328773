"""Trains models on one and on two devices of JAX: python -m tests.backends.distribution_worker OUTPUTS.npz"""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"  # before JAX is imported

import keras
import numpy as np

from keras_headattn import models

IDS = np.random.default_rng(0).integers(1, 20, (4, 6)).astype("int32")
LABELS = np.array([0, 1, 1, 0])
ATTENTIONS = "multi_head", "talking_heads", "evolving"


def distributions():
    """Name to a distribution."""
    yield "one", None
    yield "data", keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"])
    mesh = keras.distribution.DeviceMesh((1, 2), ("batch", "model"), ["cpu:0", "cpu:1"])
    yield "model", keras.distribution.ModelParallel(layout_map=models.layout_map(mesh), batch_dim_name="batch")


def train(attention, weights):
    """A trained model, its losses, and its weights before."""
    sizes = dict(hidden_dim=8, intermediate_dim=16, num_layers=2, num_heads=2, max_length=8)
    bert = models.Bert(20, **sizes, attention=attention, dropout=0.0, attention_dropout=0.0, initializer_range=0.3)
    model = models.EncoderClassifier(bert, 2, dropout=0.0)
    model.build()
    if weights is not None:
        model.set_weights(weights)
    weights = model.get_weights()
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model, model.fit(IDS, LABELS, batch_size=4, epochs=3, shuffle=False, verbose=0).history["loss"], weights


def everything():
    found = {}
    for attention in ATTENTIONS:
        weights = None
        for name, distribution in distributions():
            keras.distribution.set_distribution(distribution)
            model, losses, weights = train(attention, weights)
            found[f"{attention}/{name}"] = losses
            for path in ("query", "attention_output", "outer"):
                variable = next(v for v in model.variables if v.path.endswith(f"{path}/kernel"))
                found[f"{attention}/{name}/{path}"] = variable.value.addressable_shards[0].data.shape
    return found


if __name__ == "__main__":
    np.savez(sys.argv[1], backend=keras.backend.backend(), **everything())
