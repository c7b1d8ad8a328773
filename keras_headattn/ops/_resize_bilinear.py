import numpy as np
from keras import ops

from keras_headattn._types import Tensor


def resize_bilinear(images: Tensor, height: int, width: int, half_pixel: bool = True) -> Tensor:
    """Resizes images to `(B, height, width, C)` by bilinear interpolation without anti-aliasing.

    Args:
        images: `(B, h, w, C)`; only `B` may be unknown.
        height, width: in pixels.
        half_pixel: True for pixels at their centres, as in `keras.ops.image.resize`; False for pixels at their upper
            left corners, as in TensorFlow 1.

    >>> row = np.reshape([0.0, 2.0], (1, 1, 2, 1))
    >>> [np.ravel(resize_bilinear(row, 1, 4, half_pixel)).tolist() for half_pixel in (True, False)]
    [[0.0, 0.5, 1.5, 2.0], [0.0, 1.0, 2.0, 2.0]]
    """
    h, w, channels = map(int, images.shape[1:])  # sizes are tensors while PyTorch traces
    rows, columns = (ops.cast(_weights(*sizes, half_pixel), images.dtype) for sizes in ((h, height), (w, width)))
    images = ops.matmul(rows, ops.reshape(images, (-1, h, w * channels)))
    images = ops.matmul(columns, ops.reshape(images, (-1, w, channels)))
    return ops.reshape(images, (-1, height, width, channels))


def _weights(size, new_size, half_pixel):
    """Returns `(new_size, size)`: the share of each old pixel in each new one."""
    offset = 0.5 if half_pixel else 0.0
    places = np.clip((np.arange(new_size) + offset) * size / new_size - offset, 0, size - 1)
    # Triangles of width 1 around the old pixels.
    return np.maximum(0, 1 - np.abs(places[:, None] - np.arange(size)))
