"""Models made of this library's layers. Wrong arguments raise a ValueError that names them."""

from keras_headattn.models._bert.bert import Bert
from keras_headattn.models._bert.electra_pretraining import ElectraPretraining
from keras_headattn.models._bert.encoder_heads import (
    EncoderClassifier,
    MaskedLM,
    ReplacedTokenDetector,
    TokenClassifier,
)
from keras_headattn.models._bert.masked_lm_pretraining import MaskedLMPretraining
from keras_headattn.models._bert.modern_bert import ModernBert
from keras_headattn.models._bert.sizes import BERT_SIZES, MODERNBERT_SIZES
from keras_headattn.models._bert.span_answerer import SpanAnswerer
from keras_headattn.models._causal_lm.causal_lm import CausalLM
from keras_headattn.models._causal_lm.sizes import CAUSAL_SIZES
from keras_headattn.models._chunked_loss import ChunkedLossModel
from keras_headattn.models._dc_transformer import DCTransformer
from keras_headattn.models._graph_writer.graph_writer import GraphWriter
from keras_headattn.models._layout_map import layout_map
from keras_headattn.models._rationale_classifier import RationaleClassifier, RationaleReader
from keras_headattn.models._resnet.resnet import ResNet
from keras_headattn.models._resnet.sizes import (
    ResNet34,
    ResNet50,
    ResNet101,
    ResNet152,
)
from keras_headattn.models._sentences.classifiers import SentenceClassifier, SentencePairClassifier
from keras_headattn.models._sentences.encoders import BiLSTMEncoder, TransformerEncoder
from keras_headattn.models._sizes import SIZES, VIT_SIZES
from keras_headattn.models._transformer.t5 import T5, T5_SIZES
from keras_headattn.models._transformer.transformer import Transformer
from keras_headattn.models._vit import ViT

__all__ = [
    "BERT_SIZES",
    "Bert",
    "BiLSTMEncoder",
    "CAUSAL_SIZES",
    "CausalLM",
    "ChunkedLossModel",
    "DCTransformer",
    "ElectraPretraining",
    "EncoderClassifier",
    "GraphWriter",
    "MODERNBERT_SIZES",
    "MaskedLM",
    "MaskedLMPretraining",
    "ModernBert",
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
    "SpanAnswerer",
    "T5",
    "T5_SIZES",
    "TokenClassifier",
    "Transformer",
    "TransformerEncoder",
    "VIT_SIZES",
    "ViT",
    "layout_map",
]
