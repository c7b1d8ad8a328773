"""Relative positions of every attention layer: key - query, eqs. 2 and 3 of Wang et al. 2021."""

import json

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.layers import (
    EvolvingAttention,
    InteractingHeadAttention,
    LuongAttention,
    MultiHeadAttention,
    TalkingHeadsAttention,
)
from keras_headattn.positions import (
    ALiBiPositions,
    BucketPositions,
    RelativePositions,
    RelativePositions2D,
)
from tests.layers import harness, oracles, oracles_evolving
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    array,
    build,
    check_close,
    copy_weights,
    cross_inputs,
    random_mask,
    self_input,
)
from tests.positions import oracles as positions_oracles

DOUBLE = 1e-12
HEIGHT, WIDTH = 2, 3
EQUATIONS = {
    "multi_head": (MultiHeadAttention, SIZES, oracles.multi_head),
    "talking": (TalkingHeadsAttention, {**SIZES, "key_heads": 2, "value_heads": 4}, oracles.talking),
    "sum": (InteractingHeadAttention, SIZES, oracles.interacting_sum),
    "pairwise": (InteractingHeadAttention, {**SIZES, "interaction": "pairwise"}, oracles.interacting_pairwise),
    "luong": (LuongAttention, {"key_dim": KEY_DIM}, oracles.luong),
}
each_layer = pytest.mark.parametrize("name", EQUATIONS)


def table(layer, suffix="embeddings"):
    (found,) = [w for w in layer.weights if w.path.endswith(suffix)]
    return found


def image(seed=0, dtype="float64"):
    return self_input(seed, dtype, HEIGHT * WIDTH)


def check(layer, equation, vectors, inputs, mask=None, **call):
    equation = oracles_evolving.with_vectors(equation, vectors)
    mask = random_mask((BATCH, inputs[0].shape[1], inputs[1].shape[1])) if mask is None else mask
    expected, scores = oracles.attention(equation, oracles.named_weights(layer), *inputs, mask[:, None])
    output, got = layer(*inputs, attention_mask=mask, return_attention_scores=True, **call)
    check_close(output, expected, DOUBLE)
    check_close(got, scores, DOUBLE)
    check_close(layer(*inputs, attention_mask=mask, **call), expected, DOUBLE)


@each_layer
@pytest.mark.parametrize("distance", [1, 2, 9])
def test_one_axis(name, distance):
    """Clipped at the table's ends; fewer queries than keys."""
    cls, arguments, equation = EQUATIONS[name]
    inputs = cross_inputs(dtype="float64")
    layer = build(cls(**arguments, relative_positions=RelativePositions(distance), dtype="float64"), *inputs)
    assert tuple(table(layer).shape) == (2 * distance + 1, KEY_DIM)
    check(layer, equation, oracles_evolving.vectors_1d(array(table(layer)), QUERIES, KEYS), inputs)


@each_layer
def test_two_axes(name):
    cls, arguments, equation = EQUATIONS[name]
    x = image()
    layer = build(cls(**arguments, relative_positions=RelativePositions2D(HEIGHT, WIDTH), dtype="float64"), x)
    tables = [array(table(layer, f"{side}_embeddings")) for side in ("height", "width")]
    assert [t.shape for t in tables] == [(2 * HEIGHT - 1, KEY_DIM), (2 * WIDTH - 1, KEY_DIM)]
    check(layer, equation, oracles_evolving.vectors_2d(*tables), (x, x, x))


def test_pixels_are_counted_row_by_row():
    """An image with its two axes gives what its pixels in one axis give."""
    x = image()
    layer, flat = (
        MultiHeadAttention(**SIZES, relative_positions=RelativePositions2D(HEIGHT, WIDTH), dtype="float64")
        for _ in range(2)
    )
    two = x.reshape(BATCH, HEIGHT, WIDTH, QUERY_WIDTH)
    build(layer, two), build(flat, x)
    check_close(layer(two, two), array(flat(x, x)).reshape(two.shape), DOUBLE)


def test_one_row_of_pixels_is_a_sequence():
    x = self_input(dtype="float64")
    one = build(MultiHeadAttention(**SIZES, relative_positions=RelativePositions(QUERIES - 1), dtype="float64"), x)
    two = build(MultiHeadAttention(**SIZES, relative_positions=RelativePositions2D(1, QUERIES), dtype="float64"), x)
    copy_weights(one, two)
    table(two, "height_embeddings").assign(np.zeros((1, KEY_DIM)))
    table(two, "width_embeddings").assign(table(one))
    check_close(two(x, x), one(x, x), DOUBLE)


def test_of_an_evolving_layer():
    """They are part of the logits that are convolved."""
    x = self_input(dtype="float64")
    arguments = {"relative_positions": RelativePositions(2), "alpha": 0.0, "beta": 0.5, "role": "decoder"}
    layer = build(EvolvingAttention(**SIZES, **arguments, dtype="float64"), x)
    weights = oracles.named_weights(layer)
    vectors = oracles_evolving.vectors_1d(array(table(layer)), QUERIES, QUERIES)
    _, carried = layer(x, x, return_logits=True, use_causal_mask=True)
    causal = np.broadcast_to(np.tri(QUERIES, dtype=bool), (HEADS, QUERIES, QUERIES))
    for b in range(BATCH):
        q, k = (oracles.project(weights, name, x[b]) for name in ("query", "key"))
        rows = [oracles_evolving.dot(q[r : r + 1], k + vectors[r][:, None]) for r in range(QUERIES)]
        logits = np.concatenate(rows, axis=1)
        want = oracles_evolving.evolve(logits, None, causal, weights, "decoder", 0.0, 0.5)
        check_close(array(carried)[b][causal], want[causal], DOUBLE)


@pytest.mark.parametrize("general", ["general", "concat"])
def test_of_other_scores(general):
    """A table of zeros changes nothing, another does."""
    x = self_input()
    plain = build(LuongAttention(key_dim=KEY_DIM, score_mode=general), x)
    layer = build(LuongAttention(key_dim=KEY_DIM, score_mode=general, relative_positions=RelativePositions(2)), x)
    copy_weights(plain, layer)
    assert np.abs(array(layer(x, x)) - array(plain(x, x))).max() > 1e-3
    table(layer).assign(np.zeros(table(layer).shape))
    check_close(layer(x, x), plain(x, x))


@harness.each_kind
def test_logits_that_are_added_are_a_bias_by_head(case):
    """Slopes and tables have a row for each head of the scores, not for each head of the queries."""
    inputs = cross_inputs(dtype="float64")
    distances = np.arange(KEYS) - np.arange(QUERIES)[:, None]
    plain = build(case.make(dtype="float64", relative_positions=None), *inputs)
    heads = plain.score_heads
    for made in (ALiBiPositions(), BucketPositions(4, 3)):
        layer = build(case.make(dtype="float64", relative_positions=made), *inputs)
        copy_weights(plain, layer)
        if isinstance(made, ALiBiPositions):
            bias = positions_oracles.alibi(heads, np.arange(QUERIES), np.arange(KEYS))
        else:
            bias = array(table(layer)).T[:, made.buckets(distances)]  # (h, n, m)
        assert bias.shape == (heads, QUERIES, KEYS)
        check_close(layer(*inputs), plain(*inputs, bias=bias[None]), DOUBLE)


# ------------------------------------------------------------------------------------------------ weights and config


def test_initial_tables():
    """Mean 0 and deviation key_dim ** -0.5; of each layer its own."""
    layer = MultiHeadAttention(2, 100, relative_positions=RelativePositions(50))
    layer.build((1, 3, 8), (1, 3, 8))
    values = array(table(layer))
    assert abs(values.mean()) < 0.004 and 0.097 < values.std() < 0.103
    layer = MultiHeadAttention(2, 100, relative_positions=RelativePositions2D(25, 25))
    layer.build((1, 625, 8), (1, 625, 8))
    height, width = (array(table(layer, f"{side}_embeddings")) for side in ("height", "width"))
    assert 0.095 < height.std() < 0.105 and 0.095 < width.std() < 0.105
    assert np.abs(height - width).max() > 0.1


def test_one_template_for_many_layers():
    """Its configuration is cloned: no weight is shared."""
    template, x = RelativePositions(3), self_input()
    one, two = (build(MultiHeadAttention(**SIZES, relative_positions=template), x, seed=s) for s in (1, 2))
    assert np.abs(array(table(one)) - array(table(two))).max() > 0.1
    assert not template.weights
    assert len(one.trainable_variables) == 9


@pytest.mark.parametrize("template", [RelativePositions(3), RelativePositions2D(HEIGHT, WIDTH)], ids=["1d", "2d"])
def test_config_and_file(template, tmp_path):
    layer = TalkingHeadsAttention(**SIZES, relative_positions=template)
    config = json.loads(json.dumps(layer.get_config()))
    clone = TalkingHeadsAttention.from_config(config)
    assert json.dumps(clone.get_config()) == json.dumps(layer.get_config())
    x = keras.Input((HEIGHT * WIDTH, QUERY_WIDTH))
    model = keras.Model(x, layer(x, x))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(image(dtype="float32"))), array(model(image(dtype="float32"))))
    assert "relative_positions" in config and layers.MultiHeadAttention(2, 2).get_config()["relative_positions"] is None


# ------------------------------------------------------------------------------------------------------- decoding


def test_positions_of_rows_written_elsewhere():
    """As in beam search: two beams a step, in rows side by side, at one position."""
    beams, x = 2, self_input(length=6)
    layer = build(MultiHeadAttention(**SIZES, relative_positions=RelativePositions(2)), x)
    paths = [[0], [1], [0, 2], [0, 3], [0, 3, 4], [0, 2, 5]]
    cache = layer.init_cache(BATCH, 8)
    for position in range(3):
        first = beams * position
        mask = np.zeros((BATCH, beams, 8), bool)
        for beam in range(beams):
            mask[:, beam, paths[first + beam]] = True
        nodes, positions = x[:, first : first + beams], np.full(beams, position, "int32")
        output, cache = layer(nodes, nodes, cache=cache, index=first, attention_mask=mask, positions=positions)
        for beam in range(beams):
            path = x[:, paths[first + beam]]
            check_close(array(output)[:, beam], array(layer(path, path, use_causal_mask=True))[:, -1], 5e-6)


def test_cross_attention_step_by_step():
    """Queries at their own positions, which `index` tells."""
    query, value, key = cross_inputs()
    layer = build(MultiHeadAttention(**SIZES, relative_positions=RelativePositions(3)), query, value, key)
    cache, expected = layer.project_cache(value, key), array(layer(query, value, key))
    for i in range(QUERIES):
        output, cache = layer(query[:, i : i + 1], cache=cache, index=i)
        check_close(output, expected[:, i : i + 1], 5e-6)
