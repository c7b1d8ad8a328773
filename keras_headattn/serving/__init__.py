"""SavedModels for TensorFlow Serving, or for any program that has TensorFlow."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_export": ["export_ids", "export_text"],
        "_export_images": ["export_image_files", "export_image_tensors"],
        "_export_texts": ["export_texts"],
    },
)
