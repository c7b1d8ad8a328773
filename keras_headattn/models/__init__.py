"""Models made of this library's layers. Importing this makes every class known to `keras.saving.load_model`."""

from keras_headattn import layers, losses, optimizers, regularizers  # noqa: F401  (registered by being imported)
from keras_headattn.models.resnet import ResNet
from keras_headattn.models.resnets import (
    AAResNet34,
    AAResNet50,
    AAResNet101,
    AAResNet152,
    EAAAResNet34,
    EAAAResNet50,
    EAAAResNet101,
    EAAAResNet152,
    ResNet34,
    ResNet50,
    ResNet101,
    ResNet152,
)
from keras_headattn.models.sentence_classifier import SentenceClassifier
from keras_headattn.models.sentence_encoder import SentenceEncoder
from keras_headattn.models.sentence_pair_classifier import SentencePairClassifier
from keras_headattn.models.transformer import Transformer

__all__ = [
    "AAResNet34",
    "AAResNet50",
    "AAResNet101",
    "AAResNet152",
    "EAAAResNet34",
    "EAAAResNet50",
    "EAAAResNet101",
    "EAAAResNet152",
    "ResNet",
    "ResNet34",
    "ResNet50",
    "ResNet101",
    "ResNet152",
    "SentenceClassifier",
    "SentenceEncoder",
    "SentencePairClassifier",
    "Transformer",
]
