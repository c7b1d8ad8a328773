"""RandAugment and random erasing of images, in TensorFlow graphs."""

import functools
import math

import tensorflow as tf

GREY = 128.0  # where an image is moved away from


def rand_augment(image: tf.Tensor, seed: tf.Tensor, magnitude: float, num_ops: int = 2) -> tf.Tensor:
    """Applies random operations to an image, one after the other.

    Source: Cubuk et al. 2020, "RandAugment: practical automated data augmentation with a reduced search space", its 14
    operations. The magnitude varies with a deviation of 0.5, and colours and contrasts get weaker or stronger, as in
    Touvron et al. 2021, "Training data-efficient image transformers".

    Args:
        image: uint8 `(H, W, 3)`.
        seed: integers `(2,)`, as `tf.random.stateless_uniform` takes it.
        magnitude: float, 0 to 10.
        num_ops: int, number of operations. Default 2.

    Returns:
        uint8 `(H, W, 3)`.
    """
    shape, seeds = image.shape, tf.random.split(seed, 3 * num_ops)
    for step in range(num_ops):
        choice, size, sign = tf.unstack(seeds[3 * step : 3 * step + 3])
        index = tf.random.stateless_uniform((), choice, 0, len(OPERATIONS), tf.int32)
        level = tf.clip_by_value((magnitude + 0.5 * tf.random.stateless_normal((), size)) / 10, 0.0, 1.0)
        signed = tf.where(tf.random.stateless_uniform((), sign) < 0.5, -level, level)
        branches = [functools.partial(operation, image, level, signed) for operation in OPERATIONS.values()]
        image = tf.ensure_shape(tf.switch_case(index, branches), shape)
    return image


def erase(
    image: tf.Tensor,
    seed: tf.Tensor,
    probability: float,
    areas: tuple[float, float] = (0.02, 1 / 3),
    aspects: tuple[float, float] = (0.3, 3.3),
) -> tf.Tensor:
    """Replaces a random rectangle of an image by noise, with some probability.

    Source: Zhong et al. 2020, "Random erasing data augmentation".

    Args:
        image, seed: as `rand_augment` takes them.
        probability: float.
        areas: pair of float, least and largest share of the area. Default 0.02 and 1/3.
        aspects: pair of float, least and largest ratio of height to width. Default 0.3 and 3.3.

    Returns:
        uint8 `(H, W, 3)`.
    """
    height, width = image.shape[:2]
    numbers, noise = tf.unstack(tf.random.split(seed, 2))
    drawn, area, aspect, top, left = tf.unstack(tf.random.stateless_uniform((5,), numbers))
    area = height * width * (areas[0] + area * (areas[1] - areas[0]))
    aspect = tf.exp(math.log(aspects[0]) + aspect * math.log(aspects[1] / aspects[0]))
    rows = _within(tf.sqrt(area * aspect), top, height)
    columns = _within(tf.sqrt(area / aspect), left, width)
    is_erased = rows[:, None, None] & columns[None, :, None] & (drawn < probability)
    pixels = tf.random.stateless_uniform(image.shape, noise, 0, 256, tf.int32)
    return tf.where(is_erased, tf.cast(pixels, tf.uint8), image)


def _within(size, position, side):
    """Returns True at the pixels of a random interval, boolean `(side,)`."""
    size = tf.minimum(tf.round(size), side)
    begin = tf.floor(position * (side - size + 1))
    pixels = tf.range(side, dtype=tf.float32)
    return (pixels >= begin) & (pixels < begin + size)


def _pixels(image):
    return tf.saturate_cast(tf.round(image), tf.uint8)


def _blend(image, other, change):
    """Moves an image away from another by the factor `1 + change`, or towards it."""
    other = tf.cast(other, tf.float32)
    return _pixels(other + (1 + 0.9 * change) * (tf.cast(image, tf.float32) - other))


def _color(image, level, signed):
    return _blend(image, tf.image.rgb_to_grayscale(image), signed)


def _contrast(image, level, signed):
    return _blend(image, tf.round(tf.reduce_mean(tf.cast(tf.image.rgb_to_grayscale(image), tf.float32))), signed)


def _brightness(image, level, signed):
    return _blend(image, 0.0, signed)


def _sharpness(image, level, signed):
    kernel = tf.constant([[1.0, 1, 1], [1, 5, 1], [1, 1, 1]]) / 13
    kernel = tf.tile(kernel[:, :, None, None], (1, 1, 3, 1))
    smooth = tf.nn.depthwise_conv2d(tf.cast(image, tf.float32)[None], kernel, (1, 1, 1, 1), "VALID")[0]
    inner = tf.pad(tf.ones_like(smooth, tf.bool), [[1, 1], [1, 1], [0, 0]])
    smooth = tf.pad(smooth, [[1, 1], [1, 1], [0, 0]])
    return _blend(image, tf.where(inner, tf.round(smooth), tf.cast(image, tf.float32)), signed)


def _auto_contrast(image, level, signed):
    x = tf.cast(image, tf.float32)
    low, high = (reduce(x, axis=(0, 1), keepdims=True) for reduce in (tf.reduce_min, tf.reduce_max))
    return tf.where(high > low, tf.cast(tf.math.divide_no_nan(255 * (x - low), high - low), tf.uint8), image)


def _equalize(image, level, signed):
    return tf.stack([_equalized(channel) for channel in tf.unstack(image, axis=-1)], axis=-1)


def _equalized(channel):
    values = tf.cast(channel, tf.int32)
    counts = tf.math.bincount(tf.reshape(values, [-1]), minlength=256, maxlength=256)
    step = (tf.size(values) - counts[tf.reduce_max(values)]) // 255
    table = tf.minimum((tf.cumsum(counts, exclusive=True) + step // 2) // tf.maximum(step, 1), 255)
    return tf.where(step > 0, tf.cast(tf.gather(table, values), tf.uint8), channel)


def _solarize(image, level, signed):
    return tf.where(tf.cast(image, tf.float32) < 256 * (1 - level), image, 255 - image)


def _posterize(image, level, signed):
    dropped = tf.cast(tf.round(4 * level), tf.uint8)
    return tf.bitwise.left_shift(tf.bitwise.right_shift(image, dropped), dropped)


def _moved(image, row, column):
    """Returns an image whose pixel (x, y) is that at `row @ (x, y, 1), column @ (x, y, 1)`, seen from the middle."""
    height, width = image.shape[:2]
    (a, b, c), (d, e, f) = row, column
    x, y = (width - 1) / 2, (height - 1) / 2
    matrix = [a, b, c + x - a * x - b * y, d, e, f + y - d * x - e * y, 0.0, 0.0]
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(image, tf.float32)[None],
        transforms=tf.stack([tf.cast(value, tf.float32) for value in matrix])[None],
        output_shape=(height, width),
        fill_value=GREY,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )
    return _pixels(moved[0])


def _rotate(image, level, signed):
    angle = signed * math.pi / 6
    return _moved(image, (tf.cos(angle), -tf.sin(angle), 0), (tf.sin(angle), tf.cos(angle), 0))


def _shear_x(image, level, signed):
    return _moved(image, (1, 0.3 * signed, 0), (0, 1, 0))


def _shear_y(image, level, signed):
    return _moved(image, (1, 0, 0), (0.3 * signed, 1, 0))


def _translate_x(image, level, signed):
    return _moved(image, (1, 0, 0.45 * signed * image.shape[1]), (0, 1, 0))


def _translate_y(image, level, signed):
    return _moved(image, (1, 0, 0), (0, 1, 0.45 * signed * image.shape[0]))


# Functions of an image, a level from 0 to 1 and the same with a sign.
OPERATIONS = {
    "identity": lambda image, level, signed: image,
    "auto_contrast": _auto_contrast,
    "equalize": _equalize,
    "rotate": _rotate,
    "solarize": _solarize,
    "color": _color,
    "posterize": _posterize,
    "contrast": _contrast,
    "brightness": _brightness,
    "sharpness": _sharpness,
    "shear_x": _shear_x,
    "shear_y": _shear_y,
    "translate_x": _translate_x,
    "translate_y": _translate_y,
}
