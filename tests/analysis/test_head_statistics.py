"""Statistics of heads against sums over single rows."""

import keras
import numpy as np
import pytest

from keras_headattn.analysis import AttentionMaps, attention_maps, draw_head_statistics, head_statistics
from keras_headattn.layers import InteractingHeadAttention, MultiHeadAttention, TalkingHeadsAttention


def random_weights(shape, seed=0):
    weights = np.random.default_rng(seed).random(shape)
    return weights / weights.sum(-1, keepdims=True)


def bits(row):
    return -sum(share * np.log2(share) for share in row if share > 0)


def expected(weights):
    """Of weights `(B, h, n, m)`, row by row."""
    batch, heads, queries, _ = weights.shape
    rows = [(item, query) for item in range(batch) for query in range(queries) if weights[item, :, query].any()]
    statistics = {name: [] for name in ("first_token", "entropy", "redundancy", "rank")}
    for head in range(heads):
        statistics["first_token"].append(np.mean([weights[item, head, query, 0] for item, query in rows]))
        statistics["entropy"].append(np.mean([bits(weights[item, head, query]) for item, query in rows]))
        similarities = []
        for other in set(range(heads)) - {head}:
            for item, query in rows:
                one, two = weights[item, head, query], weights[item, other, query]
                similarities.append(1 - bits((one + two) / 2) + (bits(one) + bits(two)) / 2)
        statistics["redundancy"].append(np.mean(similarities))
        ranks = []
        for item in range(batch):
            singular = np.sqrt(np.maximum(np.linalg.eigvalsh(weights[item, head] @ weights[item, head].T), 0))
            ranks.append(2 ** bits(singular / singular.sum()))
        statistics["rank"].append(np.mean(ranks))
    return statistics


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 1, 6), (3, 4, 6, 2)])
def test_equal_sums_over_rows(shape):
    weights = random_weights(shape)
    weights[0, :, -1] = 0 if shape[2] > 1 else weights[0, :, -1]  # padding
    found = head_statistics({"layer": weights})["layer"]
    for name, values in expected(weights).items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6, err_msg=name)


def test_items_without_queries_do_not_count():
    maps = np.stack([np.eye(4), np.zeros((4, 4))])[:, None]
    of_both, of_one = (head_statistics({"a": part})["a"] for part in (maps, maps[:1]))
    for name, values in of_one.items():
        np.testing.assert_allclose(of_both[name], values, err_msg=name)


def test_ends_of_the_scales():
    first = np.zeros((1, 2, 4, 4))
    first[..., 0] = 1
    statistics = head_statistics({"sink": first, "apart": np.stack([np.eye(4), np.eye(4)[::-1]])[None]})
    for layer, measure, value in [
        ("sink", "first_token", 1),
        ("sink", "entropy", 0),
        ("sink", "redundancy", 1),
        ("sink", "rank", 1),
        ("apart", "first_token", 0.25),
        ("apart", "redundancy", 0),
        ("apart", "rank", 4),
    ]:
        np.testing.assert_allclose(statistics[layer][measure], [value] * 2, atol=1e-9, err_msg=f"{layer} {measure}")


def test_weights_that_are_no_distributions_have_no_entropy():
    weights = random_weights((1, 2, 3, 3))
    weights[0, 0, 0] = [-0.5, 0.5, 1]
    statistics = head_statistics({"layer": weights})["layer"]
    assert np.isnan(statistics["entropy"]).all() and np.isnan(statistics["redundancy"]).all()
    assert np.isfinite(statistics["first_token"]).all() and np.isfinite(statistics["rank"]).all()
    titles = {axes.get_title() for axes in draw_head_statistics({"layer": statistics}).axes} - {""}
    assert titles == {"Attention to the first token", "Effective rank of the maps"}


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_weights_of_a_model_that_is_lost(value):
    """They are drawn too: what ends training is to say why."""
    maps = {"lost": np.full((1, 2, 3, 3), value), "whole": random_weights((1, 2, 3, 3))}
    statistics = head_statistics(maps)
    assert all(np.isnan(values).all() for values in statistics["lost"].values())
    assert all(np.isfinite(values).all() for values in statistics["whole"].values())
    draw_head_statistics({"lost": statistics["lost"]})


def test_a_single_head_repeats_no_other():
    statistics = head_statistics({"layer": random_weights((1, 1, 3, 3))})["layer"]
    assert np.isnan(statistics["redundancy"]).all() and np.isfinite(statistics["entropy"]).all()


def test_models_of_the_library_and_of_keras():
    inputs = keras.Input((5, 8))
    x = keras.layers.MultiHeadAttention(2, 4, name="stock", dropout=0.1)(inputs, inputs)
    x = keras.layers.GroupQueryAttention(4, 4, 2, name="grouped")(x, x)
    x = MultiHeadAttention(3, 4, name="ours")(x, x)
    x = TalkingHeadsAttention(2, 4, name="talking")(x, x)
    x = InteractingHeadAttention(2, 4, interaction="pairwise", name="pairs")(x, x)
    model = keras.Model(inputs, x)
    data = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    maps = attention_maps(model, data)
    assert [*maps] == ["stock", "grouped", "ours", "talking", "pairs"]
    stock = model.get_layer("stock")
    np.testing.assert_allclose(
        maps["stock"].weights, stock(data, data, return_attention_scores=True)[1].numpy(), rtol=1e-6
    )
    assert {name: len(layer["rank"]) for name, layer in head_statistics(maps).items()} == {
        "stock": 2, "grouped": 4, "ours": 3, "talking": 2, "pairs": 4,
    }  # fmt: skip
    np.testing.assert_array_equal(model(data), model(data))  # nothing is left behind
    assert "call" not in vars(stock)


def test_the_picture_has_a_row_for_each_layer_and_a_column_for_each_head():
    maps = {f"decoder/block_{i}/attention": AttentionMaps(random_weights((1, 2 + i, 3, 3))) for i in range(3)}
    figure = draw_head_statistics(head_statistics(maps), "Heads, epoch 2")
    assert figure.get_suptitle() == "Heads, epoch 2"
    pictures = [axes for axes in figure.axes if axes.get_title()]
    assert len(pictures) == 4
    for axes in pictures:
        assert [label.get_text() for label in axes.get_yticklabels()] == ["block_0", "block_1", "block_2"]
        (image,) = axes.get_images()
        assert image.get_array().shape == (3, 4)
        assert np.isnan(np.asarray(image.get_array().filled(np.nan))[0]).sum() == 2


def test_no_maps_are_refused():
    with pytest.raises(ValueError, match="Received: maps="):
        head_statistics({})
