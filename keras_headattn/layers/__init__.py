"""Drop-in attention layers, one a file."""

from keras_headattn.layers.attention import Attention
from keras_headattn.layers.augmented_conv_2d import AugmentedConv2D, augmented_widths
from keras_headattn.layers.disentangled_mask_attention import DisentangledMaskAttention
from keras_headattn.layers.evolving_attention import EvolvingAttention
from keras_headattn.layers.gaussian_mixture import GaussianMixture
from keras_headattn.layers.interacting_head_attention import InteractingHeadAttention
from keras_headattn.layers.luong_attention import LuongAttention
from keras_headattn.layers.max_num_heads import max_num_heads
from keras_headattn.layers.multi_head_attention import MultiHeadAttention
from keras_headattn.layers.real_former_attention import RealFormerAttention
from keras_headattn.layers.relative_positions import RelativePositions, RelativePositions2D
from keras_headattn.layers.self_attentive_pooling import SelfAttentivePooling
from keras_headattn.layers.synthesizer_attention import SynthesizerAttention
from keras_headattn.layers.talking_heads_attention import TalkingHeadsAttention
from keras_headattn.layers.transformer_block import DecoderBlock, EncoderBlock

__all__ = [
    "Attention",
    "AugmentedConv2D",
    "DecoderBlock",
    "DisentangledMaskAttention",
    "EncoderBlock",
    "EvolvingAttention",
    "GaussianMixture",
    "InteractingHeadAttention",
    "LuongAttention",
    "MultiHeadAttention",
    "RealFormerAttention",
    "RelativePositions",
    "RelativePositions2D",
    "SelfAttentivePooling",
    "SynthesizerAttention",
    "TalkingHeadsAttention",
    "augmented_widths",
    "max_num_heads",
]
