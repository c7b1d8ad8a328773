"""Random parts of images to train on, in TensorFlow graphs."""

import tensorflow as tf

from keras_headattn.data import central_crop

ASPECT_RATIOS = (3 / 4, 4 / 3)


def decode(data):
    """Decodes a JPEG, PNG, WebP, GIF (its first picture) or BMP file to pixels, uint8 `(H, W, 3)`."""
    return tf.io.decode_image(data, channels=3, expand_animations=False)


def inception_crop(
    data: tf.Tensor, size: int, seed: tf.Tensor, min_area: float = 0.08, flip: bool = True, jitter: float = 0.0
) -> tf.Tensor:
    """Takes a random part of an image, resized and perhaps mirrored: uint8 `(size, size, 3)`.

    Source: Szegedy et al. 2015, "Going deeper with convolutions", section 6: parts that cover 8 % to 100 % of the area,
    evenly distributed, with sides as 3:4 to 4:3.

    Args:
        data: bytes of an image file, scalar string tensor.
        size: int, pixels of a side.
        seed: int64 `(2,)`, as `tf.random.stateless_uniform` takes it.
        min_area: float, the smallest share of the area. Default 0.08.
        flip: True to mirror half of the images.
        jitter: float, as `color_jitter` takes it. Default 0.0.
    """
    seeds = _seeds(seed)
    is_jpeg = tf.io.is_jpeg(data)
    image = tf.cond(is_jpeg, lambda: tf.zeros((0, 0, 3), tf.uint8), lambda: decode(data))
    shape = tf.cond(is_jpeg, lambda: tf.io.extract_jpeg_shape(data), lambda: tf.shape(image))
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        tf.zeros((1, 0, 4)),
        seeds[0],
        min_object_covered=0.0,
        aspect_ratio_range=ASPECT_RATIOS,
        area_range=(min_area, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], extent[:2]], axis=0)
    image = tf.cond(
        is_jpeg,
        lambda: tf.image.decode_and_crop_jpeg(data, window, channels=3),  # reads no further than it must
        lambda: tf.slice(image, begin, extent),
    )
    image = tf.image.resize(image, (size, size))
    return _pixels(color_jitter(_mirror(image, seeds[1]) if flip else image, seeds[2], jitter), size)


def pad_and_crop(
    data: tf.Tensor, size: int, seed: tf.Tensor, padding: int | None = None, flip: bool = True, jitter: float = 0.0
) -> tf.Tensor:
    """Moves a small image by up to `padding` pixels each way, black where there is nothing, and perhaps mirrors it.

    Source: He et al. 2016, "Deep residual learning", section 4.2: 4 pixels for images of 32.

    Args:
        data: bytes of an image file, scalar string tensor. One of another size is resized and cropped to it at first.
        padding: int, pixels. Default `None`: an eighth of `size`.
        size, seed, flip, jitter: as `inception_crop` takes them.

    Returns:
        uint8 `(size, size, 3)`.
    """
    seeds = _seeds(seed)
    padding = size // 8 if padding is None else padding
    image = tf.cast(central_crop(data, size, size), tf.float32)
    image = tf.pad(image, [[padding, padding], [padding, padding], [0, 0]])
    top, left = tf.unstack(tf.random.stateless_uniform((2,), seeds[0], 0, 2 * padding + 1, tf.int32))
    image = image[top : top + size, left : left + size]
    return _pixels(color_jitter(_mirror(image, seeds[1]) if flip else image, seeds[2], jitter), size)


def color_jitter(image, seed, strength):
    """Multiplies brightness, contrast and saturation by random factors."""
    if not strength:
        return image
    factors = tf.random.stateless_uniform((3,), seed, 1 - strength, 1 + strength)
    image = image * factors[0]
    grey = tf.image.rgb_to_grayscale(image)
    image = grey + factors[2] * (image - grey)
    mean = tf.reduce_mean(grey)
    return mean + factors[1] * (image - mean)


def _mirror(image, seed):
    is_mirrored = tf.random.stateless_uniform((), seed) < 0.5
    return tf.cond(is_mirrored, lambda: tf.reverse(image, [1]), lambda: image)


def _pixels(image, size):
    image = tf.saturate_cast(tf.round(image), tf.uint8)
    return tf.ensure_shape(image, (size, size, 3))


def _seeds(seed):
    """Makes three seeds of one."""
    return [tf.stack([seed[0], 3 * seed[1] + index]) for index in range(3)]
