"""Attention of any name, and the regularizer that keeps its heads apart."""

import inspect

from keras_headattn import layers
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius
from recipes.engine.config import flag

REGULARIZERS = {"frobenius": Frobenius, "disagreement": Disagreement, "cosine": CosineSimilarity}


def make_attention(config, width, num_heads, role="attention", name=None, **defaults):
    """The attention layer of a role.

    Args:
        config: settings. The role's are named after it, such as `cross_attention` and `cross_attention_arguments`; the
            arguments of `--attention-arguments` count, under its own, if it is the same attention.
        width: int, of all heads together, where no argument is `key_dim`.
        num_heads: int, where neither the settings nor the layer have a number of their own.
        role: str, `"attention"` or the name of another setting.
        name: str, the attention where the role names none. Default `None`: that of `--attention`.
        **defaults: further arguments, for layers that take them.

    Raises:
        ValueError: for an argument that the layer does not have, a wrong value, or heads that do not divide the width.
    """
    name = getattr(config, role) or name or config.attention
    option = flag(f"{role}_arguments")
    given = (config.attention_arguments if name == config.attention else {}) | getattr(config, f"{role}_arguments")
    known = _arguments_of(getattr(layers, layers.ATTENTIONS[name]))
    if unknown := [argument for argument in given if argument not in known]:
        raise ValueError(
            f"{option}: {layers.ATTENTIONS[name]} takes {', '.join(known)}. Received: {', '.join(unknown)}"
        )
    own = known["num_heads"].default  # such as 1 of Luong's
    heads = given.get("num_heads") or config.num_heads or (num_heads if own is inspect.Parameter.empty else own)
    if "key_dim" not in given and width % heads:
        raise ValueError(
            "--num-heads must divide the width of the model, or key_dim be given by --attention-arguments. "
            f"Received: num_heads={heads} for a width of {width}"
        )
    defaults = dict(
        num_heads=heads,
        key_dim=width // heads,
        value_dim=max(1, width // heads),
        head_regularizer=make_head_regularizer(config),
        **defaults,
    )
    try:
        return layers.get(name, **{key: value for key, value in defaults.items() if key in known} | given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{option}: {error}") from error


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
