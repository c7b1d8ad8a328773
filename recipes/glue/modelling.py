"""The encoder and head that settings name."""

import pathlib

from headattn_io.files import read_json
from keras_headattn.models import Bert, EncoderClassifier
from recipes.engine.config import passing_on
from recipes.engine.encoders import attention_of, kind_of, model_type, read_encoder
from recipes.engine.signatures import split_arguments

TAKERS = ("keras_headattn.models.EncoderClassifier", "keras_headattn.models.Bert")


def make_classifier(config, tokenizer, num_outputs):
    """Makes an `EncoderClassifier`: of a checkpoint, or of random weights."""
    of_head, of_encoder = split_arguments(config.model_arguments, *TAKERS)
    own = of_encoder | dict(seed=config.seed, attention=attention_of(config))
    pooler = of_head.get("head_dim") is None and of_head.get("pooling", "first") == "first"
    if config.checkpoint:
        kind = kind_of(config.checkpoint)
        encoder, kind = read_encoder(config.checkpoint, kind, pooler, config.checkpoint_weights, **own)
    else:
        kind = "modernbert" if "modernbert" in config.size else "bert"
        own |= dict(vocabulary_size=tokenizer.vocabulary_size, pad_id=tokenizer.pad_id)
        with passing_on("model_arguments"):
            encoder = Bert.from_size(config.size, pooler=pooler and kind == "bert", **own)
    with passing_on("model_arguments"):
        return EncoderClassifier(encoder, num_outputs, kind, **of_head, seed=config.seed)


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
