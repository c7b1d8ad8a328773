"""Layers and models that other libraries, or collaborative heads, have no equal of."""

import keras
import numpy as np

from keras_headattn.interop import copy_attention, of_addons, to_collaborative, to_hugging_face
from keras_headattn.layers import GroupedQueryAttention, InteractingHeadAttention, MultiHeadAttention
from keras_headattn.positions import RelativePositions, RotaryPositions
from tests.interop.test_attentions import addons_tensors
from tests.layers.harness import build, self_input
from tests.refusals import refusals


def into_keras(layer):
    return lambda: copy_attention(
        build(layer, self_input()), build(keras.layers.MultiHeadAttention(2, 4), self_input())
    )


def collaborative(layer, *arguments):
    return lambda: to_collaborative(build(layer, self_input()), *arguments)


def with_lora():
    layer = build(MultiHeadAttention(4, 3), self_input())
    layer.query_dense.enable_lora(2)
    to_collaborative(layer)


def of_addons_without(name):
    tensors = {f"mha/{name}": tensor for name, tensor in addons_tensors().items()}
    return lambda: of_addons({key: tensor for key, tensor in tensors.items() if key != f"mha/{name}"})


test_attention_of_keras = refusals(
    (into_keras(InteractingHeadAttention(2, 4)), "layers.absorb", "InteractingHeadAttention"),
    (into_keras(MultiHeadAttention(2, 4, qk_norm=True, scale=1.0)), "qk_norm, scale", "a layer"),
    (into_keras(GroupedQueryAttention(2, 4, num_key_value_heads=1)), "its equal", "GroupedQueryAttention"),
)

test_attention_of_addons = refusals(
    (of_addons_without("key_kernel"), "kernels", "mha without key_kernel"),
    (lambda: of_addons({"dense/kernel": np.zeros(1)}), "query_kernel", "dense/kernel"),
)

test_collaborative_heads = refusals(
    (collaborative(GroupedQueryAttention(4, 3)), "source", "GroupedQueryAttention"),
    (collaborative(MultiHeadAttention(4, 3, qk_norm=True)), "qk_norm", "multi_head_attention"),
    (collaborative(MultiHeadAttention(3, 4, relative_positions=RotaryPositions())), "RotaryPositions", ""),
    (collaborative(MultiHeadAttention(4, 3, relative_positions=RelativePositions(2))), "RelativePositions", ""),
    (collaborative(MultiHeadAttention(4, 3, use_sinks=True)), "use_sinks", ""),
    (collaborative(MultiHeadAttention(4, 3, attn_logits_soft_cap=2.0)), "attn_logits_soft_cap", ""),
    (collaborative(MultiHeadAttention(4, 3), 0), "shared_dim", 0),
    (collaborative(MultiHeadAttention(4, 3), 2.0), "shared_dim", 2.0),
    (collaborative(MultiHeadAttention(4, 3), 13), "shared_dim", 13),
    (lambda: to_collaborative(MultiHeadAttention(4, 3)), "built", "without weights"),
    (with_lora, "LoRA", "multi_head_attention"),
)

test_models = refusals((lambda: to_hugging_face(keras.Sequential(), "none"), "model", "Sequential"))
