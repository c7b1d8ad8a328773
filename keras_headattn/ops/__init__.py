"""Pure functions on tensors."""

from keras_headattn.ops._attention import attend, head_product, key_product, masked_softmax
from keras_headattn.ops._cache import row_indices, write_rows
from keras_headattn.ops._dense import (
    apply_head_kernels,
    apply_kernel,
    is_one,
    normalize,
    rms_normalize,
    sizes,
    swap_heads,
    take,
)
from keras_headattn.ops._disentanglement import cluster_diversity, kept_information, shared_information
from keras_headattn.ops._exchange_heads import exchange_heads
from keras_headattn.ops._graph import graph_adjacency
from keras_headattn.ops._map_convolution import convolve_maps
from keras_headattn.ops._masks import causal_mask, check_dense, check_mask, combine_masks, sliding_window_mask
from keras_headattn.ops._resize_bilinear import resize_bilinear
from keras_headattn.ops._stein import stein_gradient
from keras_headattn.ops._threefry import threefry_normal

__all__ = [
    "apply_head_kernels",
    "apply_kernel",
    "attend",
    "causal_mask",
    "check_dense",
    "check_mask",
    "cluster_diversity",
    "combine_masks",
    "convolve_maps",
    "exchange_heads",
    "graph_adjacency",
    "head_product",
    "is_one",
    "kept_information",
    "key_product",
    "masked_softmax",
    "normalize",
    "resize_bilinear",
    "rms_normalize",
    "row_indices",
    "shared_information",
    "sizes",
    "sliding_window_mask",
    "stein_gradient",
    "swap_heads",
    "take",
    "threefry_normal",
    "write_rows",
]
