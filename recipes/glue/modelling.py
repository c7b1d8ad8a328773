"""The encoder and head that settings name."""

import pathlib

from keras_headattn._files import read_json
from keras_headattn.models import EncoderClassifier
from recipes.engine.config import passing_on
from recipes.engine.encoders import make_encoder, model_type


def make_classifier(config, vocabulary_size, num_outputs):
    """Makes an `EncoderClassifier`: of a checkpoint, or of random weights."""
    arguments = config.model_arguments
    pooler = arguments.get("head_dim") is None and arguments.get("pooling", "first") == "first"
    encoder, kind, of_head = make_encoder(config, vocabulary_size, EncoderClassifier, pooler)
    with passing_on("model_arguments"):
        return EncoderClassifier(encoder, num_outputs, kind, **of_head)


def is_t5(checkpoint, folder):
    """True if the model is a T5, by the checkpoint or, if that is gone, by the tokenizer in the run's folder."""
    if not checkpoint:
        return False
    saved = pathlib.Path(folder, "tokenizer.json")
    if not pathlib.Path(checkpoint, "config.json").is_file() and saved.is_file():
        return _class_name(saved) == "SentencePieceTokenizer"
    return "t5" in model_type(checkpoint)


def _class_name(path):
    values = read_json(path)
    return values.get("class_name") if isinstance(values, dict) else None
