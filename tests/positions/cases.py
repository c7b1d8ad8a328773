"""One of each class, with the heads of the tests."""

import keras
import numpy as np

from keras_headattn.positions import (
    ALiBiPositions,
    BucketPositions,
    Llama3Positions,
    NtkPositions,
    Positions,
    RelativePositions,
    RelativePositions2D,
    RotaryPositions,
    YarnPositions,
)

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 6, 6, 12
ROTARY = {
    "rotary": lambda **a: RotaryPositions(**a),
    "interleaved": lambda **a: RotaryPositions(interleaved=True, **a),
    "partial": lambda **a: RotaryPositions(rotated_share=0.5, max_wavelength=100, scaling_factor=2.5, **a),
    "partial_interleaved": lambda **a: RotaryPositions(rotated_share=0.7, interleaved=True, **a),
    "ntk": lambda **a: NtkPositions(4, **a),
    "yarn": lambda **a: YarnPositions(4.0, 64, **a),
    "yarn_all": lambda **a: YarnPositions(
        8, 64, 16, 2, False, 0.7, 1.2, max_wavelength=500.0, rotated_share=0.7, interleaved=True, **a
    ),
    "llama3": lambda **a: Llama3Positions(8, 64, 1.5, 5, interleaved=True, **a),
}
BIASES = {
    "alibi": lambda **a: ALiBiPositions(**a),
    "buckets": lambda **a: BucketPositions(8, 20, **a),
    "buckets_one_way": lambda **a: BucketPositions(7, 20, bidirectional=False, **a),
    "relative": lambda **a: RelativePositions(3, embeddings_initializer="he_normal", **a),
    "relative_2d": lambda **a: RelativePositions2D(2, 3, **a),
}
ALL = {**ROTARY, **BIASES, "none": lambda **a: Positions(**a)}


def heads(seed=0, rows=QUERIES, dtype="float64", width=WIDTH):
    return np.random.default_rng(seed).normal(size=(BATCH, HEADS, rows, width)).astype(dtype)


def built(name, dtype="float32", width=WIDTH):
    """Weights are the same on every backend."""
    positions = ALL[name](dtype=dtype)
    positions.build((None, HEADS, None, width))
    positions.set_weights([np.random.default_rng(1).normal(size=w.shape) for w in positions.weights])
    return positions


def array(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32") if is_half(tensor) else tensor)


def is_half(tensor):
    return keras.backend.standardize_dtype(tensor.dtype) == "bfloat16"


def alibi(num_heads):
    positions = ALiBiPositions()
    positions.build((None, num_heads, None, WIDTH))
    return positions
