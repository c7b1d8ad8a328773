"""Positions of tokens: absolute ones, added to embeddings, and relative ones, inside attention."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_absolute": ["LearnedPositions", "SinusoidalPositions"],
        "_alibi": ["ALiBiPositions"],
        "_buckets": ["BucketPositions"],
        "_positions": ["Positions"],
        "_relative": ["RelativePositions", "RelativePositions2D"],
        "_rotary": ["Llama3Positions", "NtkPositions", "RotaryPositions", "YarnPositions"],
    },
)
