"""Images of a batch mixed in pairs, with their labels, in TensorFlow graphs."""

import tensorflow as tf


def mix(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, num_classes: int, mixup: float = 0.0, cutmix: float = 0.0
) -> tf.Tensor:
    """Mixes each image of a batch with the one before it, by MixUp or CutMix.

    MixUp takes the mean of two images with the weights w and 1 - w; CutMix replaces a rectangle with 1 - w of the area.
    w is drawn from the distribution Beta(a, a) for each image. Where both are given, an image gets either at random.
    The labels are mixed with the shares of the pixels.

    Source: Zhang et al. 2018, "mixup: beyond empirical risk minimization"; Yun et al. 2019, "CutMix".

    Args:
        images: uint8 `(B, H, W, 3)`.
        labels: integers `(B,)`, or shares of classes, float32 `(B, num_classes)`.
        seed: integers `(2,)`, as `tf.random.stateless_uniform` takes it.
        num_classes: int.
        mixup, cutmix: float, a of MixUp and CutMix. Default 0.0: never.

    Returns:
        Images, uint8 `(B, H, W, 3)`, and shares of classes, float32 `(B, num_classes)`.
    """
    if labels.shape.rank == 1:
        labels = tf.one_hot(labels, num_classes)
    if not (mixup or cutmix):
        return images, labels
    count, (height, width) = tf.shape(images)[0], images.shape[1:3]
    choice, blended, cut, centre = tf.unstack(tf.random.split(seed, 4))
    kept = tf.ones((count, height, width, 1))  # weight of a pixel of the image itself
    if mixup:
        kept *= _beta(mixup, count, blended)[:, None, None, None]
    if cutmix:
        outside = _outside(1 - _beta(cutmix, count, cut), height, width, centre)
        is_cut = tf.random.stateless_uniform((count, 1, 1, 1), choice) < (0.5 if mixup else 1.0)
        kept = tf.where(is_cut, outside, kept)
    mixed = _pair(kept, tf.cast(images, tf.float32))
    shares = _pair(tf.reduce_mean(kept, axis=(1, 2)), labels)
    return tf.cast(tf.round(mixed), tf.uint8), shares


def _pair(weight, x):
    return weight * x + (1 - weight) * tf.roll(x, 1, axis=0)


def _beta(parameter, count, seed):
    """Draws `(count,)` numbers of Beta(parameter, parameter), in float64: small parameters have tiny gammas."""
    gammas = tf.random.stateless_gamma((2, count), seed, tf.constant(parameter, tf.float64), dtype=tf.float64)
    return tf.cast(gammas[0] / (gammas[0] + gammas[1]), tf.float32)


def _outside(areas, height, width, seed):
    """Returns 0 in rectangles with these shares of the area `(B,)`, cut at the borders, and 1 outside."""
    centres = tf.random.stateless_uniform((2, tf.size(areas)), seed)
    inside = 1.0
    for centre, side, shape in ((centres[0], height, (1, -1, 1, 1)), (centres[1], width, (1, 1, -1, 1))):
        half = tf.floor(side * tf.sqrt(areas)) / 2
        begin = tf.floor(centre * side - half)[:, None, None, None]
        positions = tf.reshape(tf.range(side, dtype=tf.float32), shape)
        inside *= tf.cast((positions >= begin) & (positions < begin + 2 * half[:, None, None, None]), tf.float32)
    return 1 - inside
