"""Encoders to fine-tune: of other libraries' checkpoints, and of finished runs of recipes.pretrain or recipes.glue."""

import pathlib

import keras
from keras.saving import deserialize_keras_object

from keras_headattn._files import read_json
from keras_headattn.interop import from_pretrained
from keras_headattn.interop import tokenizer_of as tokenizer_there
from keras_headattn.interop._copying import weights_by_name
from keras_headattn.models import Bert, ElectraPretraining, EncoderClassifier, MaskedLMPretraining
from recipes.glue.runs import run_settings


def tokenizer_of(checkpoint, max_length=None):
    """The tokenizer of a checkpoint or of a run.

    Args:
        checkpoint: path.
        max_length: int, ids beyond which rows are cut. Default `None`: none is cut.

    Raises:
        FileNotFoundError, ValueError: if there is none.
    """
    if run_settings(checkpoint) is None:
        return tokenizer_there(checkpoint, max_length=max_length)
    path = pathlib.Path(checkpoint, "tokenizer.json")
    if not path.is_file():
        raise FileNotFoundError(f"The run has no tokenizer.json; it must be one of an encoder. Received: {checkpoint}")
    tokenizer = deserialize_keras_object(read_json(path))
    return type(tokenizer).from_config({**tokenizer.get_config(), "max_length": max_length})


def read_encoder(checkpoint, kind, pooler=False, weights=True, **arguments):
    """Reads the encoder of a checkpoint or of a run.

    Args:
        checkpoint: path of a folder.
        kind: str, the kind of the checkpoint's head, see `kind_of`. A run knows its own: an ELECTRA run has
            `"linear"`, as in its program.
        pooler: bool, whether BERT's pooler is kept where there is one.
        weights: bool. `False` keeps the sizes alone and initializes every weight.
        **arguments: arguments of `Bert`, in place of the checkpoint's.

    Returns:
        Tuple `(encoder, kind)`.

    Raises:
        FileNotFoundError, ValueError, ImportError: if it cannot be read.
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
    if isinstance(model, EncoderClassifier):
        return model.encoder, model.kind
    raise ValueError(f"The run must be one of an encoder. Received: a {type(model).__name__} in {path.parent}")


def _arguments(encoder):
    """The arguments of a `Bert`."""
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
