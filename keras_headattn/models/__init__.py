"""Models made of this library's layers. Importing this makes every class known to `keras.saving.load_model`."""

from keras_headattn import layers, losses, optimizers  # noqa: F401  (registered by being imported)
from keras_headattn.models.transformer import Transformer

__all__ = ["Transformer"]
