"""Heads masked one at a time: in the layers of this library and of Keras, and put back to the bit."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops
from matplotlib.backends.backend_agg import FigureCanvasAgg

from keras_headattn.analysis import draw_head_ablation, head_ablation
from keras_headattn.layers import (
    EvolvingAttention,
    GraphAttention,
    InteractingHeadAttention,
    MultiHeadAttention,
    SelfAttentivePooling,
    TalkingHeadsAttention,
)
from keras_headattn.models import Transformer
from tests.refusals import refused

X = np.random.default_rng(0).normal(size=(2, 5, 6)).astype("float32")


def model_of(layer):
    x = keras.Input(X.shape[1:])
    return keras.Model(x, layer(x, x))


def total(model):
    return lambda: float(np.sum(np.asarray(model(X), "float64")))


def weights_of(model):
    return [ops.convert_to_numpy(weight) for weight in model.weights]


def assert_untouched(model, before):
    for weight, value in zip(weights_of(model), before, strict=True):
        np.testing.assert_array_equal(weight, value)


@pytest.mark.parametrize(
    "layer, heads",
    [
        (keras.layers.MultiHeadAttention(3, 4, name="layer"), 3),
        (keras.layers.MultiHeadAttention(3, 4, output_shape=(2, 3), name="layer"), 3),
        (keras.layers.GroupQueryAttention(4, 4, 2, name="layer"), 4),
        (MultiHeadAttention(3, 4, name="layer"), 3),
        (MultiHeadAttention(3, 4, use_gate=True, name="layer"), 3),
        (EvolvingAttention(3, 4, alpha=0.5, beta=0.5, name="layer"), 3),
        (TalkingHeadsAttention(3, 4, value_heads=2, name="layer"), 2),
        (InteractingHeadAttention(3, 4, interaction="sum", name="layer"), 3),
        (InteractingHeadAttention(2, 4, interaction="pairwise", name="layer"), 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_output_is_a_sum_of_what_heads_add(layer, heads):
    """So the drops add up to what is left of it without the bias."""
    model = model_of(layer)
    before = weights_of(model)
    drops = head_ablation(model, total(model))
    assert {path: len(heads) for path, heads in drops.items()} == {"layer": heads}
    assert_untouched(model, before)
    without = np.asarray(layer._output_dense.bias).sum() * X.shape[0] * X.shape[1]
    assert drops["layer"].sum() == pytest.approx(total(model)() - without, abs=1e-4)
    assert np.abs(drops["layer"]).min() > 1e-4


def test_a_head_masked_is_one_without_value():
    """The same as with the head's value kernel and bias of zeros."""
    layer = keras.layers.MultiHeadAttention(3, 4, name="layer")
    model = model_of(layer)
    drops, whole = head_ablation(model, total(model))["layer"], total(model)()
    for head in range(3):
        kernel = ops.convert_to_numpy(layer._value_dense.kernel).copy()
        masked = kernel.copy()
        masked[:, head] = 0
        layer._value_dense.kernel.assign(masked)
        assert drops[head] == pytest.approx(whole - total(model)(), abs=1e-5)
        layer._value_dense.kernel.assign(kernel)


def test_compiled_functions_and_lora_see_it():
    layer = MultiHeadAttention(2, 4, name="layer")
    model = model_of(layer)
    model.predict(X, verbose=0)  # compiled with all heads
    layer.output_dense.enable_lora(2)
    layer.output_dense.lora_kernel_b.assign(np.ones(layer.output_dense.lora_kernel_b.shape))
    model.predict_function = None
    assert model.predict(X, verbose=0) is not None
    before = weights_of(model)
    drops = head_ablation(model, lambda: model.predict(X, verbose=0).sum(dtype="float64"))
    assert drops["layer"].sum() == pytest.approx(total(model)(), abs=1e-3)
    assert_untouched(model, before)


def test_weights_of_four_bits_are_refused():
    layer = MultiHeadAttention(2, 4, name="layer")
    model = model_of(layer)
    layer.output_dense.quantize("int4")
    with refused("int4", "layer"):
        head_ablation(model, total(model))


def test_all_layers_of_a_transformer():
    templates = {name: MultiHeadAttention(2, 4) for name in ("attention", "decoder_attention", "cross_attention")}
    model = Transformer(9, num_layers=2, hidden_dim=8, intermediate_dim=8, **templates)
    model.build()
    inputs = {"source": np.ones((2, 4), "int32"), "target": np.ones((2, 3), "int32")}
    drops = head_ablation(model, lambda: float(ops.max(model(inputs))))
    kinds = ("encoder_{}/attention",), ("decoder_{}/attention", "decoder_{}/cross_attention")
    expected = [f"{model.name}/{kind.format(number)}" for side in kinds for number in range(2) for kind in side]
    assert list(drops) == expected and all(len(heads) == 2 for heads in drops.values())


def test_layers_of_the_same_path_are_all_there():
    first, second = (model_of(keras.layers.MultiHeadAttention(heads, 4, name="layer")) for heads in (2, 3))
    model = keras.Sequential([first, second])
    drops = head_ablation(model, total(model))
    assert {path: len(heads) for path, heads in drops.items()} == {"layer": 2, "layer_1": 3}


def test_a_layer_without_output_projection_is_masked_in_its_output():
    x = keras.Input(X.shape[1:])
    pooling = SelfAttentivePooling(3, 4, name="pooling")
    model = keras.Model(x, keras.layers.Flatten()(pooling(x)))
    model.compile(loss="mse")
    model.predict(X, verbose=0)  # compiled with all heads
    by_head = ops.convert_to_numpy(pooling(X)).sum((0, 2))
    for evaluate in (total(model), lambda: model.predict(X, verbose=0).sum()):
        np.testing.assert_allclose(head_ablation(model, evaluate)["pooling"], by_head, atol=1e-4)
    assert "call" not in vars(pooling)
    assert model.predict(X, verbose=0).sum() == pytest.approx(by_head.sum(), abs=1e-4)
    seen = []
    head_ablation(model, lambda: seen.append(pooling(X, return_attention_scores=True)) or 0)
    (pooled, scores), (masked, same) = seen[0], seen[2]
    np.testing.assert_array_equal(scores, same)
    assert not np.asarray(masked[:, 1]).any() and np.asarray(masked[:, 2]).any() and pooled.shape == masked.shape


def test_heads_that_are_columns_of_the_output():
    x = keras.Input(X.shape[1:])
    model = keras.Model(x, GraphAttention(3, 4, name="graph")(x, x))
    by_head = np.asarray(model(X)).reshape(len(X), -1, 3, 4).sum((0, 1, 3))
    np.testing.assert_allclose(head_ablation(model, total(model))["graph"], by_head, atol=1e-4)


def test_a_function_compiled_before_is_an_error_where_it_would_show_nothing():
    x = keras.Input(X.shape[1:])
    model = keras.Model(x, SelfAttentivePooling(3, 4, name="pooling")(x))
    result = model(X)
    with refused("the layer 'pooling'"):
        head_ablation(model, lambda: float(ops.sum(result)))
    assert "call" not in vars(model.get_layer("pooling"))


@pytest.mark.parametrize("make", [lambda: keras.layers.MultiHeadAttention(2, 4), lambda: SelfAttentivePooling(3, 4)])
def test_all_is_put_back_when_evaluation_fails(make):
    layer, calls = make(), []
    pools = isinstance(layer, SelfAttentivePooling)
    model = keras.Sequential([keras.Input((5, 6)), layer]) if pools else model_of(layer)
    before, output = weights_of(model), np.asarray(model(X))

    def evaluate():
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return float(ops.sum(model(X)))

    with pytest.raises(KeyboardInterrupt):
        head_ablation(model, evaluate)
    assert_untouched(model, before)
    np.testing.assert_array_equal(model(X), output)


def test_progress_is_shown_if_asked_for(capsys):
    model = model_of(keras.layers.MultiHeadAttention(2, 4))
    head_ablation(model, total(model))
    assert capsys.readouterr().out == ""
    head_ablation(model, total(model), verbose=True)
    assert "2/2" in capsys.readouterr().out


def test_every_head_has_a_bar_with_its_number():
    models = {"one": {"pooling": np.array([0.1, -0.2])}, "two": {"encoder 1": np.zeros(2), "cross 1": np.array([0.3])}}
    figure = draw_head_ablation(models, title="Drops on the test set")
    one, two = figure.axes
    assert [[bar.get_height() for bar in axes.patches] for axes in (one, two)] == [[0.1, -0.2], [0, 0, 0.3]]
    assert one.get_ylim() == two.get_ylim()  # one scale
    assert [label.get_text() for label in one.get_xticklabels()] == ["1", "2"] and one.get_xlabel() == "head"
    assert [label.get_text() for label in two.get_xticklabels()] == ["encoder 1", "cross 1"]
    assert [label.get_text() for label in two.get_xticklabels(minor=True)] == ["1", "2", "1"]
    assert figure.get_suptitle() == "Drops on the test set" and one.get_ylabel() == "drop in accuracy"


def labels_overlap(figure):
    """Whether labels of the horizontal axes run into each other."""
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert len(boxes) > 1
        if any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2)):
            return True
    return False


@pytest.mark.parametrize("bins", [None, 20])
def test_labels_of_heads_do_not_overlap(bins):
    drops = np.random.default_rng(0).normal(size=30) * 0.01
    models = {name: {"pooling": drops} for name in "abc"}
    assert not labels_overlap(draw_head_ablation(models, bins))


def test_histograms_count_heads():
    models = {"standard": {"a": np.zeros(3), "b": np.array([0.1])}, "repulsive": {"a": np.array([0.2, 0.25])}}
    figure = draw_head_ablation(models, bins=5, measure="BLEU")
    heights = [[int(bar.get_height()) for bar in axes.patches] for axes in figure.axes]
    assert heights == [[3, 0, 1, 0, 0], [0, 0, 0, 0, 2]]
    assert figure.axes[0].get_xlabel() == "drop in BLEU" and "4 heads" in figure.axes[0].get_title()
