"""SavedModels for TensorFlow Serving, or for any program that has TensorFlow."""

from keras_headattn.serving.export import export_ids, export_text
from keras_headattn.serving.export_images import export_image_files, export_image_tensors
from keras_headattn.serving.export_texts import export_texts

__all__ = ["export_ids", "export_image_files", "export_image_tensors", "export_text", "export_texts"]
