"""SavedModels for TensorFlow Serving, or for any program that has TensorFlow."""

from keras_headattn.serving.export import export_ids, export_text

__all__ = ["export_ids", "export_text"]
