"""Serves trained models of text and images, in Python and as SavedModels."""

from keras_headattn import _tensorflow  # noqa: F401
from keras_headattn.serving._classifier import Classifier, export_classifier, export_regressor
from keras_headattn.serving._image_classifier import ImageClassifier, export_image_classifier, export_pixel_classifier
from keras_headattn.serving._likeliest import Classification
from keras_headattn.serving._question_answerer import Answer, QuestionAnswerer, export_question_answerer
from keras_headattn.serving._tagger import Entity, Tagger, export_tagger
from keras_headattn.serving._text_generator import TextGenerator, export_generator
from keras_headattn.serving._translator import Translation, Translator
from keras_headattn.serving._translator_exports import export_id_translator, export_translator
from keras_headattn.serving._versions import check_export_folder, save_signatures, write_examples, write_version
from keras_headattn.serving._warmup import write_warmup
from keras_headattn.serving._word_scores import WordScores

__all__ = [
    "Answer",
    "Classification",
    "Classifier",
    "Entity",
    "ImageClassifier",
    "QuestionAnswerer",
    "Tagger",
    "TextGenerator",
    "Translation",
    "Translator",
    "WordScores",
    "check_export_folder",
    "export_classifier",
    "export_generator",
    "export_id_translator",
    "export_image_classifier",
    "export_pixel_classifier",
    "export_question_answerer",
    "export_regressor",
    "export_tagger",
    "export_translator",
    "save_signatures",
    "write_examples",
    "write_version",
    "write_warmup",
]
