"""Low-rank adaptation (LoRA) of attention: small trainable updates of frozen projections."""

import re
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_headattn._private import flatten_layers
from keras_headattn._validation import check_boolean, check_number, check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._head_regularization import regularizes

PROJECTIONS = ("query", "key", "value", "output")
WITHOUT_LORA = ("float8", "gptq", "awq")  # quantizations whose layers Keras does not adapt


def enable_lora(
    layer: keras.layers.Layer,
    rank: int,
    alpha: float | None = None,
    projections: Sequence[str] = PROJECTIONS,
    own_weights: bool = True,
    trainable: str | None = None,
) -> None:
    """Freezes a layer or model, and trains low-rank updates of its attention projections in place of their kernels.

    The kernel W of each projection becomes `W + alpha / rank * A @ B`, with new trainable weights `A`, random, and `B`,
    zeros, so outputs stay as they are. Compile the model afterwards. A saved model has the sums as its kernels; load it
    as any other.

    To train the head of a task as well, adapt the encoder alone: `enable_lora(model.encoder, rank=8)`.

    Source: Hu et al. 2021, "LoRA: Low-rank adaptation of large language models", section 4.1.

    Args:
        layer: built layer or model, with attention layers of this library or `keras.layers.MultiHeadAttention`.
            Load weights first: loading resets the updates to zero for good.
        rank: size of the last axis of `A`, which has the other axes of W, such as `(D, h, rank)` for queries.
        alpha: factor of the updates, before the division by `rank`. Default `None`: `rank`.
        projections: some of `"query"`, `"key"`, `"value"` and `"output"`, where an attention layer has them.
        own_weights: True to train all other weights of attention layers in full, such as kernels that mix heads,
            gates and relative positions. A checkpoint of other attention has none.
        trainable: regular expression to find in the paths of further weights to train, such as `"norm"`. Default
            `None`: none.

    Raises:
        ValueError: for a layer that is not built or has LoRA already, or attention that cannot be adapted: without
            these projections, with a `kernel_constraint` or a `head_regularizer` of kernels, or quantized to float8; or
            Keras's `GroupQueryAttention`.

    >>> from keras_headattn.models import Bert
    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4)
    >>> encoder.build()
    >>> enable_lora(encoder, rank=2)
    >>> [weight.name for weight in encoder.trainable_weights][:2]
    ['lora_kernel_a', 'lora_kernel_b']
    """
    check_positive("rank", rank)
    alpha = rank if alpha is None else check_number("alpha", alpha, above=0)
    check_boolean("own_weights", own_weights)
    if isinstance(projections, str) or not projections or not set(projections) <= set(PROJECTIONS):
        raise ValueError(f"`projections` must be some of {', '.join(PROJECTIONS)}. Received: {projections!r}")
    attentions = _attentions(layer)
    adapted = [dense for attention in attentions for dense in _projections(attention, projections)]
    if not adapted:
        raise ValueError(f"`layer` must have attention with {', '.join(projections)} projections. Received: {layer}")
    trained = _trained(layer, attentions if own_weights else (), trainable)
    for weight in layer.trainable_weights:
        if id(weight) not in trained:
            weight.trainable = False
            weight.frozen_by_lora = True
    for dense in adapted:
        dense.enable_lora(rank, lora_alpha=alpha)


def merge_lora(layer: keras.layers.Layer) -> None:
    """Adds the updates of `enable_lora` to the kernels, removes their weights, and unfreezes the others.

    Outputs stay as they are, up to rounding under mixed precision; a quantized kernel is quantized anew. Compile a
    model again before you train it further.

    Args:
        layer: layer or model.

    Raises:
        ValueError: if nothing in it has LoRA.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(num_heads=4, key_dim=4)
    >>> layer.build((None, 5, 16), (None, 5, 16))
    >>> enable_lora(layer, rank=2)
    >>> len(layer.weights), len(layer.trainable_weights)
    (16, 8)
    >>> merge_lora(layer)
    >>> len(layer.weights), len(layer.trainable_weights)
    (8, 8)
    """
    adapted = with_lora(layer)
    if not adapted:
        raise ValueError(f"`layer` must have LoRA, by `enable_lora`. Received: {layer}")
    for dense in adapted:
        _merge(dense)
    for weight in layer.weights:
        if getattr(weight, "frozen_by_lora", False):
            weight.trainable, weight.frozen_by_lora = True, False


def with_lora(layer: Any) -> list[Any]:
    """Returns the layers in a layer or model that have LoRA."""
    return [sublayer for sublayer in flatten_layers(layer) if getattr(sublayer, "lora_enabled", False)]


def _attentions(layer):
    """Returns the attention layers to adapt, after checks of all of them."""
    if not isinstance(layer, keras.layers.Layer) or not layer.built:
        raise ValueError(f"`layer` must be a layer or model that is built: call it first. Received: {layer}")
    if with_lora(layer):
        raise ValueError(f"`layer` must have no LoRA yet: use `merge_lora` first. Received: {layer}")
    attentions = [
        sublayer
        for sublayer in flatten_layers(layer)
        if isinstance(sublayer, (Attention, keras.layers.MultiHeadAttention))
    ]
    for sublayer in flatten_layers(layer):
        if isinstance(sublayer, keras.layers.GroupQueryAttention):  # it would be frozen whole
            raise ValueError(f"LoRA of Keras's `GroupQueryAttention` is not supported. Received: {sublayer.path}")
    for attention in attentions:
        if regularizes(getattr(attention, "head_regularizer", None), "kernels"):
            raise ValueError(
                "A `head_regularizer` of kernels needs whole kernels, which LoRA freezes. "
                f"Received: {attention.head_regularizer} in {attention.path}"
            )
        for dense in _projections(attention, PROJECTIONS):
            if dense.kernel_constraint is not None or dense.quantization_mode in WITHOUT_LORA:
                raise ValueError(
                    "LoRA needs projections without `kernel_constraint`, and not quantized to "
                    f"{', '.join(WITHOUT_LORA)}. Received: kernel_constraint={dense.kernel_constraint}, "
                    f"quantization_mode={dense.quantization_mode!r} in {dense.path}"
                )
    return attentions


def _projections(attention, names):
    return [dense for name in names if (dense := getattr(attention, f"{name}_dense")) is not None]


def _trained(layer, attentions, pattern):
    """Returns the ids of weights that go on training: own weights of `attentions`, and those of the pattern."""
    projected = {
        id(weight)
        for attention in attentions
        for dense in _projections(attention, PROJECTIONS)
        for weight in dense.weights
    }
    own_weights = {id(weight) for attention in attentions for weight in attention.trainable_weights} - projected
    if pattern is None:
        return own_weights
    try:
        matched = {id(weight) for weight in layer.trainable_weights if re.search(pattern, weight.path)}
    except (re.error, TypeError) as error:
        raise ValueError(
            f"`trainable` must be a regular expression or None. Received: trainable={pattern!r}"
        ) from error
    if not matched:
        raise ValueError(f"`trainable` must occur in the path of a weight. Received: trainable={pattern!r}")
    return own_weights | matched


def _merge(dense):
    kernel = next((weight for weight in dense.weights if weight.name == "kernel"), None)
    if kernel is not None and dense.quantization_mode is None:
        # not `dense.kernel`, which is rounded to the precision of the computation
        kernel.assign_add(dense.lora_alpha / dense.lora_rank * ops.matmul(dense.lora_kernel_a, dense.lora_kernel_b))
    else:
        merged = {}
        dense.save_own_variables(merged)
        dense.load_own_variables({key: ops.convert_to_numpy(value) for key, value in merged.items()})
    for name, value in list(vars(dense).items()):
        if name.startswith("lora_") and isinstance(value, keras.Variable):
            delattr(dense, name)
    dense.lora_enabled, dense.lora_rank, dense.lora_alpha = False, None, None
