"""Types of arguments in public signatures."""

from collections.abc import Callable
from typing import Any

import keras

Tensor = Any  # a tensor of Keras's backend, a symbolic one, or an array
Shape = tuple[int | None, ...]
# What Keras's `get` functions take: a name, a configuration, or an object.
Activation = str | Callable[[Tensor], Tensor]
Initializer = str | dict[str, Any] | keras.initializers.Initializer
Regularizer = str | dict[str, Any] | keras.regularizers.Regularizer
Constraint = str | dict[str, Any] | keras.constraints.Constraint
# What `layers.get` takes: a name, a layer, a class or function that makes one, or a configuration.
AttentionLike = str | dict[str, Any] | Callable[..., keras.layers.Layer] | keras.layers.Layer
