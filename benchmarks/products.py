"""The matrix products of an encoder of all-MiniLM-L6's size alone: the limit of how fast a library can serve it."""

import functools

import numpy as np

from benchmarks import minilm, timing
from benchmarks.exports import Session

# Matrices of a block: of queries, keys and values, of the output, and of the feed-forward layer.
MATRICES = minilm.LAYERS * (
    (minilm.WIDTH, 3 * minilm.WIDTH),
    (minilm.WIDTH, minilm.WIDTH),
    (minilm.WIDTH, minilm.FEED_FORWARD),
    (minilm.FEED_FORWARD, minilm.WIDTH),
)


def multiply(x, matrices):
    """Multiplies rows `(n, width)` with the matrices in turn; each takes as many columns as it has rows."""
    for matrix in matrices:
        x = x[:, : matrix.shape[0]] @ matrix
    return x


def products(function, library, requests):
    """Returns functions that multiply as many rows as each request has tokens, padding included."""
    rows = {request: np.ones((request[0] * request[1], minilm.WIDTH), "float32") for request in requests}
    return {(request, f"products alone, {library}"): functools.partial(function, x) for request, x in rows.items()}


def random_matrices():
    rng = np.random.default_rng(0)
    return [rng.normal(0, 0.05, shape).astype("float32") for shape in MATRICES]


def tensorflow_products(folder, requests):
    """Returns the products alone, in a server's session."""
    import tensorflow as tf

    module = tf.Module()
    module.matrices = [tf.Variable(matrix) for matrix in random_matrices()]
    signature = [tf.TensorSpec((None, minilm.WIDTH), name="x")]
    function = tf.function(lambda x: {"x": multiply(x, module.matrices)}, signature)
    tf.saved_model.save(module, f"{folder}/products", function)
    session = Session(f"{folder}/products")
    return products(lambda x: session.call("serving_default", {"x": x}), "in TensorFlow", requests)


def onnx_products(folder, requests):
    """Returns the products alone, by ONNX Runtime."""
    import onnxruntime
    import torch

    class Products(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.matrices = torch.nn.ParameterList([torch.from_numpy(matrix) for matrix in random_matrices()])

        def forward(self, x):
            return multiply(x, self.matrices)

    path, options = f"{folder}/products.onnx", onnxruntime.SessionOptions()
    axes = {"x": {0: "rows"}}
    torch.onnx.export(Products(), torch.ones(2, minilm.WIDTH), path, input_names=["x"], dynamic_axes=axes, dynamo=False)
    options.intra_op_num_threads = timing.cores()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return products(lambda x: session.run(None, {"x": x}), "in ONNX Runtime", requests)
