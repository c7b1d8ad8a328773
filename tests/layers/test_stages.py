"""What a subclass may rely on: which stages are called, and what they are given."""

import importlib
import inspect
import pkgutil

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.layers._attention import STAGE_OF
from tests.layers.harness import SIZES, array, check_close, self_input
from tests.refusals import refused

PRIVATE = [name for name in STAGE_OF if hasattr(keras.layers.MultiHeadAttention, name)]


class Positioned(layers.MultiHeadAttention):
    """Adds the position of each key to its value, and notes it."""

    def project_key_value(self, key, value, state):
        self.noted = array(state.key_positions).tolist()
        entry = super().project_key_value(key, value, state)
        return entry | {"value": entry["value"] + keras.ops.cast(state.key_positions, "float32")[:, None]}


FUSED = [
    (layers.MultiHeadAttention, {}),
    (layers.CollaborativeAttention, {}),
    (layers.DifferentialAttention, {"per_token": True}),
    (layers.InterleavedHeadAttention, {}),
]


@pytest.mark.parametrize("layer, options", FUSED)
@pytest.mark.parametrize("stage", ["score", "weigh", "drop", "mix"])
def test_an_overridden_stage_ends_the_fused_path(layer, options, stage):
    def halved(self, *inputs):
        return 0.5 * getattr(super(changed, self), stage)(*inputs)

    changed = type("Changed", (layer,), {stage: halved})
    x, attention = self_input(), changed(**SIZES, **options)
    output, _ = attention(x, x, return_attention_scores=True)
    check_close(attention(x, x), output)
    plain = layer(**SIZES, **options)
    plain.build(x.shape, x.shape)
    plain.set_weights(attention.get_weights())
    assert not np.allclose(plain(x, x), output)


def test_key_positions_are_those_of_the_keys_given():
    x, layer = self_input(length=4), Positioned(**SIZES)
    at_once = layer(x, x, use_causal_mask=True)
    assert layer.noted == [0, 1, 2, 3]
    cache, steps = layer.init_cache(len(x), 6), []
    assert len(layer.noted) == 1
    for index in (0, 2):
        piece = x[:, index : index + 2]
        step, cache = layer(piece, piece, cache=cache, index=index, use_causal_mask=True)
        assert layer.noted == [index, index + 1]
        steps.append(array(step))
    check_close(np.concatenate(steps, axis=1), at_once)
    layer(x[:, :1], x[:, :1], cache=cache, index=4, positions=np.array([9]), use_causal_mask=True)
    assert layer.noted == [9]
    layer.project_cache(x)
    assert layer.noted == [0, 1, 2, 3]


@pytest.mark.parametrize("name", STAGE_OF)
def test_overrides_of_the_stock_layer_are_refused(name):
    with refused(f"`{name}`", "class Changed", TypeError):
        type("Changed", (layers.MultiHeadAttention,), {name: lambda self: None})


def test_the_stock_layers_have_these_methods_and_no_others():
    """Those that it has no longer were Keras 2's."""
    assert {*STAGE_OF} - {*PRIVATE} <= {"_build_from_signature"}
    names = {*vars(keras.layers.MultiHeadAttention), *vars(keras.layers.GroupQueryAttention)}
    private = {name for name in names if name.startswith("_") and not name.startswith(("__", "_api_export"))}
    assert private <= {*STAGE_OF}


def test_a_bias_of_large_numbers_is_none():
    x, layer = self_input(), layers.MultiHeadAttention(**SIZES)
    layer(x, x, bias=np.linspace(-2e4, 0, x.shape[1], dtype="float32")[None, None, None])
    layer(x, x, bias=np.zeros((1, 1, 1, x.shape[1]), "float32"))


def private_overrides(cls):
    """Private names of a class that one of its bases has too: none of them is meant to be overridden."""
    for name in vars(cls):
        if name.startswith("_") and not name.startswith("__"):
            yield from (f"{cls.__name__}.{name}, of {base.__name__}" for base in cls.__mro__[1:] if name in vars(base))


@pytest.mark.parametrize("room", ["layers", "models", "positions"])
def test_no_private_method_is_overridden(room):
    """A variant replaces public methods, of which this library promises when they are called."""
    package = importlib.import_module(f"keras_headattn.{room}")
    names = [module.name for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    modules = map(importlib.import_module, names)
    classes = {cls for module in modules for cls in vars(module).values() if inspect.isclass(cls)}
    classes = [cls for cls in classes if cls.__module__.startswith("keras_headattn.")]
    assert len(classes) > 5 and [found for cls in classes for found in private_overrides(cls)] == []


def test_an_override_of_a_private_method_is_found():
    wrong = type("Wrong", (layers.MultiHeadAttention,), {"_queries": None, "_own": None})
    assert list(private_overrides(wrong)) == ["Wrong._queries, of Attention"]
