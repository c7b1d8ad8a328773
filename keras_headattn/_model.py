"""Base of subclassed models."""

import inspect
from collections.abc import Mapping
from typing import Any, Self

import keras

from keras_headattn._files import Path
from keras_headattn._identifiers import deserialize_layers, serialize_layer
from keras_headattn._private import build_optimizer
from keras_headattn._remat_scope import rematerialize_layers, symbolic_call
from keras_headattn._saved_quantization import SavedQuantization


class Model(SavedQuantization, keras.Model):
    """Base of subclassed models; refuses HDF5 files, which Keras writes for them but cannot read."""

    compute_output_spec = keras.Operation.compute_output_spec  # by a symbolic call
    rematerialized_call = rematerialize_layers
    symbolic_call = symbolic_call
    # Dtype of inputs where shapes alone are known, or a dictionary of those that have another than "int32".
    inputs_dtype: str | dict[str, str] = "int32"
    # Constructor arguments that are layers, which a configuration holds as theirs.
    layer_arguments: tuple[str, ...] = ()

    def compute_output_shape(self, inputs_shape: Any) -> Any:
        """Computes the shapes of the outputs.

        Args:
            inputs_shape: tuple, or pair or dictionary of tuples, like the inputs.
        """

        def tensor(shape, name=None):
            dtype = self.inputs_dtype
            return keras.KerasTensor(shape, dtype.get(name, "int32") if isinstance(dtype, dict) else dtype)

        if isinstance(inputs_shape, dict):
            inputs = {name: tensor(shape, name) for name, shape in inputs_shape.items()}
        else:
            inputs = keras.tree.map_shape_structure(tensor, inputs_shape)
        outputs = self.compute_output_spec(inputs)
        return keras.tree.map_structure(lambda output: tuple(output.shape), outputs)

    def make_train_function(self, force: bool = False) -> Any:
        if keras.backend.backend() == "tensorflow":  # others build all before
            if not self.built and all(x.default is None for x in inspect.signature(self.build).parameters.values()):
                self.build()
            build_optimizer(self)
        return super().make_train_function(force)

    def save(self, filepath: Path, *args: Any, **kwargs: Any) -> None:
        """Saves the model as a `.keras` file, as `keras.Model.save` does.

        Args:
            filepath: path that ends in `.keras`.
            *args, **kwargs: see `keras.Model.save`.

        Raises:
            ValueError: for a path that ends in `.h5` or `.hdf5`.
        """
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                "`filepath` must end in .keras, as Keras loads no HDF5 file of a subclassed model; `save_weights` "
                f"writes weights alone to .weights.h5. Received: filepath={filepath!r}"
            )
        super().save(filepath, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **{name: serialize_layer(getattr(self, name)) for name in self.layer_arguments}}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        return super().from_config(deserialize_layers(config, cls.layer_arguments, custom_objects), custom_objects)
