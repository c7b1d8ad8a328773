"""Pure functions on tensors."""

from keras_headattn.ops.attention import attend, masked_softmax
from keras_headattn.ops.cache import write_rows
from keras_headattn.ops.disentanglement import cluster_diversity, kept_information, shared_information
from keras_headattn.ops.map_convolution import convolve_maps
from keras_headattn.ops.masks import causal_mask, check_mask, combine_masks, sliding_window_mask
from keras_headattn.ops.resize_bilinear import resize_bilinear
from keras_headattn.ops.stein import stein_gradient
from keras_headattn.ops.threefry import threefry_normal

__all__ = [
    "attend",
    "causal_mask",
    "check_mask",
    "cluster_diversity",
    "combine_masks",
    "convolve_maps",
    "kept_information",
    "masked_softmax",
    "resize_bilinear",
    "shared_information",
    "sliding_window_mask",
    "stein_gradient",
    "threefry_normal",
    "write_rows",
]
