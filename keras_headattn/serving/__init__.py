"""Trained models that take text or images: in Python, or as SavedModels, wherever TensorFlow runs."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_classifier": ["Classifier"],
        "_classifier_exports": [
            "export_classifier",
            "export_image_classifier",
            "export_pixel_classifier",
            "export_regressor",
        ],
        "_image_classifier": ["ImageClassifier"],
        "_likeliest": ["Classification"],
        "_server": ["Server"],
        "_translator": ["Translation", "Translator"],
        "_translator_exports": ["export_id_translator", "export_translator"],
        "_versions": ["check_export_folder"],
        "_warmup": ["write_warmup"],
        "_word_scores": ["WordScores"],
    },
)
