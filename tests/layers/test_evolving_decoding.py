"""Step by step as at once, for attention whose rows look at the rows before them, in chains of blocks."""

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import EvolvingAttention, RealFormerAttention
from keras_headattn.ops import convolve_maps
from keras_headattn.ops._map_convolution import convolve_each_head
from tests.layers.chains import build_chain, decode_chain, run_chain
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEYS,
    SIZES,
    array,
    build,
    check_close,
    cross_inputs,
    random_mask,
    self_input,
)

LENGTH, MAX_LENGTH = 6, 8
PIECES = ([1] * LENGTH, [3, 1, 2], [LENGTH])
TOLERANCE = 5e-6
KINDS = [
    (EvolvingAttention, {"alpha": 0.0, "beta": 0.3}),
    (EvolvingAttention, {"alpha": 0.0, "beta": 1.0, "kernel_size": 5}),
    (EvolvingAttention, {"alpha": 0.4, "beta": 0.3}),
    (EvolvingAttention, {"alpha": 0.4, "beta": 0.3, "kernel_size": 1, "convolve_first": True}),
    (EvolvingAttention, {"alpha": 0.6, "beta": 0.5, "kernel_size": 5, "convolve_first": True}),
    (EvolvingAttention, {"alpha": 0.4, "beta": 0.0}),
    (RealFormerAttention, {}),
]
each_kind = pytest.mark.parametrize("layer, arguments", KINDS)


def chain(layer, role, arguments, query, value=None, key=None, **more):
    role = {"role": role} if layer is EvolvingAttention else {}
    return build_chain([layer(**SIZES, **role, **arguments, **more) for _ in range(3)], query, value, key)


def source():
    """Query, value and key of cross-attention, and which source tokens are real."""
    _, value, key = cross_inputs()
    return self_input(length=LENGTH), value, key, np.arange(KEYS)[None] < np.array([4, 7])[:, None]


# ------------------------------------------------------------------------------------------------- self-attention


@each_kind
def test_decoder(layer, arguments):
    x = self_input(length=LENGTH)
    blocks = chain(layer, "decoder", arguments, x)
    outputs, maps = run_chain(blocks, x, use_causal_mask=True)
    causal = np.tri(LENGTH, dtype=bool)
    for sizes in PIECES:
        caches = [block.init_cache(BATCH, MAX_LENGTH) for block in blocks]
        output, carried = decode_chain(blocks, caches, x, sizes, self_attention=True, use_causal_mask=True)
        check_close(output, outputs[-1], TOLERANCE)
        check_close(np.where(causal, carried[..., :LENGTH], 0), np.where(causal, array(maps[-1]), 0), TOLERANCE)


def test_decoder_with_left_padding():
    """Of one sentence; the rows and columns of the padding are 0 before the convolution."""
    x = self_input(length=LENGTH)
    blocks = chain(EvolvingAttention, "decoder", {"alpha": 0.4, "beta": 0.5}, x)
    real = np.ones((BATCH, MAX_LENGTH), bool)
    real[0, :2] = False
    mask = np.repeat(real[:, None], LENGTH, axis=1) & real[:, :LENGTH, None]
    expected, _ = run_chain(blocks, x, use_causal_mask=True, attention_mask=mask[..., :LENGTH])
    for sizes in PIECES:
        caches = [block.init_cache(BATCH, MAX_LENGTH) for block in blocks]
        output, _ = decode_chain(blocks, caches, x, sizes, True, use_causal_mask=True, attention_mask=mask)
        check_close(output, expected[-1], TOLERANCE)


def test_decoder_with_a_sliding_window():
    x = self_input(length=LENGTH)
    blocks = chain(EvolvingAttention, "decoder", {"alpha": 0.4, "beta": 0.5}, x, sliding_window=3)
    expected, _ = run_chain(blocks, x, use_causal_mask=True)
    caches = [block.init_cache(BATCH, MAX_LENGTH) for block in blocks]
    output, _ = decode_chain(blocks, caches, x, [1] * LENGTH, True, use_causal_mask=True)
    check_close(output, expected[-1], TOLERANCE)


def test_a_cache_may_be_used_again():
    """From an earlier row on: what later rows left in it does not count."""
    x = self_input(length=LENGTH)
    (block,) = build_chain([EvolvingAttention(**SIZES, role="decoder", alpha=0.0, beta=0.5)], x)
    _, cache = block(x[:, :3], x[:, :3], cache=block.init_cache(BATCH, MAX_LENGTH), index=0, use_causal_mask=True)
    kept = {name: array(tensor) for name, tensor in cache.items()}
    first, _ = block(x[:, 3:5], x[:, 3:5], cache=cache, index=3, use_causal_mask=True)
    again, _ = block(x[:, 3:5], x[:, 3:5], cache=cache, index=3, use_causal_mask=True)
    np.testing.assert_array_equal(array(first), array(again))
    for name, tensor in cache.items():
        np.testing.assert_array_equal(array(tensor), kept[name])
    from_start, _ = block(x[:, 2:4], x[:, 2:4], cache=cache, index=0, use_causal_mask=True)
    check_close(from_start, block(x[:, 2:4], x[:, 2:4], use_causal_mask=True), TOLERANCE)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_decoder_compiled_with_a_tensor_index(jit_compile):
    x = self_input(length=LENGTH)
    blocks = chain(EvolvingAttention, "decoder", {"alpha": 0.4, "beta": 0.5}, x)[:2]

    @tf.function(jit_compile=jit_compile)
    def loop(x):
        caches = [block.init_cache(BATCH, MAX_LENGTH) for block in blocks]
        outputs = tf.TensorArray("float32", LENGTH, element_shape=(BATCH, 1, x.shape[-1]))
        for i in tf.range(LENGTH):
            piece, carried, updated = tf.gather(x, [i], axis=1), None, []
            for block, cache in zip(blocks, caches, strict=True):
                piece, carried, cache = block(
                    piece,
                    piece,
                    previous_logits=carried,
                    return_logits=True,
                    cache=cache,
                    index=i,
                    use_causal_mask=True,
                )
                updated.append(cache)
            caches = updated
            outputs = outputs.write(i, piece)
        return outputs.stack()

    expected, _ = run_chain(blocks, x, use_causal_mask=True)
    check_close(array(loop(x))[:, :, 0].swapaxes(0, 1), expected[-1], TOLERANCE)


def test_half_precision():
    x = self_input(length=LENGTH)
    blocks = chain(EvolvingAttention, "decoder", {"alpha": 0.4, "beta": 0.5}, x, dtype="mixed_float16")
    expected, _ = run_chain(blocks, x, use_causal_mask=True)
    caches = [block.init_cache(BATCH, MAX_LENGTH) for block in blocks]
    output, _ = decode_chain(blocks, caches, x, [1] * LENGTH, True, use_causal_mask=True)
    check_close(output, expected[-1], 2e-2)


@pytest.mark.parametrize("convolve", [
    lambda rows, kernel: convolve_maps(rows[:, :, 2:], kernel, kernel[0, 0, 0], "decoder", rows[:, :, :2]),
    lambda rows, kernel: convolve_each_head(rows[:, :, 2:], kernel[0], None, rows[:, :, :2], tf.range(5, 6))[0],
], ids=["evolving", "multi-token"])  # fmt: skip
def test_one_row_takes_a_product_in_place_of_a_convolution(convolve):
    rows, kernel = tf.TensorSpec((BATCH, 3, 3, 7)), tf.TensorSpec((3, 3, 3, 3))
    kinds = {
        operation.type for operation in tf.function(convolve).get_concrete_function(rows, kernel).graph.get_operations()
    }
    assert "BatchMatMulV2" in kinds and not any("conv" in kind.lower() for kind in kinds)


# ------------------------------------------------------------------------------------------------ cross-attention


@each_kind
def test_cross(layer, arguments):
    """The cache that comes back holds the last rows of the map; the source has padding."""
    query, value, key, real = source()
    blocks = chain(layer, "cross", arguments, query, value, key)
    expected, maps = run_chain(blocks, query, value, key, value_mask=real)
    mask = np.repeat(real[:, None], LENGTH, axis=1)
    for sizes in PIECES:
        caches = [block.project_cache(value, key) for block in blocks]
        output, carried = decode_chain(blocks, caches, query, sizes, self_attention=False, attention_mask=mask)
        check_close(output, expected[-1], TOLERANCE)
        allowed = real[:, None, None]
        check_close(np.where(allowed, carried, 0), np.where(allowed, array(maps[-1]), 0), TOLERANCE)


@pytest.mark.parametrize("masks", [{}, {"key_mask": 0}, {"value_mask": 0}])
def test_cross_with_masks_of_the_source(masks):
    """All of the cache is there from the start: a mask of it counts, and no mask means all of it."""
    query, value, key, real = source()
    masks = dict.fromkeys(masks, real)
    blocks = chain(EvolvingAttention, "cross", {"alpha": 0.0, "beta": 0.5}, query, value, key)
    expected, _ = run_chain(blocks, query, value, key, **masks)
    caches = [block.project_cache(value, key) for block in blocks]
    output, _ = decode_chain(blocks, caches, query, [2, 1, 3], self_attention=False, **masks)
    check_close(output, expected[-1], TOLERANCE)


def test_cross_with_a_mask_that_differs_between_rows():
    query, value, key, _ = source()
    mask = random_mask((BATCH, LENGTH, KEYS))
    blocks = chain(EvolvingAttention, "cross", {"alpha": 0.3, "beta": 0.5}, query, value, key)
    expected, _ = run_chain(blocks, query, value, key, attention_mask=mask)
    caches = [block.project_cache(value, key) for block in blocks]
    output, _ = decode_chain(blocks, caches, query, [1] * LENGTH, self_attention=False, attention_mask=mask)
    check_close(output, expected[-1], TOLERANCE)


def test_cross_with_a_cache_used_before():
    """For another target of the same source: from row 0 on no earlier row counts."""
    query, value, key, real = source()
    (block,) = build_chain([EvolvingAttention(**SIZES, role="cross", alpha=0.0, beta=0.5)], query, value, key)
    mask = real[:, None]
    _, used = block(query[:, :4], cache=block.project_cache(value, key), index=0, attention_mask=mask)
    other = self_input(seed=7, length=LENGTH)
    output, _ = block(other, cache=used, index=0, attention_mask=mask)
    check_close(output, block(other, value, key, attention_mask=mask), TOLERANCE)


def test_cross_compiled():
    """A function compiled once for all steps."""
    query, value, key, real = source()
    blocks = chain(EvolvingAttention, "cross", {"alpha": 0.4, "beta": 0.5}, query, value, key)
    mask = tf.constant(np.repeat(real[:, None], LENGTH, axis=1))
    expected, _ = run_chain(blocks, query, value, key, attention_mask=mask)
    steps = [tf.function(block, jit_compile=True) for block in blocks]
    steps = [lambda *xs, step=step, index, **call: step(*xs, index=tf.constant(index), **call) for step in steps]
    caches = [block.project_cache(value, key) for block in blocks]
    output, _ = decode_chain(blocks, caches, tf.constant(query), [1] * LENGTH, False, steps, attention_mask=mask)
    check_close(output, expected[-1], TOLERANCE)


def test_cross_with_an_index_of_a_layer_without_a_map():
    """Any layer may stand in for another: the cache comes back unchanged."""
    query, value, key, real = source()
    layer = build(RealFormerAttention(**SIZES), query, value, key)
    cache = layer.project_cache(value, key)
    mask = real[:, None]
    output, after = layer(query[:, 2:4], cache=cache, index=2, attention_mask=mask)
    check_close(output, layer(query[:, 2:4], value, key, attention_mask=mask), TOLERANCE)
    for name, tensor in cache.items():
        np.testing.assert_array_equal(array(after[name]), array(tensor))


def test_what_a_cache_holds():
    """Of the maps the rows that a kernel reaches back to: nothing where nothing is convolved."""
    query, value, key, _ = source()
    for arguments, rows in (({"beta": 0.3}, 2), ({"beta": 0.3, "kernel_size": 5}, 4), ({"beta": 0.0}, 0)):
        layer = build(EvolvingAttention(**SIZES, role="cross", alpha=0.0, **arguments), query, value, key)
        extra = {n: t for n, t in layer.project_cache(value, key).items() if n not in ("key", "value")}
        sizes = [np.prod(t.shape) for t in extra.values()]
        assert sum(sizes) <= BATCH * HEADS * rows * KEYS + 1
        assert bool(rows) == bool(extra)
