"""Pure functions on tensors."""

from keras_headattn.ops._attention import attend, masked_softmax
from keras_headattn.ops._disentanglement import cluster_diversity, kept_information, shared_information
from keras_headattn.ops._exchange_heads import exchange_heads
from keras_headattn.ops._graph import graph_adjacency
from keras_headattn.ops._linear_crossentropy import linear_crossentropy
from keras_headattn.ops._map_convolution import convolve_maps
from keras_headattn.ops._masks import causal_mask, combine_masks, sliding_window_mask
from keras_headattn.ops._resize_bilinear import resize_bilinear
from keras_headattn.ops._stein import stein_gradient

__all__ = [
    "attend",
    "causal_mask",
    "cluster_diversity",
    "combine_masks",
    "convolve_maps",
    "exchange_heads",
    "graph_adjacency",
    "kept_information",
    "linear_crossentropy",
    "masked_softmax",
    "resize_bilinear",
    "shared_information",
    "sliding_window_mask",
    "stein_gradient",
]
