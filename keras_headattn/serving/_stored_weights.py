"""Decoding weights stored in a SavedModel as float32, bfloat16 or int8."""

import functools
import math

import keras
import tensorflow as tf

STORED = ("float32", "bfloat16", "int8")
LEAST = 4096  # smallest size of a matrix that is stored in fewer bytes


class StoredWeights:
    """Decoding kernels and model weights as variables of a SavedModel.

    Matrices of at least 4,096 float32 numbers are stored as `stored`, the rest unchanged, and become float32 again once
    in each call. `"int8"` has a float32 factor for each output of a kernel and each token of an embedding: its largest
    absolute value / 127. The search of a shortlist takes its logits from the model's weights.
    """

    def __init__(self, searcher, stored="float32", shortlist=False):
        if stored not in STORED:
            raise ValueError(f"`weights` must be one of {', '.join(STORED)}. Received: weights={stored!r}")
        made = searcher.decoding_kernels()
        if shortlist and made is not None:
            made = {name: kernels for name, kernels in made.items() if name != "output"}
        self._kernels = None if made is None else keras.tree.map_structure(lambda kernel: _keep(kernel, stored), made)
        self._weights = []
        self._weights += [(weight, _keep_weight(weight, stored)) for weight in self._read_by(searcher)]

    def read(self):
        """Returns the kernels (or `None`) and the weights as `Searcher.search` takes them."""
        kernels = None if self._kernels is None else keras.tree.map_structure(lambda value: value(), self._kernels)
        return kernels, [(weight, value()) for weight, value in self._weights]

    def _read_by(self, searcher):
        """Returns the weights that a search reads; the kernels replace some of the model's."""
        model, kwargs = searcher.model, {} if self._kernels is None else {"kernels": self.read()[0]}

        @functools.partial(tf.function, autograph=False)
        def step(ids):
            cache = model.init_cache(ids, 1, **kwargs)
            return model.decode_step(ids[:, :1], cache, 0, tf.zeros((1,), tf.int32), None, **kwargs)[0]

        read = step.get_concrete_function(tf.TensorSpec((None, None), tf.int32)).graph.variables
        read = {id(variable) for variable in read}
        # Under `MirroredStrategy` a weight has a variable for each replica.
        return [
            weight
            for weight in searcher.variables
            if any(id(variable) in read for variable in getattr(weight.value, "values", (weight.value,)))
        ]


def _is_large(tensor):
    return len(tensor.shape) > 1 and math.prod(tensor.shape) >= LEAST


def _keep_weight(weight, stored):
    """Like `_keep`, but weights that need no conversion stay the model's variables."""
    if stored == "float32" or not _is_large(weight):
        return lambda: keras.ops.copy(weight)
    # The first axis of an embedding is tokens, that of a kernel inputs.
    return _keep(weight, stored, -1 if weight.name == "embeddings" else 0)


def _keep(tensor, stored, axis=0):
    """Stores a tensor in new variables, and returns a function that reads it as float32."""
    tensor = tf.convert_to_tensor(tensor)
    if stored == "float32" or tensor.dtype != tf.float32 or not _is_large(tensor):
        return tf.Variable(tensor).read_value  # once, not in each step
    if stored == "bfloat16":
        kept = tf.Variable(tf.cast(tensor, tf.bfloat16))
        return lambda: tf.cast(kept, tf.float32)
    factors = tf.maximum(tf.reduce_max(tf.abs(tensor), axis, keepdims=True) / 127.0, 1e-30)
    kept, factors = tf.Variable(tf.cast(tf.round(tensor / factors), tf.int8)), tf.Variable(factors)
    return lambda: tf.cast(kept, tf.float32) * factors
