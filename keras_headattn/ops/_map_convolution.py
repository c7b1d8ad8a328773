import keras
import numpy as np
from keras import ops

from keras_headattn._private import is_compiled_by_xla
from keras_headattn._types import Tensor
from keras_headattn.ops._dense import is_one
from keras_headattn.ops._exchange_heads import exchange_heads
from keras_headattn.ops._masks import where_allowed


def convolve_maps(
    maps: Tensor,
    kernel: Tensor,
    bias: Tensor,
    role: str,
    earlier_rows: Tensor | None = None,
    query_positions: Tensor | None = None,
) -> Tensor:
    """Convolves attention maps, as images with the heads as channels, and applies ReLU.

    | role | entry `(i, j)` of the result reads, for a kernel of size k = 2p + 1 |
    |---|---|
    | `"encoder"` | rows and columns up to p away |
    | `"decoder"` | `(i - a, j - b)` with 2p >= b >= a >= 0: the kernel's lower triangle, shifted by p down and right |
    | `"cross"` | rows i - 2p to i, columns up to p away: the result is shifted by p down |

    A query thus reads only what it may know. Maps are padded with zeros; rows and columns shifted in are 0.

    Source: Wang et al. 2021, "Evolving attention with residual convolutions", sections 3.3 and 3.5, with the shift for
    encoder-decoder attention along the target.

    Args:
        maps: `(B, h, n, m)`, 0 where a query may not attend.
        kernel: `(k, k, h, h)`, k odd.
        bias: `(h,)`.
        role: `"encoder"`, `"decoder"` or `"cross"`.
        earlier_rows: `(B, h, k - 1, m)`, the rows before these. Default to zeros. Not for an encoder.
        query_positions: `(n,)`, indices of the rows. Default to 0, 1, ... Not for an encoder.

    Returns:
        `(B, h, n, m)`.
    """
    size = kernel.shape[0]
    batch, heads, n, m = ops.shape(maps)
    more = more_items, more_rows, more_columns = _more(batch, n, m)
    padding = [(0, more_items), (0, 0), (0, more_rows), (0, more_columns)]
    if role == "encoder":
        padded = ops.pad(maps, padding) if any(more) else maps
        return _cut(_convolve(padded, kernel, bias, "same"), more, n, m)
    shift = size // 2
    if query_positions is None:
        query_positions = ops.arange(n, dtype="int32")
    if earlier_rows is None:
        earlier_rows = ops.zeros((batch, heads, size - 1, m), maps.dtype)
    else:
        earlier_rows = _from_first_row(earlier_rows, query_positions)
    before, after = (size - 1, 0) if role == "decoder" else (shift, shift)
    padding[3] = (before, after + more_columns)
    padded = ops.pad(ops.concatenate([earlier_rows, maps], axis=2), padding)
    there = ops.expand_dims(ops.greater_equal(query_positions, shift), 1)
    if role == "decoder":
        kernel = kernel * ops.cast(np.tri(size)[:, :, None, None], kernel.dtype)
        there = ops.logical_and(there, ops.greater_equal(ops.arange(m, dtype="int32"), shift))
    convolved = _cut(_convolve(padded, kernel, bias, "valid", is_one(maps.shape[2])), more, n, m)
    return ops.where(there, convolved, ops.zeros((), convolved.dtype))


def _from_first_row(rows, query_positions):
    """Returns the rows `(B, h, r, m)` before the queries, with 0 for those before position 0."""
    there = query_positions[:1] + ops.arange(-rows.shape[2], 0, dtype="int32") >= 0
    return ops.where(there[:, None], rows, ops.zeros((), rows.dtype))


def convolve_each_head(maps, kernel, mask=None, earlier_rows=None, query_positions=None, segment_ids=None):
    """Adds to each head's map `(B, h, n, m)` its convolution by a kernel `(h, a, b)`, b odd. Forbidden entries are 0.

    Entry `(i, j)` reads rows i - a + 1 to i, also `earlier_rows` `(B, h, a - 1, m)`, and columns up to (b - 1) / 2
    away. With `segment_ids` `(B, n)` it reads no row of another segment. Returns maps, and the last rows that were
    read, in place of `earlier_rows`.
    """
    if kernel is None:
        return maps, earlier_rows
    maps = where_allowed(maps, mask)
    dtype = keras.backend.standardize_dtype(maps.dtype)
    wide = keras.backend.result_type(dtype, "float32")
    image, kernel, last = ops.cast(maps, wide), ops.cast(kernel, wide), None
    if earlier_rows is not None:
        earlier_rows = _from_first_row(earlier_rows, query_positions)
        last = ops.concatenate([earlier_rows, ops.cast(maps, earlier_rows.dtype)], axis=2)[:, :, ops.shape(maps)[2] :]
    if segment_ids is None:
        convolved = image + _convolve_each_head(image, kernel, earlier_rows)
    else:
        convolved = image
        for back, taps in enumerate(reversed(ops.split(kernel, kernel.shape[1], axis=1))):
            same = ops.equal(segment_ids, _moved(segment_ids, 1, back))[:, None, :, None]
            rows = ops.where(same, _moved(image, 2, back), ops.zeros((), wide))
            convolved = convolved + _convolve_each_head(rows, taps)
    if dtype == "float16":
        convolved = ops.clip(convolved, *(float(sign * np.finfo(dtype).max) for sign in (-1, 1)))
    return where_allowed(ops.cast(convolved, dtype), mask), last


def _convolve_each_head(maps, kernel, earlier_rows=None):
    _, rows, columns = kernel.shape
    batch, heads, n, m = ops.shape(maps)
    if earlier_rows is None:
        earlier_rows = ops.zeros((batch, heads, rows - 1, m), maps.dtype)
    more_items, more_rows, more_columns = _more(batch, n, m)
    by_xla, to_one_row = is_compiled_by_xla(), is_one(maps.shape[2])
    if by_xla and not to_one_row:
        more_rows = 1  # without a cut XLA may compute some terms of the sum with the softmax, and keep them in memory
    padding = [(0, more_items), (0, 0), (0, more_rows), (columns // 2, columns // 2 + more_columns)]
    images = ops.pad(ops.concatenate([ops.cast(earlier_rows, maps.dtype), maps], axis=2), padding)
    if to_one_row:  # one product, and shifts
        kernels = ops.broadcast_to(ops.swapaxes(kernel, 1, 2), (ops.shape(images)[0], heads, columns, rows))
        convolved = _sum_of_shifts(ops.split(ops.matmul(kernels, images), columns, axis=2))
    elif by_xla:
        convolved = _shifted_sum(images, kernel)
    else:
        images = ops.transpose(images, (0, 2, 3, 1))  # channels last: the faster layout on CPUs
        kernel = ops.transpose(kernel, (1, 2, 0))[..., None]
        convolved = ops.depthwise_conv(images, kernel, padding="valid", data_format="channels_last")
        convolved = ops.transpose(convolved, (0, 3, 1, 2))
    return _cut(convolved, (more_items, more_rows, more_columns), n, m)


@ops.custom_gradient
def _shifted_sum(images, kernel):
    """Convolves each head's image `(B, h, n + a - 1, m + b - 1)` by a kernel `(h, a, b)`: for XLA, whose depthwise
    convolution is slow on CPUs.
    """
    _, rows, columns = kernel.shape

    def gradient(*args, upstream=None):
        upstream = args[0] if upstream is None else upstream
        around = ops.pad(upstream, [(0, 0), (0, 0), (rows - 1, rows - 1), (columns - 1, columns - 1)])
        return _sum_of_taps(around, ops.flip(kernel, (1, 2))), _kernel_gradient(images, upstream, rows, columns)

    return _sum_of_taps(images, kernel), gradient


def _sum_of_taps(images, kernel):
    """Adds up shifted images, each times its tap, which XLA does in one loop."""
    _, rows, columns = kernel.shape
    return sum(
        images[:, :, r : r - rows + 1 or None, c : c - columns + 1 or None] * kernel[:, r, c, None, None]
        for r in range(rows)
        for c in range(columns)
    )


BLOCK = 16  # columns of a product's block


def _kernel_gradient(images, upstream, rows, columns):
    """Sums products of upstream gradients and images over items, rows and blocks of columns, and then diagonals."""
    batch, heads, n, m = ops.shape(upstream)
    blocks = -(-m // BLOCK)
    spans = -(-(BLOCK + columns - 1) // BLOCK)  # blocks of images that one of gradients reads
    more = blocks * BLOCK - m
    shape = batch, heads, (n + rows - 1) * blocks, BLOCK
    images = ops.pad(images, [(0, 0)] * 3 + [(0, more + (spans - 1) * BLOCK - columns + 1)])
    upstream = ops.pad(upstream, [(0, 0), (0, 0), (rows - 1, rows - 1), (0, more)])
    read = [ops.reshape(images[..., k * BLOCK : (k + 1 - spans) * BLOCK or None], shape) for k in range(spans)]
    shifted = [ops.reshape(upstream[:, :, rows - 1 - r : -r or None], shape) for r in range(rows)]
    read, shifted = (ops.concatenate(parts, axis=3) for parts in (read, shifted))
    products = ops.sum(ops.matmul(ops.swapaxes(read, 2, 3), shifted), axis=0)
    diagonals = np.stack([np.eye(spans * BLOCK, BLOCK, -c) for c in range(columns)])
    products = ops.reshape(products, (heads, spans * BLOCK, rows, BLOCK))
    return ops.einsum("hirj,cij->hrc", products, ops.cast(diagonals, products.dtype))


def _moved(x, axis, steps):
    """Moves rows to later ones, and zeros to the first."""
    padding = [(steps if i == axis else 0, 0) for i in range(len(x.shape))]
    return ops.pad(x, padding)[(slice(None),) * axis + (slice(ops.shape(x)[axis]),)]


def _more(batch, n, m):
    """Returns how many zeros to add at the ends of axes, and to cut off: convolutions cannot be empty."""
    more_items = 1 if isinstance(batch, int) and not batch else 0  # an unknown empty batch does no harm
    return more_items, *(0 if isinstance(length, int) and length else 1 for length in (n, m))


def _cut(maps, more, n, m):
    """Removes padding, axis by axis: one slice of several axes would forget known sizes beside unknown ones."""
    more_items, more_rows, more_columns = more
    maps = maps[:0] if more_items else maps
    maps = maps[:, :, :n] if more_rows else maps
    return maps[..., :m] if more_columns else maps


def _convolve(maps, kernel, bias, padding, to_one_row=False):
    dtype = keras.backend.standardize_dtype(maps.dtype)
    wide = "float32" if dtype == "float16" else dtype  # sums of logits may overflow float16
    images, kernel, bias = (ops.cast(x, wide) for x in (maps, kernel, bias))
    if to_one_row:
        images, bias = _convolve_to_row(images, kernel), bias[:, None, None]
    else:
        images = ops.transpose(images, (0, 2, 3, 1))  # channels last: the faster layout on CPUs
        images = ops.conv(images, kernel, padding=padding, data_format="channels_last")
    images = ops.relu(images + bias)
    if wide != dtype:
        images = ops.minimum(images, float(np.finfo(dtype).max))
    images = ops.cast(images, dtype)
    return images if to_one_row else ops.transpose(images, (0, 3, 1, 2))


def _convolve_to_row(maps, kernel):
    """Convolves maps `(B, h, k, m + k - 1)` to one row, `(B, h, 1, m)`: a product for all columns, and shifts."""
    size, _, heads, _ = kernel.shape
    batch, _, _, columns = ops.shape(maps)
    kernel = ops.reshape(ops.transpose(kernel, (2, 0, 1, 3)), (heads * size, size * heads))
    products = exchange_heads(ops.reshape(maps, (batch, heads * size, 1, columns)), kernel)
    return _sum_of_shifts(ops.split(products, size, axis=1))


def _sum_of_shifts(products):
    """Adds up products `(B, h, 1, m + k - 1)` of maps and each column of a kernel, where the column reads them."""
    return sum(x[..., i : i - len(products) + 1 or None] for i, x in enumerate(products))
