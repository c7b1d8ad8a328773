"""How far a model with another attention starts from its checkpoint."""

import warnings

import numpy as np
from keras import ops

from keras_headattn.layers import MultiHeadAttention, ReAttention, TalkingHeadsAttention
from keras_headattn.models._blocks import Stack

# Arguments by which attention starts equal to multi-head attention.
SAME = dict.fromkeys((TalkingHeadsAttention, ReAttention), {"mixing_initializer": "identity"})
BLOCKS = 2  # that are compared


def check_start(blocks, reference, width, start=None):
    """Compares blocks with those of the checkpoint's attention on random input, and warns if they differ."""
    x = np.random.default_rng(0).normal(size=(2, 16, width)).astype("float32")
    ours, theirs = (ops.convert_to_numpy(ops.cast(Stack(stack)(x), "float32")) - x for stack in (blocks, reference))
    difference = np.abs(ours - theirs).max() / np.abs(theirs).max()
    if difference <= (1e-5 if blocks[0].compute_dtype == "float32" else 0.05):
        return
    classes = sorted({type(layer) for layer in Stack(blocks).attentions}, key=lambda cls: cls.__name__)
    heads = ", ".join(cls.__name__ for cls in classes)
    if start == "same":
        raise ValueError(
            "`start` may be 'same' only for attention that can compute what the checkpoint's does. Received: "
            f"start='same' for {heads}, whose first {len(blocks)} blocks start {difference:.1%} away from it"
        )
    same = [f"{name}={value}" for cls in classes for name, value in SAME.get(cls, {}).items()]
    remedy = f"Give the attention `{same[0]}`." if same else "docs/migrate.md lists heads that start closer."
    warnings.warn(
        f"Quality is lost until the model is trained: with {heads} the first {len(blocks)} blocks start "
        f"{difference:.1%} away from the checkpoint's. {remedy}",
        stacklevel=3,
    )


def check_encoder_start(model, initialised, make):
    """Compares an encoder with one of the checkpoint's attention, which `make` makes of arguments of sizes."""
    stack = stack_of(model)
    is_new = any("attention/" in name for name in initialised)
    if is_new or {type(layer) for layer in stack.attentions} != {MultiHeadAttention}:
        sizes = {"num_layers": min(BLOCKS, len(stack.blocks))}
        reference = stack_of(make(sizes | ({"num_decoder_layers": 1} if hasattr(model, "decoder_stack") else {})))
        check_start(stack.blocks[:BLOCKS], reference.blocks, model.hidden_dim)


def stack_of(model):
    """Returns the stack of a model's encoder."""
    return getattr(model, "encoder_stack", None) or model.stack
