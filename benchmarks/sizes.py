"""Sizes of the Transformer in the benchmarks of decoding and training."""

LAYERS = 3  # of the encoder, and again of the decoder
WIDTH = 256
FEED_FORWARD = 1024
HEADS = 4
VOCABULARY = 8000
DROPOUT = 0.1
LABEL_SMOOTHING = 0.1

TITLE = (
    f"{LAYERS} + {LAYERS} layers, {WIDTH} wide, feed-forward {FEED_FORWARD:,}, {HEADS} heads, "
    f"one vocabulary of {VOCABULARY:,}, float32"
)
