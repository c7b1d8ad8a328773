"""Trained models that take text or images: in Python, or as SavedModels, wherever TensorFlow runs."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_classifier": ["Classifier"],
        "_classifiers": ["export_classifier", "export_image_classifier", "export_pixel_classifier"],
        "_image_classifier": ["ImageClassifier"],
        "_likeliest": ["Classification"],
        "_translator": ["Translation", "Translator"],
        "_translators": ["export_id_translator", "export_translator"],
    },
)
