"""Encoders to fine-tune: of checkpoints and of finished runs; their tokenizers, optimizers and learning rates."""

import functools
import json
import pathlib
import warnings

import keras
from keras.saving import deserialize_keras_object, serialize_keras_object

from keras_headattn import layers
from keras_headattn._files import read_json, write_atomically
from keras_headattn._optional import optional_import
from keras_headattn.interop import from_pretrained, weights_by_name
from keras_headattn.interop import tokenizer_of as tokenizer_there
from keras_headattn.interop._start import BLOCKS, check_start
from keras_headattn.models import (
    BERT_SIZES,
    MODERNBERT_SIZES,
    Bert,
    ElectraPretraining,
    MaskedLMPretraining,
    ModernBert,
)
from keras_headattn.optimizers import AdamWeightDecay, LinearDecay, layerwise_rates
from keras_headattn.training import Model
from recipes.engine.config import passing_on, split_arguments
from recipes.engine.data import learn_tokenizer
from recipes.engine.modelling import make_attention, make_head_regularizer, make_optimizer

RECIPES = ("pretrain", "glue", "tag", "answer")  # whose runs have an encoder to fine-tune
WITHOUT_DECAY = ["bias", "gamma", "beta", "scale"]  # of layers; norms and biases have these names


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


def read_encoder(checkpoint, pooler=False, weights=True, **arguments):
    """Reads the encoder of a checkpoint or of a run.

    Args:
        checkpoint: path of a folder.
        pooler: True to keep BERT's pooler where there is one.
        weights: False to keep the sizes alone and initialize every weight.
        **arguments: arguments of the encoder, in place of the checkpoint's.

    Returns:
        Tuple `(encoder, kind)`, the kind of the checkpoint's head: see `kind_of`. An ELECTRA run has `"linear"`, as in
        its program.
    """
    if run_settings(checkpoint) is None:
        kind = kind_of(checkpoint)
        without = {} if kind == "modernbert" or kind == "bert" and pooler else {"pooler": False}
        with warnings.catch_warnings():
            if not weights:
                warnings.simplefilter("ignore")
            encoder = from_pretrained(checkpoint, **arguments, **without)
    else:
        there, kind = _of_run(pathlib.Path(checkpoint, "model.keras"))
        if isinstance(there, Bert):
            arguments["pooler"] = there.pooler is not None and kind == "bert" and pooler
        encoder = type(there)(**{**_arguments(there), **arguments})
        encoder.build()
        _copy(there, encoder)
    if not weights:
        encoder = type(encoder)(**{**_arguments(encoder), **arguments})
    return encoder, kind


def _of_run(path):
    if not path.is_file():
        raise ValueError(f"The run has no finished model. Continue it: same command as before. Received: {path.parent}")
    model = keras.saving.load_model(path, compile=False)
    if isinstance(model, ElectraPretraining):
        return model.discriminator.encoder, "linear"
    if isinstance(model, MaskedLMPretraining):
        model = model.masked_lm
    if isinstance(getattr(model, "encoder", None), Bert | ModernBert):  # with a head
        return model.encoder, getattr(model, "kind", "modernbert" if isinstance(model.encoder, ModernBert) else "bert")
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
    if missing or type(encoder.blocks[0].attention) is not type(there.blocks[0].attention):
        check_start(encoder.blocks[:BLOCKS], there.blocks[:BLOCKS], encoder.hidden_dim)


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
    of_head, *of_encoder = split_arguments(config.model_arguments, head, Bert, ModernBert)
    arguments = of_encoder[0] | of_encoder[1]
    arguments |= dict(seed=config.seed, **attention_arguments(config))
    of_head["seed"] = config.seed
    if config.checkpoint:
        encoder, kind = read_encoder(config.checkpoint, pooler, config.checkpoint_weights, **arguments)
    else:
        encoder, kind = _new_encoder(config, pooler, arguments | dict(vocabulary_size=vocabulary_size, pad_id=0))
    if 0 < getattr(encoder, "max_length", 0) < config.max_length:  # ModernBERT has no table of positions
        raise ValueError(
            f"--max-length must be at most the encoder's number of positions, {encoder.max_length}. "
            f"Received: max_length={config.max_length}"
        )
    return encoder, kind, of_head


def _new_encoder(config, pooler, arguments):
    with passing_on("model_arguments"):
        if config.size in MODERNBERT_SIZES:
            return ModernBert.from_size(config.size, **arguments), "modernbert"
        # Word pieces that are learned have two segments.
        return Bert.from_size(config.size, pooler=pooler, **{"num_segments": 2} | arguments), "bert"


def check_encoder(config, takes_t5=False):
    """Checks that settings name a size, or a checkpoint that can be read, and that their attention can be made."""
    sizes = BERT_SIZES | MODERNBERT_SIZES
    if not config.checkpoint and config.size not in sizes:
        raise ValueError(f"Give --checkpoint, or --size, one of {', '.join(sizes)}. Received: size={config.size}")
    make_attention(config, *config.attention_shape)
    if config.checkpoint:
        if not takes_t5 and "t5" in model_type(config.checkpoint):
            raise ValueError(f"--checkpoint must be of an encoder, not of a T5. Received: {config.checkpoint}")
        tokenizer_of(config.checkpoint)
        if "registered_name" in config_of(config.checkpoint):  # of KerasHub
            optional_import("keras_hub")


def attention_arguments(config):
    """Returns the arguments of an encoder for the attention of settings; it adds width, dropout and initializer."""
    cls = layers.ATTENTIONS[config.attention]
    regularizer = make_head_regularizer(config.attention_regularizer, config.attention_regularizer_arguments)
    attention = functools.partial(cls, head_regularizer=regularizer, **config.attention_arguments)
    return {"attention": attention} | ({} if config.num_heads is None else {"num_heads": config.num_heads})


def kind_of(path):
    """Returns the kind of a checkpoint's head: "bert", "roberta", "electra" or "modernbert"."""
    type_name = model_type(path)
    if "camembert" in type_name:  # RoBERTa under another name
        return "roberta"
    return next((kind for kind in ("roberta", "electra", "modernbert") if kind in type_name), "bert")


def model_type(path):
    """Returns the kind of model by config.json, in small letters; "" without one. Presets of KerasHub have a class."""
    values = config_of(path)
    return str(values.get("model_type", values.get("class_name", ""))).lower()


def config_of(folder):
    """Reads the config.json of a checkpoint or a run; an empty dictionary if there is none."""
    file = pathlib.Path(folder, "config.json")
    values = read_json(file) if file.is_file() else {}
    if not isinstance(values, dict):
        raise ValueError(f"A configuration must be a JSON object. Received: {file}")
    return values


def encoder_shape(config, **arguments):
    """Returns width and number of heads of the encoder that settings name; `None` if its tensors alone tell them.

    Arguments of the model in `arguments` count before those of a named size.
    """
    sizes = {**BERT_SIZES, **MODERNBERT_SIZES}
    if config.size in sizes:
        values, names = sizes[config.size] | arguments, ("hidden_dim", "num_heads")
    else:
        values, names = config_of(config.checkpoint or ""), ("hidden_size", "num_attention_heads")
    shape = tuple(values.get(name) for name in names)
    return shape if all(isinstance(size, int) and size > 0 for size in shape) else None


def _check_has_model(folder):
    """Checks that a folder, if it is there, has a configuration or a checkpoint of TensorFlow."""
    if not folder.is_dir() or any(path.name.endswith(("config.json", ".index")) for path in folder.iterdir()):
        return
    inside = ", ".join(sorted(path.parent.name for path in folder.glob("*/config.json")))
    raise ValueError(
        "--checkpoint must be the folder of a model, with its config.json. "
        f"Received: {folder}{f', whose folders are of models: {inside}' if inside else ''}"
    )


def run_settings(folder):
    """Returns the settings of a run in a folder, with its `recipe`; `None` for a checkpoint of another library.

    A run of a recipe that has no encoder to fine-tune is an error.
    """
    _check_has_model(pathlib.Path(folder))
    path = pathlib.Path(folder, "config.json")
    values = read_json(path) if path.is_file() else {}
    if not isinstance(values, dict) or "recipe" not in values:
        return None
    if values["recipe"] not in RECIPES:
        raise ValueError(
            f"--checkpoint takes runs of {', '.join(f'recipes.{name}' for name in RECIPES)}. "
            f"Received: {folder}, of recipes.{values['recipe']}"
        )
    return values


def make_tokenizer(run, config, texts):
    """Returns the tokenizer of a run: the checkpoint's, or one that is learned from the texts that a function returns.

    It is kept in the run's folder.
    """

    def make():
        if config.checkpoint:
            return tokenizer_of(config.checkpoint, config.max_length)
        learned = learn_tokenizer(run.folder / "vocab.txt", texts(), "wordpieces", config.vocabulary_size)
        return learned.with_max_length(config.max_length)

    return kept_tokenizer(run.folder / "tokenizer.json", make)


def warmup_steps(config, steps):
    """Returns the steps in which the learning rate rises, for so many steps an epoch."""
    total = max(2, steps * config.epochs)
    return min(round(config.warmup_share * total), total - 1)


def fine_tuning_optimizer(config, steps, num_layers=1):
    """Returns the optimizer, for so many steps an epoch and an encoder of so many layers."""
    total = max(2, steps * config.epochs)
    is_electra = config.optimizer == "electra"
    schedule = LinearDecay(config.learning_rate, warmup_steps(config, steps), total, decay_in_warmup=is_electra)
    if is_electra:
        rates = None if config.layer_decay is None else layerwise_rates(num_layers, config.layer_decay)
        return make_optimizer(config, AdamWeightDecay, learning_rate=schedule, rates=rates)
    optimizer = make_optimizer(config, keras.optimizers.AdamW, learning_rate=schedule)
    optimizer.exclude_from_weight_decay(var_names=WITHOUT_DECAY)
    return optimizer


def with_reduction(loss, config):
    """Returns a loss, reduced as the optimizer of the settings needs it."""
    if config.optimizer == "electra":
        loss.reduction = "sum"
    return loss
