"""Drop-in attention layers, one a file."""

from keras_headattn.layers.attention import Attention
from keras_headattn.layers.interacting_head_attention import InteractingHeadAttention
from keras_headattn.layers.luong_attention import LuongAttention
from keras_headattn.layers.max_num_heads import max_num_heads
from keras_headattn.layers.multi_head_attention import MultiHeadAttention
from keras_headattn.layers.talking_heads_attention import TalkingHeadsAttention
from keras_headattn.layers.transformer_block import DecoderBlock, EncoderBlock

__all__ = [
    "Attention",
    "DecoderBlock",
    "EncoderBlock",
    "InteractingHeadAttention",
    "LuongAttention",
    "MultiHeadAttention",
    "TalkingHeadsAttention",
    "max_num_heads",
]
