"""Drop-in attention layers."""

import re

from keras_headattn._lazy import attach

# The one table of attentions: the name that `layers.get` and every recipe know, and the class. The class is in the
# module of its name, `_multi_head_attention.py`.
ATTENTIONS = {
    "multi_head": "MultiHeadAttention",
    "grouped_query": "GroupedQueryAttention",
    "talking_heads": "TalkingHeadsAttention",
    "interacting": "InteractingHeadAttention",
    "evolving": "EvolvingAttention",
    "real_former": "RealFormerAttention",
    "synthesizer": "SynthesizerAttention",
    "disentangled_mask": "DisentangledMaskAttention",
    "dynamically_composable": "DynamicallyComposableAttention",
    "differential": "DifferentialAttention",
    "luong": "LuongAttention",
    "graph": "GraphAttention",
}

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        **{re.sub("(?=[A-Z])", "_", name).lower(): [name] for name in ATTENTIONS.values()},
        "_attention": ["Attention", "State"],
        "_augmented_conv_2d": ["AugmentedConv2D", "augmented_widths"],
        "_feed_forward": ["FeedForward"],
        "_get": ["get"],
        "_graph_block": ["GraphBlock"],
        "_intermediates": ["capture_intermediates"],
        "_gaussian_mixture": ["GaussianMixture"],
        "_self_attentive_pooling": ["SelfAttentivePooling"],
        "_transformer_block": ["DecoderBlock", "EncoderBlock"],
    },
)
