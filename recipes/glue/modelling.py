"""The encoder that settings name, with its head."""

import functools
import pathlib

from keras_headattn import layers
from keras_headattn._files import read_json
from keras_headattn._optional import optional_import
from keras_headattn.models import Bert, EncoderClassifier
from recipes.engine.heads import make_attention, make_head_regularizer


def check_attention(config):
    """Checks that the attention of the settings can be made.

    Raises:
        ValueError: naming the option and what was received.
    """
    # Its number of heads and its width are those of the encoder.
    make_attention(config, 64 * (config.num_heads or 4), 4)


def check_checkpoint(path):
    """Checks that the tokenizer of a checkpoint can be read, and that what reads its weights is installed.

    Raises:
        FileNotFoundError, ValueError, ImportError: if not.
    """
    from recipes.glue.checkpoints import tokenizer_of

    tokenizer_of(path)
    if "registered_name" in _values(path):
        optional_import("keras_hub")


def attention_of(config):
    """The attention, for `Bert`, which gives it the number of heads, their width, dropout and initializer."""
    cls = getattr(layers, layers.ATTENTIONS[config.attention])
    arguments = {} if config.num_heads is None else {"num_heads": config.num_heads}
    arguments |= {"head_regularizer": make_head_regularizer(config), **config.attention_arguments}
    return functools.partial(cls, **arguments)


def make_classifier(config, tokenizer, num_outputs):
    """An `EncoderClassifier`: of a checkpoint, or of random weights.

    Raises:
        FileNotFoundError, ValueError, ImportError: if the checkpoint cannot be read.
    """
    own = dict(dropout=config.dropout, attention_dropout=config.attention_dropout, seed=config.seed)
    own |= dict(attention=attention_of(config))
    pooler = config.head_dim is None and config.pooling == "first"
    if config.checkpoint:
        from recipes.glue.checkpoints import read_encoder

        kind = kind_of(config.checkpoint)
        encoder, kind = read_encoder(config.checkpoint, kind, pooler, config.checkpoint_weights, **own)
    else:
        kind = "bert"
        encoder = Bert.from_size(config.size, vocabulary_size=tokenizer.vocabulary_size, pooler=pooler, **own)
    return EncoderClassifier(
        encoder,
        num_outputs,
        kind,
        head_dim=config.head_dim,
        pooling=config.pooling,
        dropout=config.dropout,
        seed=config.seed,
    )


def is_t5(config, folder):
    """Whether the model is a T5: by the checkpoint or, where that is gone, by the tokenizer in the run's folder."""
    if not config.checkpoint:
        return False
    saved = pathlib.Path(folder, "tokenizer.json")
    if not pathlib.Path(config.checkpoint, "config.json").is_file() and saved.is_file():
        return _class_name(saved) == "SentencePieceTokenizer"
    return "t5" in _model_type(config.checkpoint)


def kind_of(path):
    """The kind of a checkpoint's head: "bert", "roberta" or "electra"."""
    model_type = _model_type(path)
    if "camembert" in model_type:  # RoBERTa under another name
        return "roberta"
    return next((kind for kind in ("roberta", "electra") if kind in model_type), "bert")


def _model_type(path):
    """The kind of model by config.json, in small letters; "" where there is none. Presets of KerasHub have a class."""
    values = _values(path)
    return str(values.get("model_type", values.get("class_name", ""))).lower()


def _values(path):
    file = pathlib.Path(path, "config.json")
    values = read_json(file) if file.is_file() else {}
    if not isinstance(values, dict):
        raise ValueError(f"A configuration must be a JSON object. Received: {file}")
    return values


def _class_name(path):
    """The class of a saved tokenizer."""
    values = read_json(path)
    return values.get("class_name") if isinstance(values, dict) else None
