"""Dot-product attention by the fused kernels of JAX and PyTorch.

Kernels skip what a causal mask, a window or lengths hide, and hold no map `(n, m)`. They have no argument for what
depends on the key alone: masks and biases of keys, and sinks. It becomes a further feature of queries and keys, which
adds it to the logits: [q, 1] . [k, b] = q . k + b.
"""

import contextlib
import logging

import keras
import numpy as np
from keras import ops

from keras_headattn.ops._dense import is_one
from keras_headattn.ops._masks import attending_queries, combine_masks, length_mask, plain_masks, split_masks

MULTIPLE = 8  # of which the width of heads must be one for cuDNN


def width_of(x):
    """Returns the size of the last axis as a number, also while PyTorch traces an export."""
    return int(x.shape[-1])


def has_kernel(key_dim, value_dim, sliding_window, has_sinks):
    """Returns True if a kernel of this backend can do it, with the narrower of keys and values padded."""
    fits = max(key_dim, value_dim) <= 2 * min(key_dim, value_dim)
    return keras.backend.backend() != "tensorflow" and fits and not (has_sinks and sliding_window is not None)


def fused_attention(
    query, key, value, masks, bias, scale, flash_attention, sinks, *, is_causal, sliding_window, key_lengths
):
    """Returns `ops.attend` of tensors with heads, and of a list of masks with four axes."""
    key, value = (ops.cast(x, query.dtype) for x in (key, value))
    n, m, width = ops.shape(query)[2], ops.shape(key)[2], width_of(value)
    lengths = [] if key_lengths is None else [length_mask(key_lengths, m)]
    rows = attending_queries(n, m, [*masks, *lengths], is_causal, sliding_window)
    if keras.backend.backend() != "jax":
        masks, key_lengths = [*masks, *lengths], None
    _, of_keys, of_both = split_masks(masks)
    if key.shape[1] < value.shape[1]:  # collaborative heads share a key
        key = ops.broadcast_to(key, (*ops.shape(value)[:2], *ops.shape(key)[2:]))
    if bias is not None:
        bias = ops.cast(ops.reshape(bias, (*[1] * (4 - len(bias.shape)), *ops.shape(bias))), query.dtype)
    mask, bias, added = _split(combine_masks(*of_keys), combine_masks(*of_both), bias, key, scale)
    key_dim, (query, key) = width_of(query), _with_features(query, key, added, sinks, scale)
    if sinks is not None:
        # The first key, of value 0; a causal mask shows it to all queries if these begin one row later, too.
        query, value = (_first_row(x) if wanted else x for x, wanted in ((query, is_causal), (value, True)))
        mask, bias = (_first_entries(x, m, is_causal, start) for x, start in ((mask, True), (bias, 0)))
        key_lengths = None if key_lengths is None else key_lengths + 1
    if not width_of(query) == key_dim == width:
        widest = -(-max(width_of(query), width) // MULTIPLE) * MULTIPLE
        query, key, value = (_widened(x, widest) for x in (query, key, value))
    run = _by_jax if keras.backend.backend() == "jax" else _by_torch
    output = run(query, key, value, mask, bias, scale, flash_attention, is_causal, sliding_window, key_lengths)
    output = output[:, :, 1:] if sinks is not None and is_causal else output
    output = output[..., :width]
    return output if rows is None else ops.where(rows, output, ops.zeros((), output.dtype))


def _split(of_keys, mask, bias, key, scale):
    """Returns mask and bias of the kernel, and what a key's feature adds, `(B, g, m, 1)` or `None`."""
    groups, dtype, added = key.shape[1], keras.backend.standardize_dtype(key.dtype), None
    of_each_head = of_keys is not None and of_keys.shape[1] not in (1, groups)  # several masks for one shared key
    if of_each_head:
        of_keys, mask = None, combine_masks(of_keys, mask)
    if bias is not None and is_one(bias.shape[2]) and bias.shape[1] in (1, groups):
        added, bias = bias / scale, None
    if of_keys is not None:
        least = ops.cast(-(2.0**15) if dtype == "float16" else -(2.0**40), dtype)  # cuDNN fails at sums of lower ones
        added = ops.where(of_keys, ops.zeros((), dtype) if added is None else added, least)
    return mask, bias, None if added is None else ops.swapaxes(added, 2, 3)


def _with_features(query, key, added, sinks, scale):
    """Returns queries and keys with one feature for what keys add, and one that only the sink has."""
    # Of the sizes of other tensors: sizes alone would be constants in what PyTorch exports.
    zeros, ones = ops.zeros_like(key[..., :1]), ops.ones_like(query[..., :1])
    if added is not None:
        query = ops.concatenate([query, ones], axis=-1)
        key = ops.concatenate([key, zeros + ops.cast(added, key.dtype)], axis=-1)
    if sinks is not None:
        query = ops.concatenate([query, ones * ops.cast(sinks, query.dtype)[:, None, None] / scale], axis=-1)
        width = width_of(query)
        sink = zeros[:, :, :1] + ops.cast(np.eye(width)[-1:], key.dtype)
        key = ops.concatenate([sink, _widened(key, width)], axis=2)
    return query, key


def _first_row(x):
    return ops.pad(x, [(0, 0), (0, 0), (1, 0), (0, 0)])


def _first_entries(x, m, is_causal, start):
    """Adds a column, and a row if the call is causal, to a mask or bias of the kernel."""
    if x is None:
        return None
    if is_one(x.shape[3]):
        x = ops.broadcast_to(x, (*ops.shape(x)[:3], m))
    row = int(is_causal and not is_one(x.shape[2]))
    return ops.pad(x, [(0, 0), (0, 0), (row, 0), (1, 0)], constant_values=start)


def _widened(x, width):
    return ops.pad(x, [(0, 0), (0, 0), (0, 0), (0, width - width_of(x))])


def _by_jax(query, key, value, mask, bias, scale, flash_attention, is_causal, sliding_window, key_lengths):
    import jax

    n, m = ops.shape(query)[2], ops.shape(key)[2]
    if sliding_window is not None and not (isinstance(n, int) and isinstance(m, int)):  # JAX's window needs known sizes
        mask, sliding_window = combine_masks(mask, *plain_masks(n, m, False, sliding_window)), None
    reach = None if sliding_window is None else sliding_window - 1
    inputs = [ops.swapaxes(x, 1, 2) for x in (query, key, value)]
    arguments = dict(bias=bias, mask=mask, scale=scale, is_causal=is_causal)
    if reach is not None:
        arguments["local_window_size"] = (reach, 0 if is_causal else reach)
    if key_lengths is not None:
        arguments["key_value_seq_lengths"] = ops.maximum(ops.cast(key_lengths, "int32"), 1)  # of none cuDNN makes NaN
    is_narrow = keras.backend.standardize_dtype(query.dtype) in ("float16", "bfloat16")
    if flash_attention or flash_attention is None and is_narrow and jax.default_backend() == "gpu":
        try:
            even, options = _of_even_lengths(inputs, arguments)
            output = jax.nn.dot_product_attention(*even, **options, implementation="cudnn")
            return ops.swapaxes(output[:, : query.shape[2]], 1, 2)
        except Exception as error:
            if flash_attention:
                raise
            logging.getLogger(__name__).warning("Attention runs without cuDNN: %s", error)
    if query.dtype == "float16" and jax.default_backend() != "gpu":  # JAX has such products on GPUs alone
        inputs = [ops.cast(x, "float32") for x in inputs]
    output = jax.nn.dot_product_attention(*inputs, **arguments, implementation="xla")
    return ops.swapaxes(ops.cast(output, query.dtype), 1, 2)


def _of_even_lengths(inputs, arguments):
    """Pads queries and keys to even lengths, which alone cuDNN's backward pass takes."""
    (batch, n, *_), (_, m, *_) = inputs[0].shape, inputs[1].shape
    if not n % 2 and not m % 2:
        return inputs, arguments
    lengths = arguments.get("key_value_seq_lengths", ops.full((batch,), m, "int32"))
    padded = [ops.pad(x, [(0, 0), (0, x.shape[1] % 2), (0, 0), (0, 0)]) for x in inputs]
    maps = {name: x for name, x in arguments.items() if name in ("mask", "bias") and x is not None}
    for name, x in maps.items():
        maps[name] = ops.pad(x, [(0, 0), (0, 0), *((0, size % 2 if size > 1 else 0) for size in x.shape[2:])])
    return padded, arguments | maps | {"key_value_seq_lengths": lengths}


def _by_torch(query, key, value, mask, bias, scale, flash_attention, is_causal, sliding_window, key_lengths):
    import torch

    n, m = ops.shape(query)[2], ops.shape(key)[2]
    if mask is None and bias is None and _fits_in_blocks(n, m, sliding_window, is_causal):
        return _by_torch_in_blocks(query, key, value, scale, flash_attention, is_causal, sliding_window)
    if mask is not None or bias is not None or sliding_window is not None:  # PyTorch takes one mask, or is causal
        mask, is_causal = combine_masks(mask, *plain_masks(n, m, is_causal, sliding_window)), False
    if mask is not None:
        least = float(np.finfo("float16" if query.dtype == torch.float16 else "float32").min) / 2
        bias = ops.where(mask, ops.zeros((), query.dtype) if bias is None else bias, least)
    is_shared = bool(key.shape[1] < query.shape[1])  # a tensor while PyTorch traces an export
    # Kernels that share keys are flash kernels: of 16 bits, without a mask.
    shares = is_shared and bias is None and query.dtype in (torch.float16, torch.bfloat16)
    if is_shared and not shares:
        key, value = (ops.repeat(x, query.shape[1] // key.shape[1], axis=1) for x in (key, value))
    kernels = torch.nn.attention.SDPBackend.FLASH_ATTENTION
    with torch.nn.attention.sdpa_kernel(kernels) if flash_attention else contextlib.nullcontext():
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, is_causal=is_causal, scale=scale, enable_gqa=shares
        )


def _fits_in_blocks(n, m, window, is_causal):
    """Returns True if keys in reach of a block of queries as long as the window are fewer than all."""
    return window is not None and isinstance(n, int) and n == m and (2 if is_causal else 3) * window < n


def _by_torch_in_blocks(query, key, value, scale, flash_attention, is_causal, window):
    """Attends within a window: a block of queries is an item of the batch, with the keys in its reach."""
    (batch, heads, n, _), blocks = query.shape, 2 if is_causal else 3
    count = -(-n // window)
    more = count * window - n
    query = _in_blocks(ops.pad(query, [(0, 0), (0, 0), (0, more), (0, 0)]), count)
    key, value = (
        ops.concatenate([part[:, i : i + count] for i in range(blocks)], axis=3)
        for part in (
            _in_blocks(ops.pad(x, [(0, 0), (0, 0), (window, more + (blocks - 2) * window), (0, 0)]), count + blocks - 1)
            for x in (key, value)
        )
    )
    rows, columns = np.arange(window)[:, None], np.arange(blocks * window) - window
    places = columns + window * np.arange(count)[:, None, None]  # of the keys in the sequence
    distances = rows - columns
    mask = (np.abs(distances) < window) & (distances >= (0 if is_causal else -window)) & (places >= 0) & (places < n)
    mask = ops.tile(ops.convert_to_tensor(mask[:, None]), (batch, 1, 1, 1))
    items = [ops.reshape(x, (batch * count, *x.shape[2:])) for x in (query, key, value)]
    output = _by_torch(*items, mask, None, scale, flash_attention, False, None, None)
    output = ops.swapaxes(ops.reshape(output, (batch, count, heads, window, -1)), 1, 2)
    return ops.reshape(output, (batch, heads, count * window, -1))[:, :, :n]


def _in_blocks(x, count):
    """Returns the rows of `(B, h, n, d)` in blocks, `(B, count, h, n / count, d)`."""
    batch, heads, n, width = x.shape
    return ops.swapaxes(ops.reshape(x, (batch, heads, count, n // count, width)), 1, 2)
