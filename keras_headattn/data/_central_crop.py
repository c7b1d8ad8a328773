import tensorflow as tf


def central_crop(data: tf.Tensor, size: int, resized: int) -> tf.Tensor:
    """Decodes an image, resizes its shorter side to `resized` pixels and takes the central square.

    Args:
        data: bytes of an image file, scalar string tensor.
        size, resized: sides of the square and of the resized image in pixels, 224 and 256 in He et al. 2016.

    Returns:
        uint8 `(size, size, 3)`.
    """
    image = tf.io.decode_image(data, channels=3, expand_animations=False)  # of a GIF the first picture
    image = tf.saturate_cast(tf.round(_central_crop(image, size, resized)), tf.uint8)
    return tf.ensure_shape(image, (size, size, 3))


def _central_crop(image, size, resized):
    """Returns the crop, float32 `(size, size, 3)`. Only its pixels are resized: a one-pixel-wide image would need
    gigabytes.
    """
    shape = tf.cast(tf.shape(image)[:2], tf.int64)
    whole = tf.cast(tf.round(shape * resized / tf.reduce_min(shape)), tf.int64)
    (above, below, down), (left, right, across) = (_neighbours(shape[axis], whole[axis], size) for axis in (0, 1))
    pixels = tf.reshape(image, (-1, 3))

    def row(rows):
        corners = (tf.gather(pixels, rows[:, None] * shape[1] + columns) for columns in (left, right))
        begin, end = (tf.cast(corner, tf.float32) for corner in corners)
        return begin + (end - begin) * across[:, None]

    upper = row(above)
    return upper + (row(below) - upper) * down[:, None, None]


def _neighbours(count, resized, size):
    """Returns the pixels on both sides of each of the middle `size` pixels and its distance from the first, as
    `tf.image.resize` interpolates.
    """
    centres = tf.cast(tf.range(size, dtype=tf.int64) + (resized - size) // 2, tf.float32) + 0.5
    places = centres * (tf.cast(count, tf.float32) / tf.cast(resized, tf.float32)) - 0.5
    first = tf.floor(places)
    before, after = (
        tf.clip_by_value(tf.cast(pixels, tf.int64), 0, count - 1) for pixels in (first, tf.math.ceil(places))
    )
    return before, after, places - first
