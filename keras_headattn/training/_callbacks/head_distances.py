"""Distances between heads in the logs."""

from typing import Any

import keras
import numpy as np

from keras_headattn.optimizers._heads import select_heads


class HeadDistances(keras.callbacks.Callback):
    """Callback that logs `head_distance`, the mean Euclidean distance between the weights of a layer's heads.

    It is averaged over query, key and value kernels with several heads. `optimizers.Repulsive` increases it.

    Args:
        **selection: arguments of `Repulsive` that select heads, such as `select=".*block_0/"`. Default: all.

    Raises:
        ValueError: in `fit`, if the model has no such heads.

    >>> inputs = keras.Input((None, 8))
    >>> model = keras.Model(inputs, keras.layers.MultiHeadAttention(2, 4)(inputs, inputs))
    >>> model.compile("sgd", "mse")
    >>> x = np.ones((4, 3, 8))
    >>> history = model.fit(x, x, verbose=0, callbacks=[HeadDistances()])
    >>> history.history["head_distance"][0] > 0
    True
    """

    def __init__(self, **selection: Any):
        super().__init__()
        self._selection = selection

    def applies_to(self, model: keras.Model) -> bool:
        """Returns True if a model has such heads.

        Args:
            model: `keras.Model`.
        """
        try:
            return bool(self._kernels(model))
        except ValueError:
            return False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._kernels(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        logs["head_distance"] = float(np.mean([_mean_distance(kernel) for kernel in self._kernels(self.model)]))

    def _kernels(self, model):
        kernels = select_heads(model.trainable_variables, **self._selection)
        kernels = [kernel for kernel in kernels if kernel.variable.shape[kernel.axis] > 1]
        if not kernels:
            raise ValueError(f"The model must have layers with several heads. Received: selection={self._selection}")
        return kernels


def _mean_distance(kernel):
    heads = np.moveaxis(keras.ops.convert_to_numpy(kernel.variable).astype("float32"), kernel.axis, 0)
    heads = heads.reshape(len(heads), -1)
    first, second = np.triu_indices(len(heads), 1)
    return np.linalg.norm(heads[first] - heads[second], axis=1).mean()
