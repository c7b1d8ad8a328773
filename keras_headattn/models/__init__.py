"""Models made of this library's layers."""

from keras_headattn.models._bert import BERT_SIZES, Bert
from keras_headattn.models._electra_pretraining import ElectraPretraining
from keras_headattn.models._encoder_heads import EncoderClassifier, MaskedLM, ReplacedTokenDetector
from keras_headattn.models._graph_writer import GraphWriter
from keras_headattn.models._masked_lm_pretraining import MaskedLMPretraining
from keras_headattn.models._rationale_classifier import RationaleClassifier, RationaleReader
from keras_headattn.models._resnet import ResNet
from keras_headattn.models._resnets import (
    ResNet34,
    ResNet50,
    ResNet101,
    ResNet152,
)
from keras_headattn.models._sentence_classifiers import SentenceClassifier, SentencePairClassifier
from keras_headattn.models._sentence_encoders import BiLSTMEncoder, TransformerEncoder
from keras_headattn.models._sizes import SIZES
from keras_headattn.models._t5 import T5, T5_SIZES
from keras_headattn.models._transformer import Transformer

__all__ = [
    "BERT_SIZES",
    "Bert",
    "BiLSTMEncoder",
    "ElectraPretraining",
    "EncoderClassifier",
    "GraphWriter",
    "MaskedLM",
    "MaskedLMPretraining",
    "RationaleClassifier",
    "RationaleReader",
    "ReplacedTokenDetector",
    "ResNet",
    "ResNet101",
    "ResNet152",
    "ResNet34",
    "ResNet50",
    "SIZES",
    "SentenceClassifier",
    "SentencePairClassifier",
    "T5",
    "T5_SIZES",
    "Transformer",
    "TransformerEncoder",
]
