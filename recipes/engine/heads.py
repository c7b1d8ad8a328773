"""Attention of any name, and what keeps its heads apart."""

import inspect

from keras_headattn import layers
from keras_headattn.optimizers import Repulsive
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius
from recipes.engine.config import flag

REGULARIZERS = {"frobenius": Frobenius, "disagreement": Disagreement, "cosine": CosineSimilarity}


def make_attention(name, arguments, width=None, num_heads=None, option="attention_arguments", **defaults):
    """The attention layer of a name.

    Args:
        name: one of `layers.ATTENTIONS`.
        arguments: dictionary of constructor arguments, which come before all others.
        width: int, of all heads together. Default `None`: `arguments` or `defaults` have `key_dim`.
        num_heads: int.
        option: str, the setting that `arguments` come from.
        **defaults: further arguments, for layers that take them.

    Raises:
        ValueError: for an argument that the layer does not have, a wrong value, or heads that do not divide the width.
    """
    known = _arguments_of(getattr(layers, layers.ATTENTIONS[name]))
    if unknown := [argument for argument in arguments if argument not in known]:
        raise ValueError(
            f"{flag(option)}: {layers.ATTENTIONS[name]} takes {', '.join(known)}. Received: {', '.join(unknown)}"
        )
    arguments = {
        "num_heads": num_heads,
        **{argument: value for argument, value in defaults.items() if argument in known},
        **arguments,
    }
    heads = arguments["num_heads"]
    if "key_dim" not in arguments:
        if width % heads:
            raise ValueError(
                "--num-heads must divide the width of the model, or key_dim be given by --attention-arguments. "
                f"Received: num_heads={heads} for a width of {width}"
            )
        arguments["key_dim"] = width // heads
    try:
        return layers.get(name, **arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{flag(option)}: {error}") from error


def own_number_of_heads(name):
    """The number of heads that an attention has where none is given, such as 1 of Luong's; `None` for most."""
    number = _arguments_of(getattr(layers, layers.ATTENTIONS[name]))["num_heads"].default
    return None if number is inspect.Parameter.empty else number


def _arguments_of(cls):
    """The named arguments of a layer's constructors, its own first."""
    found = {}
    for base in cls.__mro__:
        if issubclass(base, layers.Attention):
            for name, parameter in inspect.signature(base.__init__).parameters.items():
                if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY) and name != "self":
                    found.setdefault(name, parameter)
    return found


def make_head_regularizer(config):
    """The regularizer that `attention_regularizer` names; `None` for none."""
    if config.attention_regularizer == "none":
        return None
    return REGULARIZERS[config.attention_regularizer](weight=config.regularizer_weight)


def repel(config, optimizer, **selection):
    """The optimizer, or around it the `Repulsive` that the settings name.

    Args:
        config: `recipes.engine.settings.Heads`.
        optimizer: the inner optimizer.
        **selection: which heads, as `Repulsive` takes it.
    """
    if config.repulsive == "none":
        return optimizer
    return Repulsive(
        optimizer,
        method=config.repulsive,
        step_size=config.step_size,
        repulsive_weight=config.repulsive_weight,
        inverse_temperature=config.inverse_temperature,
        prior_deviation=config.prior_deviation,
        kernel=config.repulsive_kernel,
        smoothing=config.repulsive_smoothing,
        seed=config.seed,
        **selection,
    )
