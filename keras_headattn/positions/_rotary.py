"""Positions as angles by which queries and keys are rotated."""

from typing import Any

import numpy as np
from keras import backend, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_boolean, check_number, check_positive
from keras_headattn.positions._positions import Positions, as_positions


@register_keras_serializable(package="keras_headattn")
class RotaryPositions(Positions):
    """Rotation of feature pairs of queries and keys by angles proportional to the position.

    Pair i of r rotated features turns by `w_i = max_wavelength^(-2i / r) / scaling_factor` radians per position:
    `(a, b)` at position t becomes `(a cos(w_i t) - b sin(w_i t), b cos(w_i t) + a sin(w_i t))`. The product of a query
    and a key then depends only on their distance. Computed in float32, or float64 for float64 heads.

    Source: Su et al. 2021, "RoFormer: enhanced transformer with rotary position embedding", eq. 34. Scaling: Chen et
    al. 2023, "Extending context window of large language models via positional interpolation", section 2.3.

    Args:
        max_wavelength: base of the frequencies.
        rotated_share: share of the d features to rotate: the first `int(d * rotated_share)`, an even number.
        interleaved: True if features `2i` and `2i + 1` are a pair (GPT-J, GLM); False for `i` and `i + r / 2` (Llama,
            GPT-NeoX).
        scaling_factor: divisor of positions, which keeps longer sequences within the angles seen in training.

    >>> positions = RotaryPositions(max_wavelength=100)
    >>> positions.build((None, 1, None, 2))
    >>> heads = keras.ops.convert_to_tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
    >>> np.array(positions.rotate(heads, np.array([0, 1]))).round(3).tolist()
    [[[[1.0, 0.0], [0.5400000214576721, 0.8410000205039978]]]]
    """

    def __init__(
        self,
        max_wavelength: float = 10_000,
        rotated_share: float = 1.0,
        interleaved: bool = False,
        scaling_factor: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.max_wavelength = check_number("max_wavelength", max_wavelength, above=1)
        self.rotated_share = check_number("rotated_share", rotated_share, above=0, most=1)
        self.interleaved = check_boolean("interleaved", interleaved)
        self.scaling_factor = check_number("scaling_factor", scaling_factor, above=0)

    def build(self, query_shape: Shape) -> None:
        self.frequencies(self._rotated(query_shape[-1]))

    @property
    def magnitude(self) -> float:
        """Factor of rotated features."""
        return 1.0

    def frequencies(self, width: int) -> np.ndarray:
        """Returns the radians that each pair turns per position, a float64 NumPy array `(width / 2,)`.

        Args:
            width: number of rotated features.
        """
        return self.max_wavelength ** (-np.arange(0, width, 2) / width) / self.scaling_factor

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        width = heads.shape[-1]
        rotated = self._rotated(width)
        positions = as_positions("positions", positions, heads.shape[-2])
        dtype = backend.result_type(heads.dtype, "float32")
        frequencies = ops.convert_to_tensor(self.frequencies(rotated), dtype)
        angles = ops.cast(positions, dtype)[:, None] * frequencies  # (n, r / 2)
        cos, sin = self.magnitude * ops.cos(angles), self.magnitude * ops.sin(angles)
        # Split, not sliced: each gradient of a slice is a tensor of zeros as large as `heads`.
        heads, *rest = ops.split(heads, [rotated], axis=-1) if rotated < width else [heads]
        shape = ops.shape(heads)
        if self.interleaved:
            halves = ops.unstack(ops.reshape(heads, (*shape[:-1], rotated // 2, 2)), axis=-1)
        else:
            halves = ops.split(heads, 2, axis=-1)
        a, b = (ops.cast(half, dtype) for half in halves)
        pairs = [ops.cast(half, heads.dtype) for half in (a * cos - b * sin, b * cos + a * sin)]
        if self.interleaved:
            pairs = [ops.reshape(ops.stack(pairs, axis=-1), shape)]
        return ops.concatenate([*pairs, *rest], axis=-1)

    def _rotated(self, width):
        """Returns how many of `width` features are rotated."""
        rotated = int(width * self.rotated_share)
        if rotated % 2 or not rotated:
            raise ValueError(
                "Rotary positions need an even number of features to rotate, `int(width * rotated_share)`. "
                f"Received: rotated_share={self.rotated_share} of a width of {width}"
            )
        return rotated

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, RotaryPositions)}


class _Stretched(RotaryPositions):
    """Rotary positions with frequencies changed by a factor, without linear scaling."""

    def __init__(
        self,
        factor: float,
        max_wavelength: float = 10_000,
        rotated_share: float = 1.0,
        interleaved: bool = False,
        **kwargs: Any,
    ):
        super().__init__(max_wavelength, rotated_share, interleaved, 1.0, **kwargs)
        self.factor = check_number("factor", factor, least=1)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["scaling_factor"]
        return {**config, "factor": self.factor}


@register_keras_serializable(package="keras_headattn")
class NtkPositions(_Stretched):
    """Rotary positions for sequences `factor` times as long, by a larger base of the frequencies.

    For r > 2 rotated features the base is `max_wavelength * factor^(r / (r - 2))`. The fastest pair keeps its
    frequency; that of the slowest is divided by `factor`. Dynamic NTK scaling is left out: it changes the frequencies
    with the length of the sequence, so that rotated keys in a cache would become invalid.

    Source: Peng et al. 2023, "YaRN: efficient context window extension of large language models", section 3.1.

    Args:
        factor: ratio of sequence lengths, at least 1.
        max_wavelength, rotated_share, interleaved: as in `RotaryPositions`.

    >>> positions = NtkPositions(factor=8)
    >>> plain, stretched = RotaryPositions().frequencies(16), positions.frequencies(16)
    >>> (plain / stretched)[[0, -1]].round(6).tolist()
    [1.0, 8.0]
    """

    def frequencies(self, width: int) -> np.ndarray:
        if width < 4:
            raise ValueError(f"NTK scaling needs at least 4 features to rotate. Received: {width}")
        base = self.max_wavelength * self.factor ** (width / (width - 2))
        return base ** (-np.arange(0, width, 2) / width)


@register_keras_serializable(package="keras_headattn")
class YarnPositions(_Stretched):
    """Rotary positions for sequences `factor` times as long, with low frequencies divided, as in YaRN.

    Pairs that turn more than `beta_fast` times in the original length keep their frequency; pairs that turn less than
    `beta_slow` times have theirs divided by `factor`. In between, the two are mixed in shares linear in the index of
    the pair. Rotated features are multiplied by `(0.1 * mscale * ln(factor) + 1) / (0.1 * mscale_all_dim * ln(factor) +
    1)`.

    Source: Peng et al. 2023, "YaRN: efficient context window extension of large language models", sections 3.2 and 3.4,
    with the pair's index in place of its wavelength as in all public code.

    Args:
        factor: ratio of sequence lengths, at least 1.
        original_max_length: length of sequences in training.
        beta_fast, beta_slow: numbers of turns in that length, the first greater than the second.
        truncate: True to round the range between them outwards to whole pairs.
        mscale, mscale_all_dim: weights of the two logarithms.
        max_wavelength, rotated_share, interleaved: as in `RotaryPositions`.

    >>> positions = YarnPositions(factor=4, original_max_length=64)
    >>> round(positions.magnitude, 4)
    1.1386
    >>> plain = RotaryPositions().frequencies(12)
    >>> (plain / positions.frequencies(12)).round(2).tolist()
    [1.0, 1.6, 4.0, 4.0, 4.0, 4.0]
    """

    def __init__(
        self,
        factor: float,
        original_max_length: int,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        truncate: bool = True,
        mscale: float = 1.0,
        mscale_all_dim: float = 0.0,
        max_wavelength: float = 10_000,
        rotated_share: float = 1.0,
        interleaved: bool = False,
        **kwargs: Any,
    ):
        super().__init__(factor, max_wavelength, rotated_share, interleaved, **kwargs)
        self.original_max_length = check_positive("original_max_length", original_max_length)
        self.beta_slow = check_number("beta_slow", beta_slow, above=0)
        self.beta_fast = check_number("beta_fast", beta_fast, above=beta_slow)
        self.truncate = check_boolean("truncate", truncate)
        self.mscale = check_number("mscale", mscale, least=0)
        self.mscale_all_dim = check_number("mscale_all_dim", mscale_all_dim, least=0)

    @property
    def magnitude(self) -> float:
        longer = 0.1 * float(np.log(self.factor))
        return (self.mscale * longer + 1) / (self.mscale_all_dim * longer + 1)

    def frequencies(self, width: int) -> np.ndarray:
        plain = super().frequencies(width)
        turns = np.array([self.beta_fast, self.beta_slow])
        # Indices of the pairs that turn so many times in the original length, as real numbers.
        ends = width * np.log(self.original_max_length / (2 * np.pi * turns)) / (2 * np.log(self.max_wavelength))
        ends = [np.floor(ends[0]), np.ceil(ends[1])] if self.truncate else ends
        first, last = np.clip(ends, 0, width - 1)
        slow = np.clip((np.arange(width // 2) - first) / max(last - first, 1e-3), 0, 1)
        return plain * (1 - slow) + plain / self.factor * slow

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, YarnPositions)}


@register_keras_serializable(package="keras_headattn")
class Llama3Positions(_Stretched):
    """Rotary positions for sequences `factor` times as long, with low frequencies divided, as in Llama 3.1.

    Pairs that turn more than `high_freq_factor` times in the original length keep their frequency; pairs that turn less
    than `low_freq_factor` times have theirs divided by `factor`. In between, the two are mixed in shares linear in the
    number of turns.

    Source: Meta's Llama 3.1 model code (no paper): `rope_type` "llama3" of Hugging Face.

    Args:
        factor: ratio of sequence lengths, at least 1.
        original_max_length: length of sequences in training.
        low_freq_factor, high_freq_factor: numbers of turns in that length, the first less than the second.
        max_wavelength, rotated_share, interleaved: as in `RotaryPositions`.

    >>> positions = Llama3Positions(factor=8, original_max_length=64)
    >>> plain = RotaryPositions().frequencies(12)
    >>> (plain / positions.frequencies(12)).round(2).tolist()
    [1.0, 2.11, 8.0, 8.0, 8.0, 8.0]
    """

    def __init__(
        self,
        factor: float,
        original_max_length: int,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        max_wavelength: float = 10_000,
        rotated_share: float = 1.0,
        interleaved: bool = False,
        **kwargs: Any,
    ):
        super().__init__(factor, max_wavelength, rotated_share, interleaved, **kwargs)
        self.original_max_length = check_positive("original_max_length", original_max_length)
        self.low_freq_factor = check_number("low_freq_factor", low_freq_factor, above=0)
        self.high_freq_factor = check_number("high_freq_factor", high_freq_factor, above=low_freq_factor)

    def frequencies(self, width: int) -> np.ndarray:
        plain = super().frequencies(width)
        turns = self.original_max_length * plain / (2 * np.pi)
        fast = np.clip((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor), 0, 1)
        return plain * fast + plain / self.factor * (1 - fast)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, Llama3Positions)}
