"""Named sizes of Transformers and Vision Transformers: blocks, width, feed-forward width and heads."""

SIZES = {
    # Wu et al. 2021, "Good for misconceived reasons", for Multi30k
    "tiny": {"num_layers": 4, "hidden_dim": 128, "intermediate_dim": 256, "num_heads": 4},
    # fairseq's for IWSLT
    "small": {"num_layers": 6, "hidden_dim": 512, "intermediate_dim": 1024, "num_heads": 4},
    # Vaswani et al. 2017, "Attention is all you need"
    "base": {"num_layers": 6, "hidden_dim": 512, "intermediate_dim": 2048, "num_heads": 8},
    # The same; its dropout is 0.3
    "big": {"num_layers": 6, "hidden_dim": 1024, "intermediate_dim": 4096, "num_heads": 16},
    # Wu et al. 2020, "Lite Transformer with long-short range attention"
    "lite": {"num_layers": 6, "hidden_dim": 160, "intermediate_dim": 160, "num_heads": 4},
    # Li and Luo 2022, "Interacting-head attention", who try 2 to 64 heads
    "interacting": {"num_layers": 6, "hidden_dim": 512, "intermediate_dim": 1024, "num_heads": 8},
}

VIT_SIZES = {
    # Touvron et al. 2021, "Training data-efficient image transformers"
    "vit_tiny": {"num_layers": 12, "hidden_dim": 192, "intermediate_dim": 768, "num_heads": 3},
    "vit_small": {"num_layers": 12, "hidden_dim": 384, "intermediate_dim": 1536, "num_heads": 6},
    # Dosovitskiy et al. 2021, "An image is worth 16x16 words"
    "vit_base": {"num_layers": 12, "hidden_dim": 768, "intermediate_dim": 3072, "num_heads": 12},
}


def sized(num_layers, hidden_dim, intermediate_dim, num_heads, **kwargs):
    """Returns the arguments of a size, by name."""
    sizes = dict(num_layers=num_layers, hidden_dim=hidden_dim, intermediate_dim=intermediate_dim, num_heads=num_heads)
    return {**sizes, **kwargs}


def arguments_of_size(sizes, size, **overrides):
    """Returns the arguments of a named size, replaced by those given."""
    if size not in sizes:
        raise ValueError(f"`size` must be one of {', '.join(sizes)}. Received: size={size!r}")
    return {**sizes[size], **overrides}
