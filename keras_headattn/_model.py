import keras


class Model(keras.Model):
    """Base of all models that are classes of their own: Keras writes such a model as HDF5, but cannot read it again."""

    def save(self, filepath, *args, **kwargs):
        """Saves the model as a `.keras` file, as `keras.Model.save` does.

        Args:
            filepath: path that ends in `.keras`.
            *args, **kwargs: as of `keras.Model.save`.

        Raises:
            ValueError: for a path that ends in `.h5` or `.hdf5`.
        """
        if str(filepath).endswith((".h5", ".hdf5")):
            raise ValueError(
                "`filepath` must end in .keras, as Keras loads no HDF5 file of a subclassed model; `save_weights` "
                f"writes weights alone to .weights.h5. Received: filepath={filepath!r}"
            )
        super().save(filepath, *args, **kwargs)
