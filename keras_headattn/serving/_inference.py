"""Fewer and faster operations of exports."""

import contextlib

import keras
import tensorflow as tf

from keras_headattn._private import flatten_layers, in_sequence
from keras_headattn.layers import Attention


def in_one_thread(function):
    """Returns a `tf.function` whose operations run one after the other, for servers without GPU."""
    # Inlined, it would run in several threads.
    traced = tf.function(function, autograph=False, experimental_attributes={"_noinline": True})

    def call(*args, **kwargs):
        with in_sequence():
            graph = traced.get_concrete_function(*args, **kwargs).graph.as_graph_def()
            nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
            if {"If", "StatelessIf"} & {node.op for node in nodes}:  # would wait forever in a session of one thread
                raise ValueError(
                    "`cpu_only` must be False for models with conditions (`tf.cond`). Received: cpu_only=True"
                )
            return traced(*args, **kwargs)

    return call


@contextlib.contextmanager
def projected_together(model):
    """Lets self-attention make queries, keys and values by one product, with kernels that are stored for it."""
    layers = [layer for layer in flatten_layers(model) if isinstance(layer, Attention) and layer.built]
    layers = [layer for layer in layers if layer.role != "cross"]
    try:
        for layer in layers:
            layer.call = _with_kernels(layer)
        yield
    finally:
        for layer in layers:
            vars(layer).pop("call", None)  # restores the class's method


def _with_kernels(layer):
    kernels = keras.tree.map_structure(tf.Variable, layer.decoding_kernels())

    def call(query, value=None, key=None, *args, **kwargs):
        if query is value and (key is None or key is value) and kwargs.get("kernels") is None:
            kwargs["kernels"] = keras.tree.map_structure(tf.convert_to_tensor, kernels)
        return type(layer).call(layer, query, value, key, *args, **kwargs)

    return call
