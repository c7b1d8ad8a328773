"""Optimizers that get the same gradients on every replica."""

import contextlib

import tensorflow as tf

from keras_headattn._private import local_updates


@contextlib.contextmanager
def sums_gradients(optimizer, observe=lambda gradients: None):
    """Makes `optimizer.apply` sum gradients over replicas first, pass them to `observe`, and update copies locally.

    Keras sums after clipping, checks for infinities on the first replica only, and synchronises every update, which
    TensorFlow refuses within the conditions of gradient accumulation and `ema_overwrite_frequency`.
    """
    if "apply" in vars(optimizer):  # another replica or an outer block has replaced it
        yield
        return
    apply = optimizer.apply

    def apply_summed(grads, trainable_variables=None):
        grads = _sum(grads)
        observe(grads)
        with local_updates(list(_all_optimizers(optimizer))):
            return apply(grads, trainable_variables)

    optimizer.apply = apply_summed
    try:
        yield
    finally:
        del optimizer.apply


def _sum(gradients):
    present = [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]
    summed = iter(tf.distribute.get_replica_context().all_reduce("SUM", present) if present else [])
    return [None if gradient is None else next(summed) for gradient in gradients]


def _all_optimizers(optimizer):
    yield optimizer
    wrapped = getattr(optimizer, "inner_optimizer", None)  # LossScaleOptimizer and this library's wrappers
    for inner in [wrapped] if wrapped else getattr(optimizer, "optimizers", []):  # MultiOptimizer
        yield from _all_optimizers(inner)
