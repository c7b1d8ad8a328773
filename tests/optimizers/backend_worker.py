"""Training with repulsive attention on the backend of this process."""

import keras
import numpy as np

from keras_headattn.layers import MultiHeadAttention
from keras_headattn.optimizers import Repulsive


def model(optimizer):
    rng = np.random.default_rng(0)
    inputs = keras.Input((5, 8))
    made = keras.Model(inputs, MultiHeadAttention(num_heads=2, key_dim=4)(inputs, inputs))
    made.set_weights([0.3 * rng.normal(size=weight.shape) for weight in made.get_weights()])
    on_jax = keras.backend.backend() == "jax"
    made.compile(optimizer, "mse", jit_compile=on_jax, run_eagerly=not on_jax)
    data = rng.normal(size=(2, 6, 5, 8)).astype("float32")
    made.fit(*data, batch_size=2, epochs=2, shuffle=False, verbose=0)
    return made


def everything(folder):
    """Name to array. Noise is drawn by another generator on each backend: of it there is only its size."""
    repel = dict(repulsive_weight=0.5, verbose=False)
    inner = keras.optimizers.SGD(0.5, gradient_accumulation_steps=3, global_clipnorm=0.1)
    out = {f"svgd/{i}": weight for i, weight in enumerate(model(Repulsive(inner, **repel)).get_weights())}
    scaled = keras.optimizers.LossScaleOptimizer(Repulsive(keras.optimizers.SGD(0.5), **repel))
    out |= {f"scaled/{i}": weight for i, weight in enumerate(model(scaled).get_weights())}
    quiet, noisy = (
        model(Repulsive(keras.optimizers.SGD(0.5), method="sgld", inverse_temperature=b, seed=1, verbose=False))
        for b in (1e30, 1e6)
    )
    heads = [one - other for one, other in zip(quiet.get_weights(), noisy.get_weights(), strict=True) if one.ndim == 3]
    return out | {"noise": np.array(np.std(np.concatenate([head.ravel() for head in heads[:3]])))}
