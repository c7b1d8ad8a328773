"""Attention of any name, and the regularizer that keeps its heads apart."""

from keras_headattn import layers
from keras_headattn.positions import RelativePositions
from recipes.engine.arguments import REQUIRED, arguments_of, check_arguments
from recipes.engine.config import flag, passing_on
from recipes.engine.settings import REGULARIZERS


def check_attentions(config):
    """Checks names of arguments and numbers of heads; errors are those of `make_attention`."""
    for role in set(config.names_of_attention()) - set(config.without_effect):
        if (getattr(config, role) or config.attention) != "none":
            name, given = given_arguments(config, role)
            if role == "attention":
                number_of_heads(name, given, *config.attention_shape, config.num_heads)


def given_arguments(config, role="attention", name=None):
    """The name of a role's attention, and the arguments that the settings give it; arguments as of `make_attention`."""
    name = getattr(config, role) or name or config.attention
    if name == "re_attention" and role in ("decoder_attention", "cross_attention"):
        raise ValueError(
            f"{flag(role)} must not be re_attention, whose statistics in training run over later tokens: name another, "
            f"such as {flag(role)} multi_head. Received: {name}"
        )
    shared = config.attention_arguments if name == config.attention else {}
    own = getattr(config, f"{role}_arguments")
    for option, given in (("attention_arguments", shared), (f"{role}_arguments", own)):
        check_arguments(flag(option), given, arguments_of(layers.ATTENTIONS[name]), layers.ATTENTIONS[name].__name__)
    return name, shared | own


def number_of_heads(name, given, width, default, num_heads=None):
    """The number of heads: the first that is given of the layer's argument, the setting, the layer's default and
    `default`.

    It must divide the width, unless `key_dim` is given.
    """
    own = arguments_of(layers.ATTENTIONS[name])["num_heads"]  # such as 1 of Luong's
    heads = given.get("num_heads") or num_heads or (default if own is REQUIRED else own)
    if "key_dim" not in given and width % heads:
        raise ValueError(
            "--num-heads must divide the width of the model, or key_dim be given by --attention-arguments. "
            f"Received: num_heads={heads} for a width of {width}"
        )
    return heads


def make_attention(config, width, num_heads, role="attention", name=None, **defaults):
    """Returns the attention layer of a role.

    Args:
        config: settings. The role's are named after it, such as `cross_attention` and `cross_attention_arguments`; the
            arguments of `--attention-arguments` count, under its own, if it is the same attention.
        width: int, of all heads together, where no argument is `key_dim`.
        num_heads: int, where neither the settings nor the layer have a number of their own.
        role: str, `"attention"` or the name of another setting.
        name: str, the attention where the role names none. Default `None`: that of `--attention`.
        **defaults: further arguments, for layers that take them.
    """
    name, given = given_arguments(config, role, name)
    known = arguments_of(layers.ATTENTIONS[name])
    heads = number_of_heads(name, given, width, num_heads, config.num_heads)
    defaults = dict(
        num_heads=heads,
        key_dim=width // heads,
        value_dim=max(1, width // heads),
        head_regularizer=make_head_regularizer(config.attention_regularizer, config.attention_regularizer_arguments),
        **defaults,
    )
    if isinstance(given.get("relative_positions"), int):
        given["relative_positions"] = RelativePositions(given["relative_positions"])
    with passing_on(f"{role}_arguments"):
        return layers.get(name, **{key: value for key, value in defaults.items() if key in known} | given)


def make_head_regularizer(name, arguments):
    """Returns the regularizer that `attention_regularizer` names, with these arguments; `None` for `"none"`."""
    if name == "none":
        return None
    with passing_on("attention_regularizer_arguments"):
        return REGULARIZERS[name](**arguments)
