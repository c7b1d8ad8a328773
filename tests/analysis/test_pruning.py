"""Models with fewer heads: equal to those whose heads are masked, smaller, and trained further."""

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.analysis import head_ablation, head_importance, prune_heads
from keras_headattn.models import T5, Bert, Transformer
from keras_headattn.positions import ALiBiPositions, BucketPositions
from tests.layers.harness import (
    CASES,
    KEY_WIDTH,
    QUERY_WIDTH,
    VALUE_WIDTH,
    array,
    cross_inputs,
    each,
    randomize,
)
from tests.refusals import refusals, refused

WHOLE = ("disentangled", "dynamically_composable", "graph", "luong", "mixture_of_heads", "talking_2_3_4")


def masked(old, new, kept, count):
    """Returns a weight with zeros for the heads, or pairs of heads, that are not kept."""
    for axis, size in enumerate(old.shape):
        if size != new.shape[axis]:
            keeps = np.isin(np.arange(count), kept)
            pairs = size == count**2 and new.shape[axis] == len(kept) ** 2
            keeps = np.outer(keeps, keeps).ravel() if pairs else np.repeat(keeps, size // count)
            old = np.moveaxis(np.moveaxis(old, axis, -1) * keeps, -1, axis)
    return old


def check_equals_masked(model, pruned, inputs, kept=(2, 3), count=4):
    outputs = pruned.predict(inputs, verbose=0)
    for old, new in zip(model.weights, pruned.weights, strict=True):
        old.assign(masked(np.array(old), np.array(new), kept, count))
    assert pruned.count_params() < model.count_params()
    np.testing.assert_allclose(outputs, model.predict(inputs, verbose=0), rtol=1e-5, atol=1e-6)


@each([case for case in CASES if not case.name.startswith(WHOLE)])
def test_a_pruned_layer_is_the_layer_without_the_heads(case):
    sizes = {"num_heads": 4}
    if case.arguments.get("num_key_value_heads", 1) > 1:
        sizes = {"num_heads": 8, "num_key_value_heads": 4}
    elif "mix_weights" in case.arguments:
        sizes = {"num_heads": 8, "mix_weights": 2}
    layer = case.make(**sizes)
    query, value, key = cross_inputs()
    inputs = [keras.Input(x.shape[1:]) for x in (query, value, key)]
    model = keras.Model(inputs, layer(*inputs))
    randomize(model)
    importance = {layer.path: np.arange(layer.merged_heads)}
    check_equals_masked(model, prune_heads(model, importance, 0.5), [query, value, key])


@keras.saving.register_keras_serializable(package="tests")
class ScaledHeads(layers.MultiHeadAttention):
    """A user's own: a learned factor of each head."""

    def build(self, query_shape, value_shape=None, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        self.scales = self.add_weight(name="scales", shape=(self.num_heads, 1, 1), initializer="ones")

    def mix(self, weights, entry, state):
        return super().mix(weights, entry, state) * self.scales


@keras.saving.register_keras_serializable(package="tests")
class StockSubclass(keras.layers.MultiHeadAttention):
    pass


@pytest.mark.parametrize("make", [ScaledHeads, StockSubclass])
def test_layers_of_ones_own(make):
    x = np.random.default_rng(0).normal(size=(2, 5, 8))
    inputs = keras.Input((5, 8))
    layer = make(4, 3)
    model = keras.Model(inputs, layer(inputs, inputs))
    randomize(model)
    check_equals_masked(model, prune_heads(model, {layer.path: np.arange(4)}, 0.5), x)


@pytest.mark.parametrize(
    "layer, importance, kept",
    [
        (layers.GroupedQueryAttention(4, 2, num_key_value_heads=2), [0, 3, 0, 2], [0, 1]),
        (layers.MultiTokenAttention(4, 2, mix_weights=2), [0, 3, 0, 2], [0, 1]),
        (layers.InteractingHeadAttention(2, 2, interaction="pairwise"), [2, 0, 0, 3], [1]),
    ],
    ids=["shared keys", "mixed weights", "pairs"],
)
def test_four_importances_of_groups_and_of_pairs(layer, importance, kept):
    inputs = keras.Input((5, 8))
    model = keras.Model(inputs, layer(inputs, inputs))
    pruned = prune_heads(model, {layer.path: importance}, 0.5)
    found, whole = (np.array(each.layers[1].query_dense.kernel) for each in (pruned, model))
    np.testing.assert_array_equal(found, whole[:, kept])


def test_one_group_of_mixed_weights_stays_whole():
    layer, inputs = layers.MultiTokenAttention(4, 2, mix_weights=4), keras.Input((5, 8))
    model = keras.Model(inputs, layer(inputs, inputs))
    with refused("cannot lose heads", "MultiTokenAttention, num_heads=4, mix_weights=4"):
        prune_heads(model, {layer.path: np.arange(4)}, 0.5)


@each([case for case in CASES if case.name.startswith(WHOLE)])
def test_other_layers_say_that_they_cannot(case):
    layer = case.make()
    inputs = [keras.Input((None, width)) for width in (QUERY_WIDTH, VALUE_WIDTH, KEY_WIDTH)]
    with refused("cannot lose heads"):
        prune_heads(keras.Model(inputs, layer(*inputs)), {layer.path: [1.0]}, 0.5)


TOKENS = np.random.default_rng(0).integers(1, 20, (3, 6))
SIZES = dict(hidden_dim=16, intermediate_dim=16, num_layers=2, num_heads=4)
MODELS = {
    "bert": lambda: Bert(20, attention="talking_heads", **SIZES),
    "transformer": lambda: Transformer(20, 20, **SIZES),
    "evolving": lambda: Transformer(20, 20, attention="evolving", **SIZES),
    "buckets": lambda: Transformer(20, 20, relative_positions=BucketPositions(), **SIZES),
    "t5": lambda: T5(20, key_dim=4, **SIZES),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name, tmp_path):
    model = MODELS[name]()
    inputs = TOKENS if name == "bert" else {"source": TOKENS, "target": TOKENS[:, :4]}
    if name == "bert":
        whole = keras.Input((None,), dtype="int32")
        model = keras.Model(whole, model(whole)["sequence_output"])
    model(inputs)
    randomize(model)
    paths = head_ablation(model, lambda: 0.0)
    pruned = prune_heads(model, dict.fromkeys(paths, np.arange(4)), 0.5)
    pruned.save(tmp_path / "pruned.keras")
    check_equals_masked(model, pruned, inputs)
    again = keras.saving.load_model(tmp_path / "pruned.keras")
    np.testing.assert_array_equal(again.predict(inputs, verbose=0), pruned.predict(inputs, verbose=0))


def small_classifier():
    inputs = keras.Input((5, 8))
    x = layers.MultiHeadAttention(4, 2, name="ours")(inputs, inputs)
    x = keras.layers.MultiHeadAttention(4, 2, name="stock")(x, x)
    model = keras.Model(inputs, keras.layers.Dense(3, "softmax")(keras.layers.GlobalAveragePooling1D()(x)))
    randomize(model)
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def test_each_layer_keeps_its_own_heads_and_training_goes_on():
    model, rng = small_classifier(), np.random.default_rng(0)
    importance = {"ours": [0, 3, 1, 2], "stock": [5, 0, 0, 4]}
    pruned = prune_heads(model, importance, 0.5)
    kernels = {layer.name: layer.query_dense.kernel for layer in pruned.layers[1:3]}
    for name, kept in (("ours", [1, 3]), ("stock", [0, 3])):
        whole = model.get_layer(name).query_dense.kernel
        np.testing.assert_array_equal(kernels[name], np.array(whole)[:, kept])
    pruned.compile("adam", "sparse_categorical_crossentropy")
    x, y = rng.normal(size=(32, 5, 8)), rng.integers(0, 3, 32)
    losses = pruned.fit(x, y, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_layers_that_pass_scores_on_keep_the_same_heads():
    model = Bert(20, attention="real_former", **SIZES)
    model(TOKENS)
    paths = list(head_ablation(model, lambda: 0.0))
    pruned = prune_heads(model, dict(zip(paths, ([3, 0, 1, 0], [0, 0, 0, 9]), strict=True)), 0.5)
    for old, new in zip(model.blocks, pruned.blocks, strict=True):
        kernels = (np.array(block.attention.query_dense.kernel) for block in (old, new))
        np.testing.assert_array_equal(next(kernels)[:, [0, 3]], next(kernels))


def test_importance_of_t5():
    model = T5(20, key_dim=4, **SIZES)
    inputs = {"source": TOKENS, "target": TOKENS[:, :4]}
    model(inputs)
    randomize(model)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    found = head_importance(model, [(inputs, TOKENS[:, 1:5])])
    assert found.keys() == head_ablation(model, lambda: 0.0).keys() and len(found) == 6
    assert all(values.shape == (4,) and (values > 0).all() for values in found.values())


def test_importance_is_the_slope_of_the_loss_along_a_head():
    model, rng = small_classifier(), np.random.default_rng(0)
    batches = [(rng.normal(size=(4, 5, 8)).astype("float32"), rng.integers(0, 3, 4)) for _ in range(2)]
    found = head_importance(model, batches)
    kernel, slopes = model.get_layer("stock").output_dense.kernel, []
    whole = np.array(kernel)
    for x, y in batches:
        losses = []
        for step in (1e-2, -1e-2):
            changed = whole.copy()
            changed[1] *= 1 + step
            kernel.assign(changed)
            losses.append(model.evaluate(x, y, verbose=0))
        slopes.append(abs(losses[0] - losses[1]) / 2e-2)
        kernel.assign(whole)
    assert found["stock"][1] == pytest.approx(np.mean(slopes), rel=1e-2)


def test_importance_leaves_out_penalties():
    found = []
    for penalty in (None, "l2"):
        keras.utils.set_random_seed(0)
        x = keras.Input((5, 8))
        layer = layers.MultiHeadAttention(2, 4, kernel_regularizer=penalty, seed=1, name="attention")
        model = keras.Model(x, layer(x, x))
        model.compile(loss="mse")
        found.append(head_importance(model, [(np.ones((2, 5, 8), "float32"), np.ones((2, 5, 8), "float32"))]))
    np.testing.assert_allclose(found[0]["attention"], found[1]["attention"], rtol=1e-5)


def test_importance_needs_an_output_projection():
    x = keras.Input((5, 8))
    model = keras.Model(x, layers.GraphAttention(2, 4, name="graph")(x, x))
    model.compile(loss="mse")
    with refused("need an output projection", "graph"):
        head_importance(model, [(np.ones((2, 5, 8)), np.ones((2, 5, 8)))])


test_arguments = refusals(
    (lambda: prune_heads(small_classifier(), {"ours": [1, 2, 3, 4]}, 0.5), "`importance` must have 'stock'", "ours"),
    *(
        (lambda ours=ours: prune_heads(small_classifier(), {"ours": ours, "stock": [1, 2, 3, 4]}, 0.5), "finite", "")
        for ours in ([1, 2, 3], [1, 2, 3, np.nan])
    ),
    (lambda: prune_heads(small_classifier(), {}, 0), "`keep`", "keep=0"),
)


def test_models_that_cannot_be_pruned():
    with refused("built"):
        prune_heads(Bert(20, **SIZES), {}, 0.5)
    model = Transformer(20, 20, relative_positions=ALiBiPositions(), **SIZES)
    model({"source": TOKENS, "target": TOKENS})
    with refused("slopes of their own"):
        prune_heads(model, dict.fromkeys(head_ablation(model, lambda: 0.0), np.arange(4)), 0.5)
    image = keras.Input((8, 8, 3))
    attention = layers.MultiHeadAttention(4, 4, value_dim=1)
    model = keras.Model(image, layers.AugmentedConv2D(16, 3, attention=attention)(image))
    with refused("does not follow the heads"):
        prune_heads(model, None, 0.5)


def test_grouped_queries_of_keras_are_refused():
    x = keras.Input((5, 8))
    layer = keras.layers.GroupQueryAttention(4, 4, 2, name="grouped")
    model = keras.Model(x, keras.layers.MultiHeadAttention(4, 2)(layer(x, x), x))
    with refused("GroupQueryAttention", "grouped"):
        prune_heads(model, None, 0.5)
    with refused("GroupQueryAttention", "grouped"):
        layers.enable_lora(model, 2)


def test_weights_that_are_not_plain():
    for change in (lambda layer: layers.enable_lora(layer, 2), lambda layer: layer.query_dense.quantize("int8")):
        x = keras.Input((5, 8))
        model = keras.Model(x, layers.MultiHeadAttention(4, 2)(x, x))
        change(model.layers[-1])
        with refused("plain", "multi_head_attention"):
            prune_heads(model, None, 0.5)


def test_importance_needs_plain_weights():
    x = keras.Input((5, 8))
    for change in (lambda layer: layer.enable_lora(2), lambda layer: layer.quantize("int8")):
        model = keras.Model(x, layers.MultiHeadAttention(4, 2)(x, x))
        change(model.layers[-1].output_dense)
        model.compile(loss="mse")
        with refused("plain", "multi_head_attention"):
            head_importance(model, [(np.ones((2, 5, 8)), np.ones((2, 5, 8)))])


def test_chains_beside_each_other_keep_heads_of_their_own():
    x = keras.Input((5, 8))
    towers = [layers.RealFormerAttention(4, 2, depth=0, role="encoder", name=name)(x, x) for name in "ab"]
    model = keras.Model(x, keras.layers.Add()(towers))
    smaller = prune_heads(model, {"a": [1, 2, 0, 0], "b": [0, 0, 10, 20]}, 0.5)
    for name, heads in {"a": [0, 1], "b": [2, 3]}.items():
        kernels = [array(each.get_layer(name).query_dense.kernel) for each in (model, smaller)]
        np.testing.assert_array_equal(kernels[0][:, heads], kernels[1])
