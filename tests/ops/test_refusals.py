"""What operations refuse."""

import functools

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.ops import linear_crossentropy, stein_gradient
from keras_headattn.ops._masks import check_mask
from tests.refusals import refusals, values


def check(mask, shape=(2, 3, 4)):
    return lambda: check_mask("some_mask", mask, shape)


def in_a_graph(mask):
    graph = tf.function(lambda mask: check_mask("some_mask", mask, (2, 3)), [tf.TensorSpec((None, 4), mask.dtype)])
    return lambda: graph(mask)


test_masks_of_other_shapes = refusals(
    *(
        (check(np.ones(shape, dtype)), "some_mask", shape)
        for shape in ((2, 3, 5), (3, 3, 4), (2, 2, 4), (5,), (1, 2, 3, 4), (0, 3, 4))
        for dtype in ("bool", "float32")
    ),
    (check(np.ones((7, 2, 9)), (None, 3, None)), "some_mask", (7, 2, 9)),
    (in_a_graph(np.zeros((2, 4), "int32")), "some_mask", "4)"),
    (check(keras.Input((4,)), (None, 3)), "some_mask", (None, 4)),
)

test_masks_of_other_values = refusals(
    *(
        (check(make([[1, 1, 1], [1, 1, value]]), (2, 3)), "some_mask", value)
        for value in (2.0, -1.0, 0.5, -1e9, np.nan, np.inf)
        for make in (np.array, tf.constant)
    )
)

crossentropy = functools.partial(linear_crossentropy, np.zeros((1, 6)), np.zeros((6, 9)), np.zeros(1, "int32"))
stein = functools.partial(stein_gradient, np.ones((2, 3)), np.ones((2, 3)), 1.0)

test_arguments = refusals(
    *values(crossentropy, chunk_size=(0,), label_smoothing=(1.0,)),
    *values(stein, kernel=("gaussian",), bandwidth=("median",)),
)
