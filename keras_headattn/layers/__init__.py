"""Drop-in attention layers, blocks and poolings. Wrong arguments raise a ValueError that names them."""

from keras_headattn.layers._absorption import absorb
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._augmented_conv_1d import AugmentedConv1D
from keras_headattn.layers._augmented_conv_2d import AugmentedConv2D, augmented_widths
from keras_headattn.layers._collaborative_attention import CollaborativeAttention
from keras_headattn.layers._differential_attention import DifferentialAttention
from keras_headattn.layers._disentangled_mask_attention import DisentangledMaskAttention
from keras_headattn.layers._dynamically_composable_attention import DynamicallyComposableAttention
from keras_headattn.layers._evolving_attention import EvolvingAttention
from keras_headattn.layers._feed_forward import FeedForward
from keras_headattn.layers._gaussian_mixture import GaussianMixture
from keras_headattn.layers._get import get
from keras_headattn.layers._graph_attention import GraphAttention
from keras_headattn.layers._graph_block import GraphBlock
from keras_headattn.layers._grouped_query_attention import GroupedQueryAttention
from keras_headattn.layers._interacting_head_attention import InteractingHeadAttention
from keras_headattn.layers._interleaved_head_attention import InterleavedHeadAttention
from keras_headattn.layers._intermediates import capture_intermediates
from keras_headattn.layers._knocking_heads_attention import KnockingHeadsAttention
from keras_headattn.layers._lora import enable_lora, merge_lora
from keras_headattn.layers._luong_attention import LuongAttention
from keras_headattn.layers._mixture_of_heads_attention import MixtureOfHeadsAttention
from keras_headattn.layers._multi_head_attention import MultiHeadAttention
from keras_headattn.layers._multi_head_explicit_attention import MultiHeadExplicitAttention
from keras_headattn.layers._multi_token_attention import MultiTokenAttention
from keras_headattn.layers._paired_heads_attention import PairedHeadsAttention
from keras_headattn.layers._re_attention import ReAttention
from keras_headattn.layers._real_former_attention import RealFormerAttention
from keras_headattn.layers._self_attentive_pooling import SelfAttentivePooling
from keras_headattn.layers._state import Attended, CallState, State
from keras_headattn.layers._synthesizer_attention import SynthesizerAttention
from keras_headattn.layers._talking_heads_attention import TalkingHeadsAttention
from keras_headattn.layers._transformer_block import DecoderBlock, EncoderBlock

# Attention layers by the names that `layers.get` and the recipes accept.
ATTENTIONS = {
    "multi_head": MultiHeadAttention,
    "grouped_query": GroupedQueryAttention,
    "knocking_heads": KnockingHeadsAttention,
    "multi_head_explicit": MultiHeadExplicitAttention,
    "mixture_of_heads": MixtureOfHeadsAttention,
    "re_attention": ReAttention,
    "collaborative": CollaborativeAttention,
    "multi_token": MultiTokenAttention,
    "talking_heads": TalkingHeadsAttention,
    "interacting": InteractingHeadAttention,
    "interleaved": InterleavedHeadAttention,
    "paired_heads": PairedHeadsAttention,
    "evolving": EvolvingAttention,
    "real_former": RealFormerAttention,
    "synthesizer": SynthesizerAttention,
    "disentangled_mask": DisentangledMaskAttention,
    "dynamically_composable": DynamicallyComposableAttention,
    "differential": DifferentialAttention,
    "luong": LuongAttention,
    "graph": GraphAttention,
}

__all__ = [
    "ATTENTIONS",
    "Attended",
    "Attention",
    "AugmentedConv1D",
    "AugmentedConv2D",
    "CallState",
    "CollaborativeAttention",
    "DecoderBlock",
    "DifferentialAttention",
    "DisentangledMaskAttention",
    "DynamicallyComposableAttention",
    "EncoderBlock",
    "EvolvingAttention",
    "FeedForward",
    "GaussianMixture",
    "GraphAttention",
    "GraphBlock",
    "GroupedQueryAttention",
    "InteractingHeadAttention",
    "InterleavedHeadAttention",
    "KnockingHeadsAttention",
    "LuongAttention",
    "MixtureOfHeadsAttention",
    "MultiHeadAttention",
    "ReAttention",
    "MultiHeadExplicitAttention",
    "MultiTokenAttention",
    "PairedHeadsAttention",
    "RealFormerAttention",
    "SelfAttentivePooling",
    "State",
    "SynthesizerAttention",
    "TalkingHeadsAttention",
    "augmented_widths",
    "capture_intermediates",
    "absorb",
    "enable_lora",
    "get",
    "merge_lora",
]
