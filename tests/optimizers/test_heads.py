"""Which weights are those of heads, and which of them `Repulsive` acts on."""

import contextlib
import itertools

import keras
import numpy as np
import pytest

from keras_headattn.layers import (
    AugmentedConv2D,
    InteractingHeadAttention,
    MultiHeadAttention,
    SelfAttentivePooling,
    TalkingHeadsAttention,
)
from keras_headattn.optimizers import Repulsive, head_axis, mark_heads
from keras_headattn.optimizers._heads import describe, head_kernels, select_heads
from tests.models.small import make
from tests.refusals import refused


@pytest.fixture(scope="module")
def transformer():
    return make(num_layers=2)


def selected(model, **arguments):
    optimizer = Repulsive("sgd", verbose=False, **arguments)
    optimizer.build(model.trainable_variables)
    keys = {optimizer._var_key(variable): variable.path for variable in model.trainable_variables}
    return [keys[key] for key in optimizer._head_axes]


def test_all(transformer):
    assert len(selected(transformer)) == 3 * 6
    assert not any("attention_output" in path for path in selected(transformer))


def test_projections(transformer):
    found = selected(transformer, projections=["value"])
    assert len(found) == 6 and all(path.endswith("value/kernel") for path in found)


@pytest.mark.parametrize(
    "role, layer",
    [
        ("encoder", "encoder_1/attention"),
        ("decoder", "decoder_1/attention"),
        ("cross", "decoder_1/cross_attention"),
    ],
)
def test_roles_and_layers(transformer, role, layer):
    assert len(selected(transformer, roles=[role])) == 6
    last = selected(transformer, roles=[role], layers="last")
    assert len(last) == 3 and all(f"{layer}/" in path for path in last)
    first = selected(transformer, roles=[role], layers="first")
    assert len(first) == 3 and all(f"{layer.replace('_1', '_0')}/" in path for path in first)


def test_pattern_and_function(transformer):
    assert len(selected(transformer, select=r"encoder_0/.*/(query|key)/")) == 2
    assert len(selected(transformer, select=lambda path: "decoder_1" in path)) == 6


def test_stock_layers():
    inputs = keras.Input((4, 8))
    hidden = keras.layers.MultiHeadAttention(2, 4)(inputs, inputs)
    outputs = keras.layers.GroupQueryAttention(4, 4, 2)(hidden, hidden)
    assert len(selected(keras.Model(inputs, outputs))) == 6


def test_pairs_of_heads():
    """Also where the input is as wide as there are pairs."""
    inputs = keras.Input((4, 16))
    outputs = InteractingHeadAttention(num_heads=4, key_dim=2, interaction="pairwise")(inputs, inputs)
    model = keras.Model(inputs, outputs)
    assert [kernel.axis for kernel in head_kernels(model.trainable_variables)] == [1, 1, 1, 0]
    assert len(selected(model)) == 3


def test_augmented_convolution():
    inputs = keras.Input((4, 4, 8))
    outputs = AugmentedConv2D(12, 3, MultiHeadAttention(num_heads=2, key_dim=4))(inputs)
    assert len(selected(keras.Model(inputs, outputs))) == 3


TALKING = list(itertools.product((2, 4), (1, 2, 4), (1, 2, 4, 16), (None, 4, 16)))


@pytest.mark.parametrize("num_heads, key_heads, value_heads, value_dim", TALKING)
def test_talking_heads(num_heads, key_heads, value_heads, value_dim):
    """Also where one count of heads is as large as another, or as the width."""
    layer = TalkingHeadsAttention(num_heads, 4, value_dim, key_heads=key_heads, value_heads=value_heads)
    layer.build((None, 5, 16), (None, 5, 16))
    found = {kernel.projection: (kernel.axis, kernel.variable) for kernel in head_kernels(layer.weights)}
    assert {name: (axis, variable.shape[axis]) for name, (axis, variable) in found.items()} == {
        "query": (1, key_heads),
        "key": (1, key_heads),
        "value": (1, value_heads),
        "attention_output": (0, value_heads),
    }
    assert len(select_heads(layer.trainable_variables)) == 3


def dense(rows=4, columns=6, **arguments):
    layer = keras.layers.Dense(columns, **arguments)
    layer.build((None, rows))
    return layer


def test_marked_kernel():
    layer = dense()
    assert head_axis(layer.kernel) is None
    mark_heads(layer.kernel, -1, "scores")
    assert head_axis(layer.kernel) == 1
    optimizer = Repulsive("sgd", verbose=False)
    optimizer.build(layer.trainable_variables)
    assert list(optimizer._head_axes.values()) == [1]


def test_a_mark_goes_before_path_and_shape():
    """A kernel by the name of a query's, with its heads elsewhere, in a decoder by its path."""

    class Attention(keras.layers.Layer):
        def build(self, shape):
            self.query = keras.layers.EinsumDense("abc,cde->abde", (None, 4, 2), name="query")
            self.key = keras.layers.EinsumDense("abc,cde->abde", (None, 4, 2), name="key")
            for layer in (self.query, self.key):
                layer.build(shape)
            mark_heads(self.query.kernel, 2, "halves", "cross")

    layer = Attention(name="decoder_attention")
    layer.build((None, 5, 8))
    (found,) = head_kernels(layer.weights)  # the key has no mark, and it is not guessed at
    assert (found.axis, found.projection, found.role) == (2, "halves", "cross")
    assert found.variable is layer.query.kernel and found.layer == "decoder_attention"


def nested(attention, width=8):
    inputs = keras.Input((4, width))
    hidden = attention(name="attention")(inputs, inputs)
    return keras.Model(inputs, keras.layers.Dense(8, name="dense")(hidden))


def stock(heads):
    return lambda name: keras.layers.MultiHeadAttention(heads, 4, name=name)


def ours(heads):
    return lambda name: MultiHeadAttention(heads, 4, name=name)


@pytest.mark.parametrize("kind", [stock, ours])
def test_nested_models_of_the_same_path(kind):
    """Each has a first layer, and heads of its own number: here the second has as many as the first is wide."""
    models = nested(kind(2)), nested(kind(8))
    inputs = keras.Input((4, 8))
    model = keras.Model(inputs, models[1](models[0](inputs)))
    paths = [[weight.path for weight in model.trainable_variables] for model in models]
    assert paths[0] == paths[1]
    for layers, number in (("first", 0), ("last", 1)):
        chosen = select_heads(model.trainable_variables, layers=layers)
        kernels = {id(weight) for weight in models[number].trainable_variables}
        assert len(chosen) == 3 and all(id(kernel.variable) in kernels for kernel in chosen)
        assert [kernel.axis for kernel in chosen] == [1, 1, 1] and {kernel.number for kernel in chosen} == {number}
        assert "in attention layers: 1 encoder" in describe(chosen)
    assert "of 2/8 heads, in attention layers: 2 encoder" in describe(select_heads(model.trainable_variables))


def test_marked_kernels_are_projections_by_their_name():
    pooling, inputs = SelfAttentivePooling(num_heads=4, hidden_dim=8), keras.Input((5, 8))
    hidden = MultiHeadAttention(2, 4)(inputs, inputs)
    model = keras.Model(inputs, pooling(hidden))
    assert len(selected(model)) == 4
    (path,) = selected(model, projections=["head_kernel"])
    assert path.endswith("head_kernel")
    (path,) = selected(model, projections=["value"])
    assert path.endswith("value/kernel")
    with refused("`projections` must be among head_kernel, key, query, value", "'vaule'"):
        selected(model, projections=["vaule"])


def test_public_code(golden):
    """Which weights it acts on, by name."""
    data = golden("svgd_selection.npz")
    variables = []
    for name in data["names"]:
        *outer, own = name.split("/")
        with contextlib.ExitStack() as scopes:
            for scope in outer:
                scopes.enter_context(keras.name_scope(scope))
            variables.append(keras.Variable(np.ones((4, 2, 2)), name=own))
    optimizer = Repulsive("sgd", verbose=False, select=r"electra/.*/layer_0/attention/self/.*/kernel")
    optimizer.build(variables)
    found = [optimizer._var_key(variable) in optimizer._head_axes for variable in variables]
    assert [variable.path for variable in variables] == list(data["names"]) and found == list(data["touched"])


@pytest.mark.parametrize(
    "name, options, query, key",
    [
        ("Bert", dict(num_heads=4, hidden_dim=16, max_sequence_length=8), 4, 4),
        ("GPT2", dict(num_heads=4, hidden_dim=16, max_sequence_length=8), 4, 4),
        ("Llama", dict(num_query_heads=4, num_key_value_heads=2, hidden_dim=16), 4, 2),
        ("Gemma", dict(num_query_heads=4, num_key_value_heads=2, hidden_dim=16, head_dim=8), 4, 2),
    ],
)
def test_backbones(name, options, query, key):
    """Some have the heads before the width of the input, some after it."""
    keras_hub = pytest.importorskip("keras_hub")
    backbone = getattr(keras_hub.models, f"{name}Backbone")
    model = backbone(vocabulary_size=10, num_layers=1, intermediate_dim=16, **options)
    found = {kernel.projection: kernel for kernel in select_heads(model.trainable_variables)}
    assert {name: kernel.variable.shape[kernel.axis] for name, kernel in found.items()} == {
        "query": query, "key": key, "value": key
    }  # fmt: skip


def test_other_layers_of_these_names_have_no_heads():
    """A convolution beside the output of an attention layer."""

    class Mixed(keras.layers.Layer):
        def build(self, shape):
            self.query = keras.layers.Conv1D(6, 3, name="query")
            self.attention_output = keras.layers.EinsumDense("abcd,cde->abe", (None, 8), name="attention_output")
            self.query.build((None, 5, 8))
            self.attention_output.build((None, 5, 4, 2))

    layer = Mixed()
    layer.build((None, 5, 8))
    assert [kernel.projection for kernel in head_kernels(layer.weights)] == ["attention_output"]


def test_what_it_acts_on_is_printed(transformer, capsys):
    Repulsive("sgd", layers="first").build(transformer.trainable_variables)
    assert capsys.readouterr().out == (
        "Repulsive svgd acts on 9 kernels (query/key/value) of 3 heads, "
        "in attention layers: 1 encoder, 1 decoder, 1 cross\n"
    )
