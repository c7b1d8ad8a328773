"""SavedModels for TensorFlow Serving, or for any program that has TensorFlow."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_classifiers": ["export_classifier", "export_image_classifier", "export_pixel_classifier"],
        "_translators": ["export_id_translator", "export_translator"],
    },
)
