"""Drop-in attention layers."""

import re

from keras_headattn._lazy import attach

# The one table of attentions: the name that `layers.get` and every recipe know, and the class. The class is in the
# module of its name, `_multi_head_attention.py`.
ATTENTIONS = {
    "multi_head": "MultiHeadAttention",
    "talking_heads": "TalkingHeadsAttention",
    "interacting": "InteractingHeadAttention",
    "evolving": "EvolvingAttention",
    "real_former": "RealFormerAttention",
    "synthesizer": "SynthesizerAttention",
    "disentangled_mask": "DisentangledMaskAttention",
    "luong": "LuongAttention",
}

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        **{re.sub("(?=[A-Z])", "_", name).lower(): [name] for name in ATTENTIONS.values()},
        "_attention": ["Attention"],
        "_augmented_conv_2d": ["AugmentedConv2D", "augmented_widths"],
        "_feed_forward": ["FeedForward"],
        "_gaussian_mixture": ["GaussianMixture"],
        "_self_attentive_pooling": ["SelfAttentivePooling"],
        "_transformer_block": ["DecoderBlock", "EncoderBlock"],
    },
)
