"""What losses and regularizers refuse."""

import functools
import math

import numpy as np

from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius
from tests.refusals import refusals, values

test_losses = refusals(
    *values(LabelSmoothedCrossentropy, label_smoothing=(1.0, -0.1, 1.5, math.nan, True, None)),
    *(
        (functools.partial(LabelSmoothedCrossentropy(), labels, np.zeros((3, 4, 9))), "`y_true`", "y_true of shape (3,")
        for labels in (np.zeros((3, 4, 9)), np.zeros(3))
    ),
)

test_regularizers = refusals(
    *values(Disagreement, kind=("heads",), per=("batch",), weight=(math.nan,)),
    *values(CosineSimilarity, head_axis=(1.5,), weight=(math.nan,)),
    *values(Frobenius, weight=(math.nan, "a", None, True)),
)
