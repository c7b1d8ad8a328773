"""Pure functions on tensors."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_attention": ["attend", "head_product", "key_product", "masked_softmax"],
        "_cache": ["row_indices", "write_rows"],
        "_dense": [
            "apply_head_kernels",
            "apply_kernel",
            "is_one",
            "normalize",
            "rms_normalize",
            "sizes",
            "swap_heads",
            "take",
        ],
        "_disentanglement": ["cluster_diversity", "kept_information", "shared_information"],
        "_exchange_heads": ["exchange_heads"],
        "_graph": ["graph_adjacency"],
        "_map_convolution": ["convolve_maps"],
        "_masks": ["causal_mask", "check_dense", "check_mask", "combine_masks", "sliding_window_mask"],
        "_resize_bilinear": ["resize_bilinear"],
        "_stein": ["stein_gradient"],
        "_threefry": ["threefry_normal"],
    },
)
