"""Metrics of translations and classifications; optional packages are imported on first use."""

from keras_headattn.metrics._bleu import bleu, tokenized_bleu
from keras_headattn.metrics._chrf import chrf
from keras_headattn.metrics._cider import cider
from keras_headattn.metrics._comet import COMET_MODEL, comet, comet_checkpoint
from keras_headattn.metrics._matthews_correlation_coefficient import MatthewsCorrelationCoefficient
from keras_headattn.metrics._meteor import meteor
from keras_headattn.metrics._rouge import rouge_l, rouge_n
from keras_headattn.metrics._score import Score
from keras_headattn.metrics._sentences import words
from keras_headattn.metrics._ter import ter
from keras_headattn.metrics._wer import wer
from keras_headattn.metrics._word_vectors import read_word_vectors
from keras_headattn.metrics._yisi_1 import yisi_1

__all__ = [
    "COMET_MODEL",
    "MatthewsCorrelationCoefficient",
    "Score",
    "bleu",
    "chrf",
    "cider",
    "comet",
    "comet_checkpoint",
    "meteor",
    "read_word_vectors",
    "rouge_l",
    "rouge_n",
    "ter",
    "tokenized_bleu",
    "wer",
    "words",
    "yisi_1",
]
