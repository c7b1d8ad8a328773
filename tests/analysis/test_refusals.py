"""What analyses and drawings refuse."""

import functools

import keras
import numpy as np
import pytest

from keras_headattn import analysis, layers
from tests.refusals import refusals, refused, values

HALVES = np.full((2, 2), 0.5)


def attention(layer):
    x = keras.Input((5, 8))
    return keras.Model(x, layer(x, x))


def without_attention():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])


# ----------------------------------------------------------------------------------------------- predictions


def error(probabilities=HALVES, labels=(0, 1), **options):
    return analysis.expected_calibration_error(labels, probabilities, **options)


test_predictions = refusals(
    (lambda: error([0.5, 0.5]), "`probabilities`", "probabilities of shape (2,)"),
    (lambda: error([[1.0], [1.0]]), "`probabilities`", "probabilities of shape (2, 1)"),
    (lambda: error(np.zeros((0, 2)), []), "at least one prediction", "shape (0, 2)"),
    (lambda: error([[0.5, 0.5], [2.0, -1.0]]), "`probabilities`", "row 1, "),
    (lambda: error([[0.5, 0.6], [0.5, 0.5]]), "sum to 1", "row 0, [0.5 0.6], whose sum is 1.1"),
    (lambda: error([[0.5, np.nan], [0.5, 0.5]]), "`probabilities`", "row 0"),
    (lambda: error(labels=[0, 2]), "`labels`", "2 at place 1"),
    (lambda: error(labels=[0, -1]), "`labels`", "-1 at place 1"),
    (lambda: error(labels=[0.5, 1]), "`labels`", "0.5 at place 0"),
    (lambda: error(labels=[0]), "`labels`", "labels of shape (1,)"),
    (lambda: error(labels=HALVES), "`labels`", "labels of shape (2, 2)"),
    *values(error, bins=(0,), closed=("both",)),
    *(
        (functools.partial(function, labels, probabilities), name, received)
        for function in (analysis.overconfidence_error, analysis.draw_confusion_matrix, analysis.evaluate_classifier)
        for labels, probabilities, name, received in (
            ([0], [[3.0, -1.0]], "`probabilities`", "row 0"),
            ([5], [[0.5, 0.5]], "`labels`", "5 at place 0"),
        )
    ),
    *values(functools.partial(analysis.overconfidence_error, [0, 1], HALVES), bins=(0,), closed=("both",)),
    (lambda: analysis.draw_confusion_matrix([0, 1], np.eye(3)[:2], ["a"]), "`names`", "names=['a']"),
    (lambda: analysis.draw_reliability({}), "`models`", "models={}"),
    (lambda: analysis.draw_entropy_cdf([]), "`models`", "models=[]"),
    (lambda: analysis.draw_error_by_heads({}), "`models`", "models={}"),
    (lambda: analysis.draw_error_by_heads({"standard": {}}), "`models['standard']`", ""),
    (lambda: analysis.draw_error_by_heads({"standard": {8: []}}), "seed", "models['standard'][8]=[]"),
    (lambda: analysis.draw_error_by_heads({"standard": {8: 0.3}}), "seed", "models['standard'][8]=0.3"),
)


# ---------------------------------------------------------------------------------------- tokens and clusters

cluster_tokens = functools.partial(analysis.cluster_tokens, np.eye(2))
draw_clusters = functools.partial(analysis.draw_clusters, ["a", "b"])

test_clusters = refusals(
    *values(cluster_tokens, tokens=([], "ab")),
    (lambda: cluster_tokens(["a"]), "`posteriors`", "posteriors of shape (2, 2)"),
    *(
        (functools.partial(analysis.cluster_tokens, posteriors, ["a", "b"]), "`posteriors`", received)
        for posteriors, received in (
            ([1, 1], "posteriors of shape (2,)"),
            ([[1, 0], [0.5, 0.6]], "row 1, [0.5 0.6], whose sum is 1.1"),
            ([[2, -1], [1, 0]], "row 0"),
        )
    ),
    *values(functools.partial(cluster_tokens, ["a", "b"]), top=(0,), leave_out=("the",)),
    (lambda: analysis.draw_cluster_tokens({}), "`tokens`", "tokens={}"),
    (lambda: analysis.draw_clusters([], np.eye(2)), "`tokens`", "tokens=[]"),
    (lambda: draw_clusters(np.eye(2)[:1]), "`posteriors`", "posteriors of shape (1, 2)"),
    (lambda: draw_clusters(np.ones((2, 2))), "`posteriors`", "row 0"),
    (lambda: draw_clusters(np.eye(2), keys=(["c"], [[0.2, 0.3, 0.5]])), "`posteriors`", "3 and 2"),
    (lambda: draw_clusters(np.eye(2), keys=(["c"], np.eye(3)[:0])), "`posteriors`", "posteriors of shape (0, 3)"),
)


def unsure(texts):
    return np.full((len(texts), 2), 0.5)


test_words = refusals(
    (lambda: analysis.lime(unsure, "a film"), "`texts`", "texts='a film'"),
    (lambda: analysis.lime(unsure, ["a film"], ["a", "b"]), "same length", ""),
    *values(functools.partial(analysis.lime, unsure, ["a film"]), samples=(0,), num_features=(0,)),
    (lambda: analysis.leave_one_out(lambda texts: np.zeros(3), ["a"]), "`predict`", "shape (3,)"),
    (lambda: analysis.remove_words(unsure, ["a b", "a"], HALVES), "`scores`", "text 1 has 1 words, 2 scores"),
    (lambda: analysis.remove_words(unsure, [], []), "at least one", "scores of 0 texts for 0"),
    (lambda: analysis.fit_lime([[True]], [1, 2]), "`kept`", "(1, 1) and (2,)"),
)


# ------------------------------------------------------------------------------------------------------ maps


def draw(**changed):
    given = {"image": np.zeros((6, 8, 3)), "maps": {"first": np.ones((2, 12, 12))}, "size": (3, 4)}
    return analysis.draw_image_maps(**given | changed)


GOOD = np.full((2, 3, 4, 5), 0.2)
BROKEN = np.where(np.arange(4)[:, None] == 3, [0.5, 0.5, 0.5, -0.5, 0.0], GOOD)
MAPS = {"a": np.eye(6).reshape(2, 3, 6)}

test_drawings = refusals(
    *values(draw, pixel=((6, 0),), maps=({},)),
    (lambda: draw(size=(3, 3)), "grid of 3 x 3", "'first' of shape"),
    (lambda: draw(image=np.zeros((6, 8))), "`image`", "image of shape (6, 8)"),
    (lambda: analysis.draw_text_maps({}, ["a"]), "`maps`", "maps={}"),
    *(
        (functools.partial(function, {"a": np.ones(shape)}), "`models`", f"models['a'] of shape {shape}")
        for function, shape in (
            (analysis.draw_head_redundancy, (2, 3)),
            (analysis.draw_head_redundancy, (0, 0)),
            (analysis.draw_queries, (5, 4)),
            (analysis.draw_queries, (2, 1, 4)),
            (analysis.draw_queries, (2, 5, 1)),
        )
    ),
    *(
        (functools.partial(function, {}), "`models`", "models={}")
        for function in (analysis.draw_head_redundancy, analysis.draw_queries, analysis.draw_head_ablation)
    ),
    (lambda: analysis.draw_head_redundancy({"a": HALVES, "b": 0.5}), "`models`", "models['b'] of shape ()"),
    (lambda: analysis.draw_head_redundancy({"two": np.eye(5)}, [2, 2]), "5 heads of 'two'", "layers=[2, 2]"),
    (lambda: analysis.draw_queries({"a": np.ones((2, 5, 4))}), "not all the same", "models['a']="),
    *values(functools.partial(analysis.draw_queries, MAPS), points=(1, 2.5)),
    (lambda: analysis.draw_head_ablation({"standard": {}}), "`models['standard']`", ""),
)


# ----------------------------------------------------------------------------------------------------- heads


def ablate(measured):
    analysis.head_ablation(attention(keras.layers.MultiHeadAttention(2, 4)), lambda: measured)


def redundancy_after_the_softmax():
    model = attention(layers.TalkingHeadsAttention(2, 4))
    analysis.layer_redundancy(analysis.attention_maps(model, np.ones((1, 5, 8))))


test_redundancy = refusals(
    *(
        (functools.partial(analysis.layer_redundancy, *arguments), name, received)
        for arguments, name, received in (
            (([],), "at least one layer", "maps=[]"),
            (({},), "at least one layer", "maps={}"),
            (([GOOD, GOOD[0]],), "`maps`", "maps[1] of shape (3, 4, 5)"),
            (({"a": np.zeros((2, 3, 4, 4, 5))},), "`maps`", "maps['a'] of shape (2, 3, 4, 4, 5)"),
            (([GOOD[:, :, :0]],), "not empty", "maps[0] of shape (2, 3, 0, 5)"),
            (([GOOD], np.ones((4, 2))), "`mask` must be", "mask of shape (4, 2)"),
            (([GOOD], np.zeros((2, 4))), "`mask`", "a mask that is False everywhere"),
            (({"a": GOOD, "b": BROKEN},), "`maps`", "maps['b'], where for query 3 the least weight is -0.5"),
            (([0 * GOOD],), "Leave out padding", "sums are [0. 0. 0.]"),
            (([np.full_like(GOOD, np.nan)],), "`maps`", "nan"),
            (([GOOD, GOOD], [np.ones((2, 4))]), "each of the 2 layers", "1 masks"),
        )
    ),
    *(
        (functools.partial(function, *arguments), name, received)
        for function in (analysis.head_redundancy, analysis.head_redundancy_matrix)
        for arguments, name, received in (
            (([],), "at least one layer", "maps=[]"),
            (([0 * GOOD],), "Leave out padding", "sums are [0. 0. 0.]"),
            (([GOOD], np.ones((4, 2))), "`mask` must be", "mask of shape (4, 2)"),
        )
    ),
    (redundancy_after_the_softmax, "after the softmax", ""),
    *(
        (functools.partial(analysis.head_distance, np.zeros(shape)), "two heads", "representations of shape")
        for shape in ((2, 3), (2, 1, 3), (0, 2, 3))
    ),
    *values(functools.partial(analysis.max_num_heads, 512), lengths=(0, -3)),
    (lambda: analysis.max_num_heads(512, []), "`lengths`", "an empty iterable"),
    (lambda: analysis.max_num_heads(512, [0, 0]), "`lengths`", "a mean of 0.0"),
    *values(functools.partial(analysis.max_num_heads, lengths=20), model_dim=(0, -1, 2.5)),
    (lambda: analysis.attention_maps(without_attention(), np.ones((1, 2))), "attention layer", ""),
    (lambda: analysis.head_ablation(without_attention(), lambda: 0), "attention heads", "model="),
    (lambda: ablate([0.5, 0.7]), "`evaluate`", "[0.5 0.7]"),
    (lambda: ablate(None), "`evaluate`", None),
    (lambda: ablate("0.5"), "`evaluate`", "0.5"),
)


def test_lengths_of_batches_and_pairs():
    tf = pytest.importorskip("tensorflow")
    data = tf.data.Dataset
    for lengths, received in (
        (data.from_tensors((np.zeros(20), np.zeros(30))), "an item of type tuple"),
        (data.from_tensors({"source": np.zeros(20), "target": np.zeros(30)}), "an item of type dict"),
        (data.from_tensor_slices(np.zeros((64, 20))).batch(32), "an item with 2 axes"),
        (data.from_tensors(tf.ragged.constant([[1, 2], [3]])), "an item with 2 axes"),
        ([[[1, 2], [3]]], "an item with 2 axes"),
    ):
        with refused("`lengths`", received):
            analysis.max_num_heads(512, lengths)
