"""Small kernels of attention heads."""

import keras
import numpy as np


def kernel_variable(kernel, layer="attention/query"):
    """A kernel `(D, h, d)` by the path of an attention layer's."""
    outer, _, inner = layer.rpartition("/")
    with keras.name_scope(outer), keras.name_scope(inner):
        return keras.Variable(kernel, name="kernel")


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")
