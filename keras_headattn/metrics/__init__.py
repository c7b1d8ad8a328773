"""Measures of translations and classifications. No optional package is imported before it is used."""

from keras_headattn.metrics.bleu import bleu, tokenized_bleu
from keras_headattn.metrics.chrf import chrf
from keras_headattn.metrics.cider import cider
from keras_headattn.metrics.evaluate_translations import evaluate_translations
from keras_headattn.metrics.matthews_correlation_coefficient import MatthewsCorrelationCoefficient
from keras_headattn.metrics.meteor import meteor
from keras_headattn.metrics.rouge_l import rouge_l
from keras_headattn.metrics.score import Score
from keras_headattn.metrics.sentences import words
from keras_headattn.metrics.wer import wer
from keras_headattn.metrics.write_translations import write_translations
from keras_headattn.metrics.yisi_1 import yisi_1

__all__ = [
    "MatthewsCorrelationCoefficient",
    "Score",
    "bleu",
    "chrf",
    "cider",
    "evaluate_translations",
    "meteor",
    "rouge_l",
    "tokenized_bleu",
    "wer",
    "words",
    "write_translations",
    "yisi_1",
]
