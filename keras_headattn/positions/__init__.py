"""Positions, added to embeddings or inside attention. Wrong arguments raise a ValueError that names them."""

from keras_headattn.positions._absolute import LearnedPositions, SinusoidalPositions
from keras_headattn.positions._alibi import ALiBiPositions
from keras_headattn.positions._buckets import BucketPositions
from keras_headattn.positions._positions import Positions
from keras_headattn.positions._relative import RelativePositions, RelativePositions2D
from keras_headattn.positions._rotary import Llama3Positions, NtkPositions, RotaryPositions, YarnPositions

__all__ = [
    "ALiBiPositions",
    "BucketPositions",
    "LearnedPositions",
    "Llama3Positions",
    "NtkPositions",
    "Positions",
    "RelativePositions",
    "RelativePositions2D",
    "RotaryPositions",
    "SinusoidalPositions",
    "YarnPositions",
]
