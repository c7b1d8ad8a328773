"""Every wrong argument of a constructor is an error, at once, that names it."""

import inspect

import pytest

from keras_headattn import layers, positions
from keras_headattn.layers import ATTENTIONS

SIZES = ("num_heads", "key_dim", "value_dim", "sliding_window", "num_clusters", "kernel_size", "max_length")
BOOLEANS = ("use_bias", "use_gate", "use_sinks", "qk_norm", "flash_attention", "convolve_first", "static")
BOOLEANS += ("pre_compose", "post_compose", "query_compose", "key_compose", "leave_one_out")
KINDS = {
    SIZES: (0, -1, 10**30, 2.0, True, "2", object()),
    BOOLEANS: ("False", 1, 0.5, object()),
    ("rank", "depth"): (-1, 10**30, 2.0, True, "2", object()),
    ("seed",): ("1", 1.5, True, object()),
}


DIFFERENT = {layers.LuongAttention: {"num_heads": 1}}


def wrong_values(name):
    for names, values in KINDS.items():
        if name in names:
            return values
    if name.endswith(("_initializer", "_constraint")) or name.endswith("_regularizer"):
        return ("nonsense", 3, object()) + ((len, object) if name.endswith("_initializer") else ())
    return ()


def arguments_of(cls):
    return {name for each in cls.__mro__ if each.__module__.startswith("keras_headattn") for name in _of(each)}


def _of(cls):
    return inspect.signature(cls.__init__).parameters


CASES = [
    pytest.param(cls, name, id=f"{cls.__name__}-{name}")
    for cls in (getattr(layers, name) for name in ATTENTIONS.values())
    for name in sorted(arguments_of(cls))
    if wrong_values(name)
]


@pytest.mark.parametrize("cls, name", CASES)
def test_attention(cls, name):
    for value in wrong_values(name):
        given = {"num_heads": 2, "key_dim": 4, **DIFFERENT.get(cls, {}), name: value}
        with pytest.raises((ValueError, TypeError), match=f"`{name}`.*Received: .*{name}=|has one head.*num_heads="):
            cls(**given)


@pytest.mark.parametrize("value", [0, -3, 10**30, 1.5, "4", None])
def test_lengths_of_positions(value):
    with pytest.raises(ValueError, match="`max_length` must be.*Received: max_length="):
        positions.LearnedPositions(value)
