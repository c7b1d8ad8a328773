"""Applies gradients that are summed over the replicas before the optimizer sees them."""

import contextlib

import tensorflow as tf


def apply_summed(optimizer, gradients, variables):
    """Sums the gradients over the replicas and updates the variables.

    Keras clips the gradients of each replica and sums them afterwards, and `LossScaleOptimizer` looks for
    infinities on the first replica only. Summed before, the optimizer sees on every replica what it would see
    on a single one.

    Args:
        optimizer: A built `keras.optimizers.Optimizer`, which may wrap others.
        gradients: List of tensors, one a variable; `None` where the loss does not depend on it.
        variables: List of trainable variables.

    Raises:
        ValueError: on several replicas, if the optimizer does what Keras can do on one only.
    """
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync > 1:
        _check(optimizer)
    present = [gradient for gradient in gradients if gradient is not None]
    summed = iter(replica.all_reduce("SUM", present) if present else [])
    gradients = [None if gradient is None else next(summed) for gradient in gradients]
    with _without_second_sum(optimizer):
        optimizer.apply_gradients(zip(gradients, variables, strict=True))


@contextlib.contextmanager
def _without_second_sum(optimizer):
    """Keras has no argument for gradients that are summed already: its own sum is replaced meanwhile.

    The replicas run this side by side. None leaves before all have met in the update, which follows the sum.
    """
    optimizers = list(_all_optimizers(optimizer))
    for one in optimizers:
        one._all_reduce_sum_gradients = lambda gradients_and_variables: gradients_and_variables
    try:
        yield
    finally:
        for one in optimizers:
            one.__dict__.pop("_all_reduce_sum_gradients", None)


def _all_optimizers(optimizer):
    yield optimizer
    wrapped = getattr(optimizer, "inner_optimizer", None)  # LossScaleOptimizer and this library's wrappers
    for inner in [wrapped] if wrapped else getattr(optimizer, "optimizers", []):  # MultiOptimizer
        yield from _all_optimizers(inner)


def _check(optimizer):
    for one in _all_optimizers(optimizer):
        for argument in ("gradient_accumulation_steps", "ema_overwrite_frequency"):
            if getattr(one, argument):
                raise ValueError(
                    f"`{argument}` does not work on several replicas: train on one, or leave it out. "
                    f"Received: {argument}={getattr(one, argument)} of optimizer {one.name}"
                )
