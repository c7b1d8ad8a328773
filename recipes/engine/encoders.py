"""Encoders to fine-tune: of other libraries' checkpoints, and of finished runs of recipes that train an encoder."""

import functools
import json
import pathlib

import keras
from keras.saving import deserialize_keras_object, serialize_keras_object

from keras_headattn import layers
from keras_headattn._files import read_json, write_atomically
from keras_headattn._optional import optional_import
from keras_headattn.interop import from_pretrained, weights_by_name
from keras_headattn.interop import tokenizer_of as tokenizer_there
from keras_headattn.models import BERT_SIZES, Bert, ElectraPretraining, MaskedLMPretraining
from keras_headattn.training import Model
from recipes.engine.arguments import split_arguments
from recipes.engine.config import passing_on
from recipes.engine.heads import make_attention, make_head_regularizer
from recipes.engine.pretrained import run_settings


class MaskedLMTrainer(MaskedLMPretraining, Model):
    """`MaskedLMPretraining` that trains on several replicas, and with XLA."""


def tokenizer_of(checkpoint, max_length=None):
    """Returns the tokenizer of a checkpoint or of a run, which cuts rows to `max_length` ids."""
    if run_settings(checkpoint) is None:
        return tokenizer_there(checkpoint, max_length=max_length)
    path = pathlib.Path(checkpoint, "tokenizer.json")
    if not path.is_file():
        raise FileNotFoundError(f"The run has no tokenizer.json; it must be one of an encoder. Received: {checkpoint}")
    tokenizer = deserialize_keras_object(read_json(path))
    return type(tokenizer).from_config({**tokenizer.get_config(), "max_length": max_length})


def kept_tokenizer(path, make):
    """Loads the tokenizer in a file of a run's folder; the function `make` returns it if the file is missing."""
    if not path.exists():
        write_atomically(path, json.dumps(serialize_keras_object(make())).encode())
    return saved_tokenizer(path)


def saved_tokenizer(path):
    """Loads the tokenizer in a file of a run's folder."""
    return deserialize_keras_object(read_json(path))


def read_encoder(checkpoint, kind, pooler=False, weights=True, **arguments):
    """Reads the encoder of a checkpoint or of a run.

    Args:
        checkpoint: path of a folder.
        kind: str, the kind of the checkpoint's head, see `kind_of`. A run knows its own: an ELECTRA run has
            `"linear"`, as in its program.
        pooler: True to keep BERT's pooler where there is one.
        weights: False to keep the sizes alone and initialize every weight.
        **arguments: arguments of `Bert`, in place of the checkpoint's.

    Returns:
        Tuple `(encoder, kind)`.
    """
    if run_settings(checkpoint) is None:
        without = {} if kind == "bert" and pooler else {"pooler": False}
        encoder = from_pretrained(checkpoint, **arguments, **without)
    else:
        there, kind = _of_run(pathlib.Path(checkpoint, "model.keras"))
        keeps_pooler = there.pooler is not None and kind == "bert" and pooler
        encoder = Bert(**{**_arguments(there), **arguments, "pooler": keeps_pooler})
        encoder.build()
        _copy(there, encoder)
    if not weights:
        encoder = Bert(**{**_arguments(encoder), **arguments})
    return encoder, kind


def _of_run(path):
    if not path.is_file():
        raise ValueError(f"The run has no finished model. Continue it: same command as before. Received: {path.parent}")
    model = keras.saving.load_model(path, compile=False)
    if isinstance(model, ElectraPretraining):
        return model.discriminator.encoder, "linear"
    if isinstance(model, MaskedLMPretraining):
        return model.masked_lm.encoder, "bert"
    if isinstance(getattr(model, "encoder", None), Bert):  # with a head
        return model.encoder, getattr(model, "kind", "bert")
    raise ValueError(f"The run must be one of an encoder. Received: a {type(model).__name__} in {path.parent}")


def _arguments(encoder):
    config = encoder.get_config()
    return {name: value for name, value in config.items() if name not in ("name", "trainable", "dtype")}


def _copy(there, encoder):
    """Gives an encoder the weights of another of the same sizes, as far as its attention has them."""
    weights, missing = weights_by_name(there), []
    for name, weight in weights_by_name(encoder).items():
        if name in weights and weights[name].shape == weight.shape:
            weight.assign(weights[name])
        else:
            missing.append(name)
    if missing:
        print(f"Not in the run, and initialised: {', '.join(missing[:6])}{', ...' if len(missing) > 6 else ''}")


def make_encoder(config, vocabulary_size, head, pooler=False):
    """Makes the encoder that settings name, of a checkpoint or of random weights.

    Args:
        config: `FineTuning`.
        vocabulary_size: int, of an encoder of random weights.
        head: class of its head, of `keras_headattn.models`.
        pooler: True to have BERT's pooler.

    Returns:
        Tuple `(encoder, kind, arguments)`: the kind of the checkpoint's head, and the arguments of the class.
    """
    of_head, own = split_arguments(config.model_arguments, head, Bert)
    own |= dict(seed=config.seed, **attention_arguments(config))
    of_head["seed"] = config.seed
    if config.checkpoint:
        found = read_encoder(config.checkpoint, kind_of(config.checkpoint), pooler, config.checkpoint_weights, **own)
        return *found, of_head
    kind = "modernbert" if "modernbert" in config.size else "bert"
    own = {"num_segments": 2} | own  # as the word pieces that are learned for it have
    own |= dict(vocabulary_size=vocabulary_size, pad_id=0, pooler=pooler and kind == "bert")
    with passing_on("model_arguments"):
        return Bert.from_size(config.size, **own), kind, of_head


def check_encoder(config, takes_t5=False):
    """Checks that settings name a size, or a checkpoint that can be read, and that their attention can be made."""
    if not config.checkpoint and config.size not in BERT_SIZES:
        raise ValueError(f"Give --checkpoint, or --size, one of {', '.join(BERT_SIZES)}. Received: size={config.size}")
    make_attention(config, *config.attention_shape)
    if config.checkpoint:
        if not takes_t5 and "t5" in model_type(config.checkpoint):
            raise ValueError(f"--checkpoint must be of an encoder, not of a T5. Received: {config.checkpoint}")
        tokenizer_of(config.checkpoint)
        if "registered_name" in _values(config.checkpoint):  # of KerasHub
            optional_import("keras_hub")


def attention_arguments(config):
    """Returns the arguments of `Bert` for the attention of settings; it adds width, dropout and initializer."""
    cls = layers.ATTENTIONS[config.attention]
    regularizer = make_head_regularizer(config.attention_regularizer, config.attention_regularizer_arguments)
    attention = functools.partial(cls, head_regularizer=regularizer, **config.attention_arguments)
    return {"attention": attention} | ({} if config.num_heads is None else {"num_heads": config.num_heads})


def kind_of(path):
    """Returns the kind of a checkpoint's head: "bert", "roberta", "electra" or "modernbert"."""
    found = model_type(path)
    if "camembert" in found:  # RoBERTa under another name
        return "roberta"
    return next((kind for kind in ("roberta", "electra", "modernbert") if kind in found), "bert")


def model_type(path):
    """Returns the kind of model by config.json, in small letters; "" without one. Presets of KerasHub have a class."""
    values = _values(path)
    return str(values.get("model_type", values.get("class_name", ""))).lower()


def _values(path):
    file = pathlib.Path(path, "config.json")
    values = read_json(file) if file.is_file() else {}
    if not isinstance(values, dict):
        raise ValueError(f"A configuration must be a JSON object. Received: {file}")
    return values
