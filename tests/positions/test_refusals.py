"""What positions refuse. Every wrong value of their arguments is in `tests/layers/test_wrong_arguments.py`."""

import functools
import math

import numpy as np
import pytest

from keras_headattn.positions import (
    BucketPositions,
    Llama3Positions,
    NtkPositions,
    RotaryPositions,
    SinusoidalPositions,
    YarnPositions,
)
from tests.positions.cases import built, heads
from tests.refusals import refusals, values

PLACES = np.arange(6)
SCALED = (
    NtkPositions,
    functools.partial(YarnPositions, original_max_length=64),
    functools.partial(Llama3Positions, original_max_length=64),
)

test_arguments = refusals(
    *values(BucketPositions, num_buckets=(0, True, 2, 31), max_distance=(8, math.nan)),
    (lambda: BucketPositions(num_buckets=1, bidirectional=False), "`num_buckets`", "num_buckets=1"),
    (lambda: BucketPositions(max_distance=16, bidirectional=False), "`max_distance`", "max_distance=16"),
    *values(SinusoidalPositions, first=(-1,)),
    *values(RotaryPositions, max_wavelength=(1, math.inf), rotated_share=(0.0, 1.5, True)),
    *values(RotaryPositions, scaling_factor=(math.nan, -2, "2")),
    *values(NtkPositions, factor=(0.5, math.nan, True, None)),
    *(case for make in SCALED[1:] for case in values(make, factor=(0.5,))),
    *values(functools.partial(YarnPositions, 2), original_max_length=(0, 64.0)),
    *values(functools.partial(YarnPositions, 2, 64), beta_slow=(0,), beta_fast=(1.0,), mscale=(-1,)),
    *values(functools.partial(YarnPositions, 2, 64), mscale_all_dim=(math.nan,)),
    *values(functools.partial(Llama3Positions, 2), original_max_length=(True,)),
    *values(functools.partial(Llama3Positions, 2, 64), low_freq_factor=(0,), high_freq_factor=(1,)),
)


@pytest.mark.parametrize("make", SCALED)
def test_no_linear_scaling_beside_another(make):
    with pytest.raises(TypeError, match="scaling_factor"):
        make(2, scaling_factor=2.0)


test_widths = refusals(
    *(
        (
            functools.partial(call, RotaryPositions(rotated_share=share), width),
            "rotated_share",
            f"{share} of a width of {width}",
        )
        for share, width in ((1.0, 5), (0.5, 6), (0.1, 8))
        for call in (
            lambda positions, width: positions.build((None, 3, None, width)),
            lambda positions, width: positions.rotate(heads(width=width), PLACES),
        )
    ),
    (lambda: NtkPositions(2).build((None, 3, None, 2)), "features", 2),
)

WRONG_PLACES = (PLACES.astype("float32"), PLACES[None], np.arange(5))

test_places = refusals(
    *(
        (functools.partial(RotaryPositions().rotate, heads(), places), "`positions`", received)
        for places, received in (
            (np.arange(5), "shape (5,) and dtype int"),
            (np.arange(6.0), "dtype float"),
            (np.zeros(6, bool), "dtype bool"),
            (np.zeros((2, 6), "int32"), "shape (2, 6)"),
            (3, "shape ()"),
        )
    ),
    *(
        (functools.partial(built(name).bias, heads(dtype="float32"), *places), argument, "")
        for name in ("alibi", "buckets", "relative")
        for argument, places in (
            *(("`query_positions`", (wrong, PLACES)) for wrong in WRONG_PLACES),
            *(("`key_positions`", (PLACES, wrong)) for wrong in WRONG_PLACES[:2]),
        )
    ),
)
