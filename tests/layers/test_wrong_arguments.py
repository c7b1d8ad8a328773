"""Every wrong argument of a constructor is an error, at once, that names it."""

import inspect
import math

import keras
import pytest

from keras_headattn import layers, positions
from keras_headattn.layers import ATTENTIONS, GraphAttention, MultiHeadAttention
from tests.refusals import refused

SIZES = ("num_heads", "key_dim", "value_dim", "sliding_window", "num_clusters", "kernel_size", "max_length")
SIZES += ("num_key_value_heads", "num_components", "num_pseudo_tokens", "shared_dim", "mix_weights")
SIZES += ("key_heads", "value_heads", "dilation_rate")
SIZES += ("intermediate_dim", "hidden_dim", "filters", "strides", "max_distance", "height", "width")
BOOLEANS = ("use_bias", "use_gate", "use_sinks", "flash_attention", "convolve_first", "static")
BOOLEANS += ("pre_compose", "post_compose", "query_compose", "key_compose", "leave_one_out", "detach_neighbours")
BOOLEANS += ("mix_logits", "head_norm", "output_gate", "value_residual")
BOOLEANS += ("downsample", "gated", "transform_scale", "interleaved", "truncate")
BOOLEANS += ("bidirectional", "endpoint")
KINDS = {
    SIZES: (0, -1, 10**30, 2.0, True, "2", object()),
    BOOLEANS: ("False", 1, 0.5, object()),
    ("qk_norm",): ("False", 1, 0.0, -0.5, math.nan, math.inf, object()),
    ("rank", "depth", "shared_heads", "active_heads"): (-1, 10**30, 2.0, True, "2", object()),
    ("logits_kernel_size", "weights_kernel_size"): ((3, 4), (0, 3), (3,), (2.0, 3), 5, "35", object()),
    ("knocking",): ((), "values", ("key", "key"), ("value", "value_mlp"), 3, object()),
    ("seed",): ("1", 1.5, True, 10**30, object()),
    ("dropout", "activation_dropout", "epsilon", "centre_gradient", "balance"): ("0.1", -1, math.nan, True, object()),
}


DIFFERENT = {layers.LuongAttention: {"num_heads": 1}}


def wrong_values(name):
    for names, values in KINDS.items():
        if name in names:
            return values
    if name.endswith(("initializer", "_constraint")) or name.endswith("_regularizer"):
        return ("nonsense", 3, object()) + ((len, object) if name.endswith("initializer") else ())
    return ()


def arguments_of(cls):
    return {name for each in cls.__mro__ if each.__module__.startswith("keras_headattn") for name in _of(each)}


def _of(cls):
    return inspect.signature(cls.__init__).parameters if "__init__" in vars(cls) else ()  # Keras checks its own


CASES = [
    pytest.param(cls, name, id=f"{cls.__name__}-{name}")
    for cls in ATTENTIONS.values()
    for name in sorted(arguments_of(cls))
    if wrong_values(name)
]


@pytest.mark.parametrize("cls, name", CASES)
def test_attention(cls, name):
    for value in wrong_values(name):
        given = {"num_heads": 2, "key_dim": 4, **DIFFERENT.get(cls, {}), name: value}
        with pytest.raises((ValueError, TypeError), match=f"`{name}`.*Received: .*{name}=|has one head.*num_heads="):
            cls(**given)


OTHERS = {
    layers.EncoderBlock: {"attention": MultiHeadAttention(2, 4), "intermediate_dim": 8},
    layers.DecoderBlock: {"attention": MultiHeadAttention(2, 4), "intermediate_dim": 8},
    layers.GraphBlock: {"attention": GraphAttention(2, 4), "intermediate_dim": 8},
    layers.AugmentedConv1D: {"filters": 20, "kernel_size": 3, "attention": MultiHeadAttention(2, 4)},
    layers.AugmentedConv2D: {"filters": 20, "kernel_size": 3, "attention": MultiHeadAttention(2, 4)},
    layers.FeedForward: {"intermediate_dim": 8},
    layers.GaussianMixture: {"num_clusters": 2},
    layers.SelfAttentivePooling: {"num_heads": 2, "hidden_dim": 4},
    positions.SinusoidalPositions: {},
    positions.LearnedPositions: {"max_length": 5},
    positions.RelativePositions: {"max_distance": 3},
    positions.RelativePositions2D: {"height": 3, "width": 3},
    positions.BucketPositions: {},
    positions.RotaryPositions: {},
    positions.YarnPositions: {"factor": 2.0, "original_max_length": 9},
}


def test_all_layers_are_here():
    """`Positions` and ALiBi take no arguments; the other rotary positions take those of rotary ones."""
    public = [getattr(room, name) for room in (layers, positions) for name in room.__all__]
    public = {each for each in public if isinstance(each, type) and issubclass(each, keras.layers.Layer)}
    attentions = {each for each in public if issubclass(each, layers.Attention)}
    without = {positions.Positions, positions.ALiBiPositions, positions.NtkPositions, positions.Llama3Positions}
    assert public - attentions - without == set(OTHERS)


@pytest.mark.parametrize("cls", OTHERS, ids=lambda cls: cls.__name__)
def test_other_layers(cls):
    names = [name for name in sorted(arguments_of(cls)) if wrong_values(name)]
    names += ["relative_positions"] if cls is layers.AugmentedConv2D else []
    for name in names:
        for value in wrong_values(name) or wrong_values("use_bias"):
            with refused(f"`{name}`", f"{name}=", (ValueError, TypeError)):
                cls(**{**OTHERS[cls], name: value})


@pytest.mark.parametrize("cls", ATTENTIONS.values(), ids=lambda cls: cls.__name__)
def test_arguments_of_its_own_are_keywords(cls):
    """An editor names them all, and none takes the place of an argument of `Attention`."""
    signature = inspect.signature(cls.__init__).parameters.values()
    assert not any(each.kind is each.VAR_POSITIONAL for each in signature)
    own = {each.name: each.kind for each in signature} if "__init__" in vars(cls) else {}
    base = inspect.signature(layers.Attention.__init__).parameters
    assert {kind for name, kind in own.items() if name not in base} <= {inspect.Parameter.KEYWORD_ONLY}
