"""What optimizers, schedules and marks of heads refuse."""

import functools
import math

import keras
import numpy as np

from keras_headattn.optimizers import (
    AdamWeightDecay,
    InverseSquareRoot,
    LinearDecay,
    Repulsive,
    StepDecay,
    layerwise_rates,
    mark_heads,
)
from tests.models.small import make
from tests.refusals import refusals, values

NAN = math.nan


def dense():
    layer = keras.layers.Dense(6)
    layer.build((None, 4))
    return layer


def build(optimizer, model=dense):
    optimizer.build(model().trainable_variables)


test_adam_weight_decay = refusals(
    *values(functools.partial(AdamWeightDecay, 0.1), weight_decay=(-1,), beta_1=(1,)),
    (lambda: AdamWeightDecay(0.1, rates={"block": -1}), "`rates['block']`", ""),
    (lambda: AdamWeightDecay(0.1, rates={"(block": 1}), "`rates`", "'(block'"),
    (lambda: build(AdamWeightDecay(0.1, rates={"blok": 1})), "`rates`", "['blok'] for "),
    (lambda: layerwise_rates(-1), "`num_layers`", -1),
    (lambda: layerwise_rates(2, 0.0), "`factor`", 0.0),
    (lambda: layerwise_rates(2, 0.8, -1), "`skipped`", -1),
)

test_marks = refusals(
    *(
        (functools.partial(mark_heads, dense().kernel, *arguments), name, received)
        for arguments, name, received in (
            ((2, "query"), "`axis`", "axis=2"),
            ((True, "query"), "`axis`", "axis=True"),
            ((0, 1), "`kind`", "kind=1"),
            ((0, ""), "`kind`", "kind=''"),
            ((0, "query", "self"), "`role`", "role='self'"),
        )
    )
)

test_repulsive = refusals(
    *values(functools.partial(Repulsive, "sgd"), method=("adam",), roles=(["self"], [], "encoder")),
    *values(functools.partial(Repulsive, "sgd"), projections=("query",), layers=("second",), grouping=("code",)),
    *values(functools.partial(Repulsive, "sgd"), bandwidth=(1,), kernel=("linear",), select=("[", 3)),
    *values(functools.partial(Repulsive, "sgd"), step_size=(0, "a", NAN), inverse_temperature=(-1, NAN)),
    *values(functools.partial(Repulsive, "sgd"), prior_deviation=(0, NAN), repulsive_weight=(-1, NAN, True)),
    *values(functools.partial(Repulsive, "sgd"), seed=("a",)),
    *values(Repulsive, inner_optimizer=(None,)),
    (lambda: Repulsive("sgd").apply([keras.ops.ones((4, 2, 2))]), "`trainable_variables`", "trainable_variables=None"),
    (lambda: Repulsive(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())), "Scale the loss outside", ""),
    (lambda: build(Repulsive("sgd")), "no such weight at all", ""),
    (lambda: build(Repulsive("sgd", select="nowhere"), make), "weights of attention heads", "select='nowhere'"),
)

test_schedules = refusals(
    (lambda: InverseSquareRoot(1e-3, 0), "`warmup_steps`", 0),
    (lambda: InverseSquareRoot(1e-3, "a"), "`warmup_steps`", "a"),
    (lambda: InverseSquareRoot(NAN, 5), "`peak`", NAN),
    (lambda: InverseSquareRoot.for_width(0, 10), "`model_dim`", 0),
    (lambda: InverseSquareRoot.for_width(4, 0), "`warmup_steps`", 0),
    (lambda: InverseSquareRoot.for_width(4, 10, NAN), "`factor`", NAN),
    (lambda: StepDecay(NAN, 1, ()), "`peak`", NAN),
    (lambda: StepDecay(0.1, -1, ()), "`warmup_steps`", -1),
    (lambda: StepDecay(0.1, NAN, ()), "`warmup_steps`", NAN),
    (lambda: StepDecay(0.1, 0, (5, 5)), "`boundaries`", (5, 5)),
    (lambda: StepDecay(0.1, 0, (5, np.nan)), "`boundaries`", ""),
    (lambda: StepDecay(0.1, 0, 5), "`boundaries`", 5),
    (lambda: StepDecay(0.1, 0, (5,), "a"), "`factor`", "a"),
    (lambda: LinearDecay(-1.0, 4, 10), "`peak`", -1.0),
    (lambda: LinearDecay(0.2, -1, 10), "`warmup_steps`", -1),
    (lambda: LinearDecay(0.2, 4, 4), "`total_steps`", 4),
)
