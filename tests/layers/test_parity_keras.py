"""Live parity with keras.layers.MultiHeadAttention, weights moved both ways; its faults that ours has not."""

import inspect

import keras
import numpy as np
import pytest

from keras_headattn.layers import Attention, InteractingHeadAttention, MultiHeadAttention
from tests.layers.harness import (
    BATCH,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    VALUE_WIDTH,
    array,
    check_close,
    cross_inputs,
    random_mask,
    randomize,
    self_input,
)

# Keras reads variables with np.array(variable) when it writes a file; not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

Stock = keras.layers.MultiHeadAttention
ARGUMENTS = {
    "plain": {},
    "value_dim": {"value_dim": 6},
    "no_bias": {"use_bias": False},
    "output_shape": {"output_shape": 7},
    "output_tuple": {"output_shape": (2, 3), "value_dim": 5},
    "gate": {"use_gate": True, "value_dim": 5},
    "gate_no_bias": {"use_gate": True, "use_bias": False},
    "window": {"sliding_window": 2},
    "axes": {"attention_axes": (1,)},
    "one_head": {"value_dim": 2},
}


def pair(query, value, key=None, dtype="float64", **arguments):
    """Ours and stock with the same weights; they went from ours to stock and back."""
    arguments = {"num_heads": 3, "key_dim": 4, "dtype": dtype, **arguments}
    ours, stock, back = MultiHeadAttention(**arguments), Stock(**arguments), MultiHeadAttention(**arguments)
    shapes = [x.shape for x in (query, value, value if key is None else key)]
    for layer in (ours, stock, back):
        layer.build(*shapes)
    randomize(ours)
    assert [w.shape for w in ours.weights] == [w.shape for w in stock.weights]
    assert [w.path.split("/")[-2:] for w in ours.weights] == [w.path.split("/")[-2:] for w in stock.weights]
    stock.set_weights(ours.get_weights())
    back.set_weights(stock.get_weights())
    return back, stock


def check_same(ours, stock, *inputs, tolerance=1e-13, **call):
    expected, expected_scores = stock(*inputs, return_attention_scores=True, **call)
    output, scores = ours(*inputs, return_attention_scores=True, **call)
    check_close(output, expected, tolerance)
    check_close(scores, expected_scores, tolerance)
    check_close(ours(*inputs, **call), expected, tolerance)
    check_close(ours(*inputs, **call), stock(*inputs, **call), tolerance)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name):
    inputs = cross_inputs(dtype="float64")
    ours, stock = pair(*inputs, **ARGUMENTS[name])
    check_same(ours, stock, *inputs)
    check_same(ours, stock, *inputs, use_causal_mask=True)
    check_same(ours, stock, *inputs, attention_mask=np.tri(QUERIES, KEYS, 2)[None] > 0)


@pytest.mark.parametrize("head_axis", [False, True])
def test_masks(head_axis):
    inputs = cross_inputs(dtype="float64")
    ours, stock = pair(*inputs)
    mask = random_mask((BATCH, 3, QUERIES, KEYS) if head_axis else (BATCH, QUERIES, KEYS))
    check_same(ours, stock, *inputs, attention_mask=mask)
    value_mask, key_mask = np.arange(KEYS)[None] < np.array([[3], [6]]), np.arange(KEYS)[None] > [[0], [1]]
    check_same(ours, stock, *inputs, value_mask=value_mask, key_mask=key_mask)
    mask[..., 0] = True
    if head_axis:  # stock cannot combine these two
        mask &= value_mask[:, None, None]
        output = ours(*inputs, attention_mask=mask, value_mask=value_mask)
        check_close(output, stock(*inputs, attention_mask=mask), 1e-13)
    else:
        check_same(ours, stock, *inputs, attention_mask=mask, value_mask=value_mask)


RANK_4 = {
    "all": (None, (2, 3, 4)),
    "first": ((1,), (2, 6, 4)),
    "second": ((2,), (2, 3, 5)),
    "both": ((1, 2), (2, 3, 4)),
    "negative": ((-2,), (2, 3, 5)),
    "integer": (2, (2, 3, 5)),
}


@pytest.mark.parametrize("name", RANK_4)
@pytest.mark.parametrize("more", [False, True])
def test_rank_4_inputs(name, more):
    axes, value_shape = RANK_4[name]
    rng = np.random.default_rng(0)
    query, value = rng.normal(size=(2, 3, 4, QUERY_WIDTH)), rng.normal(size=(*value_shape, VALUE_WIDTH))
    if name == "negative":  # stock resolves -2 against the projected tensor less one: the second axis
        assert pair(query, value, attention_axes=axes)[1].attention_axes == (2,)
    arguments = {"value_dim": 5, "output_shape": (2, 3), "use_gate": True} if more else {}
    check_same(*pair(query, value, attention_axes=axes, **arguments), query, value)


@pytest.mark.parametrize("axes, mask_shape", [((2,), (4, 5)), ((1, 2), (3, 4, 3, 5)), (None, (3, 4, 3, 5))])
def test_rank_4_masks(axes, mask_shape):
    rng = np.random.default_rng(0)
    query, value = rng.normal(size=(2, 3, 4, QUERY_WIDTH)), rng.normal(size=(2, 3, 5, VALUE_WIDTH))
    ours, stock = pair(query, value, attention_axes=axes)
    mask = rng.random((2, *mask_shape)) > 0.3
    mask[..., 0] = True
    if axes == (2,):  # stock inserts the head axis before the attention axes: (B, rows, h, n, m) needs rows
        mask = np.repeat(mask[:, None], 3, axis=1)
    check_same(ours, stock, query, value, attention_mask=mask)


@pytest.mark.parametrize("batch", [(2, 1), (1, 3), (1, 1)])
def test_rank_4_mask_that_broadcasts(batch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 5, QUERY_WIDTH))
    ours, _ = pair(x, x, attention_axes=2)
    mask = rng.random((*batch, 5, 5)) > 0.3
    whole = np.broadcast_to(mask, (2, 3, 5, 5))
    np.testing.assert_allclose(ours(x, x, attention_mask=mask), ours(x, x, attention_mask=whole), atol=1e-6)
    with pytest.raises(ValueError, match=r"must broadcast to shape \(2, 3, 5, 5\)"):
        ours(x, x, attention_mask=np.ones((2, 4, 5, 5), bool))


@pytest.mark.parametrize(
    "axes, shape", [((1, 2), (2, 1, 3, 5, 3, 5)), ((1, 2), (1, 4, 3, 5, 3, 5)), ((2,), (1, 1, 4, 5, 5))]
)
def test_rank_4_mask_with_a_head_axis(axes, shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 5, QUERY_WIDTH))
    layer = MultiHeadAttention(4, 3, attention_axes=axes)
    mask = rng.random(shape) > 0.3
    mask[..., 0, 0] = True
    output, scores = layer(x, x, attention_mask=mask, return_attention_scores=True)
    assert np.all(np.asarray(scores)[~np.broadcast_to(mask, scores.shape)] == 0)
    np.testing.assert_allclose(layer(x, x, attention_mask=mask), output, atol=1e-5)


def test_training_and_losses():
    """Same gradient steps, regularisation losses and activity losses."""
    x, y = self_input(), self_input(seed=4)
    arguments = {"kernel_regularizer": "l2", "bias_regularizer": "l1", "activity_regularizer": "l2"}
    results = []
    ours, stock = pair(x, x, dtype="float32", kernel_constraint="unit_norm", **arguments)
    for layer in (ours, stock):
        inputs = keras.Input(x.shape[1:])
        model = keras.Model(inputs, layer(inputs, inputs))
        model.compile(keras.optimizers.SGD(0.05), "mse")
        losses = model.fit(x, y, epochs=3, verbose=0, shuffle=False).history["loss"]
        results.append((losses, layer.get_weights()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("use_gate", [False, True])
@pytest.mark.parametrize("axes", [(1, 2), (1,), (2,)])
def test_activity_losses_of_rank_4_inputs(axes, use_gate):
    """By item of the batch, not of the axes that are not attended over."""
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 8))
    ours, stock = pair(x, x, attention_axes=axes, use_gate=use_gate, activity_regularizer="l2")
    ours(x, x), stock(x, x)
    assert len(ours.losses) == len(stock.losses) == 4 + use_gate
    np.testing.assert_allclose(sorted(ours.losses), sorted(stock.losses), rtol=1e-12)


def test_activity_losses_of_interacting_heads():
    """Of the same projections as the stock layer's; what they are merged to differs."""
    query, value, key = cross_inputs(dtype="float64")
    _, stock = pair(query, value, key, activity_regularizer="l2")
    stock(query, value, key)
    for interaction in ("sum", "pairwise"):
        ours = InteractingHeadAttention(3, 4, interaction=interaction, activity_regularizer="l2", dtype="float64")
        ours.build(query.shape, value.shape, key.shape)
        for name in ("query_dense", "key_dense", "value_dense"):
            getattr(ours, name).set_weights(getattr(stock, name).get_weights())
        ours(query, value, key)
        assert len(ours.losses) == 4
        np.testing.assert_allclose(ours.losses[:3], stock.losses[:3], rtol=1e-12)


@pytest.mark.parametrize("use_gate", [False, True])
@pytest.mark.parametrize("forth", [True, False])
def test_weights_files_go_both_ways(forth, use_gate, tmp_path):
    """A `.weights.h5` of a model with the stock layer loads into one with ours, and back."""
    x = self_input()

    def model(cls):
        inputs = keras.Input(x.shape[1:])
        layer = cls(3, 4, use_gate=use_gate, name="attention")
        result = keras.Model(inputs, keras.layers.Dense(3, name="top")(layer(inputs, inputs)))
        return randomize(result, seed=cls is Stock)

    classes = (Stock, MultiHeadAttention) if forth else (MultiHeadAttention, Stock)
    source, target = map(model, classes)
    source.save_weights(tmp_path / "model.weights.h5")
    target.load_weights(tmp_path / "model.weights.h5")
    check_close(target(x), source(x))


def test_config_goes_both_ways():
    """A config of the stock layer builds ours; it lacks only these."""
    arguments = {"value_dim": 5, "dropout": 0.1, "output_shape": (2,), "seed": 3, "sliding_window": 2}
    stock = Stock(3, 4, **arguments, kernel_initializer="he_normal", use_gate=True)
    ours = MultiHeadAttention.from_config(stock.get_config())
    own = {"flash_attention", "head_regularizer", "relative_positions", "role", "depth"}
    own |= {"qk_norm", "attn_logits_soft_cap", "use_sinks", "exclusive", "value_residual", "scale", "query_chunk_size"}
    assert set(ours.get_config()) == set(stock.get_config()) | own
    same = {n for n, v in ours.get_config().items() if stock.get_config().get(n) == v}
    assert set(stock.get_config()) - same <= {"attention_axes", "value_dim"}


@pytest.mark.parametrize("ending", [".weights.h5", ".keras"])
def test_a_file_of_the_stock_layer_gives_its_weights(ending, tmp_path):
    query, value = keras.Input((5, 8)), keras.Input((6, 8))
    stock, ours = (
        keras.Model([query, value], make(2, 4, use_gate=True)(query, value)) for make in (Stock, MultiHeadAttention)
    )
    path = tmp_path / f"model{ending}"
    stock.save_weights(path) if "weights" in ending else stock.save(path)
    ours.load_weights(path)
    inputs = [np.random.default_rng(0).normal(size=(2, n, 8)).astype("float32") for n in (5, 6)]
    check_close(ours(inputs), stock(inputs))


def test_same_signature():
    for name in ("__init__", "call"):
        ours = list(inspect.signature(getattr(MultiHeadAttention, name)).parameters.values())
        stock = list(inspect.signature(getattr(Stock, name)).parameters.values())
        positional = [p.name for p in stock if p.kind is p.POSITIONAL_OR_KEYWORD]
        assert [p.name for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD][: len(positional)] == positional
    assert issubclass(MultiHeadAttention, Attention)


# --------------------------------------------------------------- faults of the stock layer that ours has not


def test_symbolic_cross_attention_scores():
    query, value = keras.Input((QUERIES, QUERY_WIDTH)), keras.Input((KEYS, VALUE_WIDTH))
    _, scores = MultiHeadAttention(3, 4)(query, value, return_attention_scores=True)
    assert tuple(scores.shape) == (None, 3, QUERIES, KEYS)


@pytest.mark.parametrize("axes", [(2,), (1, 2), None])
def test_symbolic_scores_of_rank_4_inputs(axes):
    query, value = keras.Input((3, 4, QUERY_WIDTH)), keras.Input((3, 5, VALUE_WIDTH))
    output, scores = MultiHeadAttention(3, 4, attention_axes=axes)(query, value, return_attention_scores=True)
    assert tuple(output.shape) == (None, 3, 4, QUERY_WIDTH)
    assert tuple(scores.shape) == ((None, 3, 3, 4, 5) if axes == (2,) else (None, 3, 3, 4, 3, 5))


def test_flash_attention_is_in_the_config():
    assert MultiHeadAttention(3, 4, flash_attention=True).get_config()["flash_attention"] is True
    assert MultiHeadAttention(3, 4).get_config()["flash_attention"] is None


def test_flash_attention_does_not_raise_on_tensorflow():
    x = self_input()
    flash, plain = MultiHeadAttention(3, 4, flash_attention=True), MultiHeadAttention(3, 4)
    for layer in (flash, plain):
        layer.build(x.shape, x.shape)
        randomize(layer)
    check_close(flash(x, x), plain(x, x))
    output, scores = flash(x, x, return_attention_scores=True)
    check_close(output, plain(x, x))
    assert tuple(scores.shape) == (BATCH, 3, QUERIES, QUERIES)


def test_globally_enabled_flash_attention():
    x = self_input()
    keras.config.enable_flash_attention()
    try:
        layer = MultiHeadAttention(3, 4)
        assert np.isfinite(array(layer(x, x))).all()
    finally:
        keras.config.disable_flash_attention()


def test_fully_masked_rows_are_the_same_on_both_paths():
    x = self_input()
    layer = MultiHeadAttention(3, 4)
    mask = np.ones((BATCH, QUERIES, QUERIES), bool)
    mask[0, 2] = False
    without, (output, scores) = (
        layer(x, x, attention_mask=mask, return_attention_scores=asked) for asked in (False, True)
    )
    check_close(without, output)
    assert not array(without)[0, 2].any() and not array(scores)[0, :, 2].any()


def test_query_mask_given_by_hand_is_used():
    """Stock overwrites it with the Keras mask of the query."""
    x = self_input()
    layer = MultiHeadAttention(3, 4)
    query_mask = np.ones((BATCH, QUERIES), bool)
    query_mask[1, 3:] = False
    assert not array(layer(x, x, query_mask=query_mask))[1, 3:].any()


@pytest.mark.parametrize("knows_batch", [True, False])
def test_queries_of_one_item(knows_batch):
    """Learned queries, as Perceiver and DETR have them; also where a graph does not know the batch."""
    rng = np.random.default_rng(0)
    query, value = rng.normal(size=(1, 4, 8)).astype("float32"), rng.normal(size=(3, 5, 8)).astype("float32")
    mask = np.array([[True] * 5, [True, True, False, False, False], [True] * 3 + [False] * 2])
    stock, ours = keras.layers.MultiHeadAttention(2, 4, dropout=0.1), MultiHeadAttention(2, 4, dropout=0.1)
    for layer in (stock, ours):
        layer.build(query.shape, value.shape)
    ours.set_weights(stock.get_weights())
    call = ours
    if not knows_batch:
        memory, tokens = keras.Input((5, 8)), keras.Input((5,), dtype="bool")
        outputs = ours(query, memory, key_mask=tokens, return_attention_scores=True)
        assert outputs[0].shape == (None, 4, 8)
        model = keras.Model([memory, tokens], outputs)
        call = lambda query, value, key_mask, **_: model([value, key_mask])  # noqa: E731
    found = call(query, value, key_mask=mask, return_attention_scores=True)
    expected = stock(query, value, key_mask=mask, return_attention_scores=True)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    np.testing.assert_allclose(
        ours(query, value, key_mask=mask), expected[0], atol=1e-6
    )  # fused, where there is such a kernel
    assert ours.compute_output_shape(query.shape, value.shape) == (3, 4, 8)
