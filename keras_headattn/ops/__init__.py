"""Pure functions on tensors."""

from keras_headattn.ops.attention import attend, masked_softmax
from keras_headattn.ops.cache import write_rows
from keras_headattn.ops.masks import causal_mask, check_mask, combine_masks, sliding_window_mask

__all__ = [
    "attend",
    "causal_mask",
    "check_mask",
    "combine_masks",
    "masked_softmax",
    "sliding_window_mask",
    "write_rows",
]
