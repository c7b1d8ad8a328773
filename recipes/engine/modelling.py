"""What settings make: attention, optimizers, trainers; defaults that fit the data; operations of a model."""

import math
from dataclasses import fields

import keras
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.models import ChunkedLossModel
from keras_headattn.optimizers import Repulsive
from keras_headattn.positions import RelativePositions
from keras_headattn.training import Model
from recipes.engine.config import REQUIRED, arguments_of, check_arguments, flag, further_kinds, passing_on
from recipes.engine.settings import REGULARIZERS

MANY = 10_000  # parameters for a training example; above, a smaller model is proposed
BATCHES = 100  # of an epoch, below which batches become smaller


def check_attentions(config):
    """Checks names of arguments and numbers of heads; errors are those of `make_attention`."""
    for role in set(config.names_of_attention()) - set(config.without_effect):
        if (getattr(config, role) or config.attention) != "none":
            name, arguments = given_arguments(config, role)
            if role == "attention":
                number_of_heads(name, arguments, *config.attention_shape, config.num_heads)


def given_arguments(config, role="attention", name=None):
    """The name of a role's attention, and the arguments that the settings give it; arguments as of `make_attention`."""
    name = getattr(config, role) or name or config.attention
    if name == "re_attention" and role in ("decoder_attention", "cross_attention"):
        raise ValueError(
            f"{flag(role)} must not be re_attention, whose statistics in training run over later tokens: name another, "
            f"such as {flag(role)} multi_head. Received: {name}"
        )
    shared = config.attention_arguments if name == config.attention else {}
    role_arguments = getattr(config, f"{role}_arguments")
    for option, arguments in (("attention_arguments", shared), (f"{role}_arguments", role_arguments)):
        layer = layers.ATTENTIONS[name]
        check_arguments(flag(option), arguments, arguments_of(layer), layer.__name__, further_kinds(layer))
    return name, shared | role_arguments


def number_of_heads(name, arguments, width, default, num_heads=None):
    """The number of heads: the first that is given of the layer's argument, the setting, the layer's default and
    `default`.

    It must divide the width, unless `key_dim` is given.
    """
    layer_default = arguments_of(layers.ATTENTIONS[name])["num_heads"]  # such as 1 of Luong's
    heads = arguments.get("num_heads") or num_heads or (default if layer_default is REQUIRED else layer_default)
    if "key_dim" not in arguments and width % heads:
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
    name, arguments = given_arguments(config, role, name)
    known = arguments_of(layers.ATTENTIONS[name])
    heads = number_of_heads(name, arguments, width, num_heads, config.num_heads)
    defaults = dict(
        num_heads=heads,
        key_dim=width // heads,
        value_dim=max(1, width // heads),
        head_regularizer=make_head_regularizer(config.attention_regularizer, config.attention_regularizer_arguments),
        **defaults,
    )
    if isinstance(arguments.get("relative_positions"), int):
        arguments["relative_positions"] = RelativePositions(arguments["relative_positions"])
    with passing_on(f"{role}_arguments"):
        return layers.get(name, **{key: value for key, value in defaults.items() if key in known} | arguments)


def make_head_regularizer(name, arguments):
    """Returns the regularizer that `attention_regularizer` names, with these arguments; `None` for `"none"`."""
    if name == "none":
        return None
    with passing_on("attention_regularizer_arguments"):
        return REGULARIZERS[name](**arguments)


def make_optimizer(config, optimizer, **arguments):
    """Returns a Keras optimizer of this class with the shared settings, and around it what keeps heads apart."""
    with passing_on("optimizer_arguments"):
        optimizer = optimizer(**arguments, **config.optimizer_arguments)
    if config.repulsive == "none":
        return optimizer
    with passing_on("repulsive_arguments"):
        return Repulsive(optimizer, method=config.repulsive, seed=config.seed, **config.repulsive_arguments)


def column_trainer(columns, call):
    """Returns a model to train: of integer inputs `(B, n)` of these names, given to `call` as a dictionary.

    Its output has no Keras mask, which would scale the loss of batches that are weighted already.
    """
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in columns}
    return Model(inputs, keras.ops.copy(call(inputs)), name="trainer")


class ChunkedTrainer(ChunkedLossModel, Model):
    """Trains a model of tokens with its `loss_chunk_size`, on several replicas and with XLA."""

    def __init__(self, model):
        super().__init__(loss_chunk_size=model.loss_chunk_size, name="trainer")
        model.build()
        self.trained = model
        self.logits_soft_cap = model.logits_soft_cap
        self.built = True

    def call(self, inputs, training=None):
        return self.trained.states(inputs, training)

    def output_weights(self):
        return self.trained.output_weights()


def token_trainer(model, columns=()):
    """Returns the model that is trained around one of tokens: of its logits, or of its loss in chunks.

    `columns` are the names of its inputs; the default is one without a name.
    """
    if model.loss_chunk_size is not None:
        return ChunkedTrainer(model)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in columns}
    inputs = inputs or keras.Input((None,), dtype="int32", name="token_ids")
    return Model(inputs, keras.ops.copy(model(inputs)), name="trainer")


def fitting_warmup(config, most, steps):
    """Returns the steps of warm-up: `warmup_steps` updates, or `most` if not given, but at most a tenth of all steps.

    Schedules of Keras count batches, of which an update may accumulate several.
    """
    if config.warmup_steps is None:
        return max(1, min(config.batches_per_update * most, steps // 10))
    return config.batches_per_update * config.warmup_steps


def fitting_batch(tokens, most, least):
    """Returns the tokens of a batch, at most `most`: fewer if an epoch of so many would have few batches."""
    return max(least, min(most, tokens // BATCHES))


def remark_on_warmup(config, warmup, steps):
    """Says that warm-up takes more than a third of all steps; `None` if it does not.

    >>> from recipes.translate.settings import TranslateConfig
    >>> remark_on_warmup(TranslateConfig(), 200, 532)[:41]
    'Warm-up takes 200 of the 532 steps: until'
    """
    if 3 * warmup <= steps:
        return None
    option = flag(next(field.name for field in fields(config) if field.name.startswith("warmup_")))
    return (
        f"Warm-up takes {warmup:,} of the {steps:,} steps: until then the learning rate is lower than "
        f"--learning-rate {config.learning_rate:g}. Give a smaller {option}, or more --epochs."
    )


def remark_on_size(config, parameters, examples):
    """Says how to make a model smaller that has more than `MANY` parameters for each training example.

    `None` for a model that is not too large, or begins with trained weights, or if the number of examples is not known.
    """
    begins_trained = any(getattr(config, name) for name in config.PRETRAINED)
    if not examples or parameters <= MANY * examples or begins_trained or not config.SIZE_OPTIONS:
        return None
    sizes = {}
    for name in config.SIZE_OPTIONS:
        setting, _, argument = name.partition(".")
        if argument and argument not in {**config.model_defaults, **config.model_arguments}:  # of another model
            continue
        named = config.model_arguments.get(argument) or config.shape.get(argument)
        value = (named or config.model_argument(argument)) if argument else getattr(config, setting)
        sizes[f"{flag(setting)} {argument}".strip()] = value
    options = ", ".join(f"{name} (now {value})" if value is not None else name for name, value in sizes.items())
    remark = (
        f"{parameters:,} parameters are many for {examples:,} training examples. A smaller model trains faster, and "
        f"may do better: {options}."
    )
    if config.PRETRAINED:
        remark += f" Or begin with trained weights: {', '.join(map(flag, config.PRETRAINED))}."
    return remark


def count_flops(call):
    """Returns the floating-point operations of products of matrices and convolutions: two for each multiplication.

    `call` is a function of no arguments that computes outputs of inputs of known shapes, of one example say. If its
    graph has a loop, the result is `None`.

    >>> count_flops(lambda: tf.ones((1, 3)) @ tf.ones((3, 5)))
    30
    """
    operations = list(_operations(tf.function(call, autograph=False).get_concrete_function().graph))
    has_loop = any(operation.type.endswith("While") for operation in operations)
    return None if has_loop else sum(map(_flops, operations))


def _operations(graph):
    """Yields the operations of a graph, with those of the functions that it calls."""
    for operation in graph.get_operations():
        yield operation
        if operation.type in ("PartitionedCall", "StatefulPartitionedCall"):
            yield from _operations(graph._get_function(operation.get_attr("f").name).graph)


def _flops(operation):
    shapes = [tensor.shape for tensor in operation.inputs]
    if operation.type in ("MatMul", "BatchMatMulV2"):
        transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        return 2 * math.prod(operation.outputs[0].shape) * shapes[0][-2 if transposed else -1]
    if operation.type == "Einsum":
        letters = operation.get_attr("equation").decode().partition("->")[0].replace(",", "")
        sizes = dict(zip(letters, [size for shape in shapes for size in shape], strict=True))
        return 2 * math.prod(sizes.values())
    if operation.type == "Conv2D":
        return 2 * math.prod(operation.outputs[0].shape) * math.prod(shapes[1][:-1])
    return 0
