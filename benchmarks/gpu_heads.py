"""Attention heads on a GPU: fused kernels, time, memory and parity with float64.

    python -m benchmarks.gpu_heads [--minutes 9] [--rehearse] [--output FOLDER] [--parts 0 1 2]

Needs Keras, NumPy and JAX; part 6 needs PyTorch and runs in its own process. A measurement that fails is a cell with
its reason. Table and JSON are written after each measurement, and at the time limit the rest is left out.
`--rehearse` runs everything in tiny sizes on the CPU, where XLA takes the place of cuDNN and times mean nothing.

Layers have weights in float32 and compute in bfloat16. "forward + backward" is the output and the gradients of all
weights and the input. A ratio is the median of paired rounds.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib.util
import itertools
import json
import math
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from benchmarks import timing

TITLES = {
    0: "Device, ceilings and compilation",
    1: "Kernels in the compiled forward and backward pass",
    2: "Time of a layer",
    3: "Long sequences: fused heads, chunks of queries for heads that mix, and peak memory of fresh processes",
    4: "Sliding windows",
    5: "Padding (half the keys are real) and packed documents",
    6: "PyTorch: forward and backward, to SDPA in the same projections",
    7: "Training steps, with 6 x parameters x tokens (of one side) as floating-point operations of a step",
    8: "Decoding steps with a full cache, and its bytes over the time against the copy rate (weights are read, too)",
    9: "Parity with float64: relative norms of the differences",
}
GOALS = (
    "Goals for 4,096 tokens and more: fused heads take at most 1.1 times as long as `jax.nn.dot_product_attention` "
    "with cuDNN in the same projections (sinks 1.15, differential 1.3) and as the stock layer; mixing heads 1.3 times "
    "as long as the stock layer without flash attention. Chunks take a tenth of the memory. A decoder's training step "
    "with talking heads takes 1.3 times as long as with multi-head. A decoding step reads the cache at 0.7 of the "
    "copy rate. Relative norms are below 1e-2 in bfloat16 and 1e-5 in float32."
)
FAST, MIXES = {"cudnn": 1.1, "stock": 1.0}, {"stock without flash": 1.3}
FUSED = ("multi_head", "grouped_query", "knocking_heads", "multi_head_explicit", "mixture_of_heads", "gate", "qk_norm")
OTHERS = ("re_attention", "evolving", "real_former", "synthesizer", "disentangled_mask", "luong", "graph")
CASES = {  # goals: times relative to references. Heads with a goal to cuDNN should fuse.
    **dict.fromkeys((*FUSED, "interacting", "collaborative"), FAST),
    **{"sinks": FAST | {"cudnn": 1.15}, "differential": {"cudnn": 1.3}, "interleaved": {"cudnn": 1.1}},
    **{"interacting, pairwise": {"cudnn": 1.1}},
    **dict.fromkeys(("talking_heads", "dynamically_composable", "multi_token"), MIXES),
    **dict.fromkeys(OTHERS, {}),
}
ATTENTION_OF = {"sinks": "multi_head", "gate": "multi_head", "qk_norm": "multi_head"}  # others: as named
SHOULD_FUSE = [name for name, goals in CASES.items() if "cudnn" in goals]
MIXING = [name for name, goals in CASES.items() if goals is MIXES]
CHUNKED = [name for name in MIXING if name != "multi_token"]
CUDNN_OF = {"grouped_query": "cudnn, groups", "interleaved": "cudnn, twice the length", "luong": "cudnn, one head"}
REFERENCES = ["cudnn", "stock", "stock without flash", "xla"]
TRAINED = ("multi_head", "talking_heads", "knocking_heads", "differential", "dynamically_composable", "multi_token")
DECODED = ("multi_head", "grouped_query", "talking_heads", "dynamically_composable", "differential", "knocking_heads")
LONG = ("multi_head", "grouped_query", "knocking_heads", "differential", "sinks")
PADDED = ("multi_head", "knocking_heads", "talking_heads")
MASKS = {  # padding: arguments of our layers, of the stock layer, and of the reference
    "key_mask": ("key_mask", "key_mask", "key_lengths"),
    "key_lengths": ("key_lengths", "key_mask", "key_lengths"),
    "segment_ids": ("segment_ids", "attention_mask", "attention_mask"),
}
PARITY_GOALS = {"bfloat16": 1e-2, "float32": 1e-5}
SILENCE, GRACE = 200, 15  # seconds without a message, and beyond the time limit, before a process is ended
BYTES_GOAL, MEMORY_GOAL = 0.7, 0.1
LAST = "±", "kernel", "temporary MB", "goal", "met", "error"  # columns
BATCH = 8  # programs that are compiled together before they are timed
MARK = "gpu_heads "  # begins a message between processes


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of all parts."""

    heads: int = 16
    key_dim: int = 64
    tokens: int = 16384
    # Lengths; True for causal; True for forward and backward.
    first: tuple = ((4096, True, True), (4096, True, False), (4096, False, True))
    later: tuple = ((4096, False, False), *((1024, causal, both) for causal in (True, False) for both in (True, False)))
    long: int = 16384
    chunked: int = 8192
    chunks: tuple = (128, 512)
    windowed: int = 8192
    window: int = 512
    documents: int = 4
    cache: int = 4096
    steps: int = 64
    batches: tuple = (1, 64)
    elements: int = 2**28
    product: int = 8192
    decoder: tuple = (12, 768, 12, 50257, 1024, 8)  # layers, width, heads, vocabulary, length, batch
    translator: tuple = ("base", 32000, 128, 64, 6)  # size, vocabulary, length, batch, layers
    parity: tuple = (2, 256, 8)  # batch, length, heads
    repeats: int = 20
    share: int = 1  # one in this number of cases is measured, except in part 2
    part_2_share: int = 1

    @property
    def width(self):
        return self.heads * self.key_dim


REHEARSAL = Sizes(
    **dict(heads=4, key_dim=8, tokens=128, first=((64, True, True),), later=((32, False, False),)),
    **dict(long=64, chunked=64, chunks=(16,), windowed=64, window=16, cache=64, steps=4, batches=(1, 2)),
    **dict(elements=2**12, product=64, decoder=(1, 32, 4, 50, 64, 2), translator=("tiny", 50, 16, 2, 1)),
    **dict(parity=(2, 16, 4), repeats=3, share=5),
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """A call: its length, batch of tokens, mask and passes."""

    n: int
    tokens: int
    causal: bool = True
    backward: bool = True
    window: int | None = None
    chunk: int | None = None
    padding: str | None = None

    @property
    def batch(self):
        return max(1, self.tokens // self.n)

    def labels(self):
        passes = "forward + backward" if self.backward else "forward"
        options = {"window": self.window, "chunk": self.chunk, "padding": self.padding}
        given = {name: value for name, value in options.items() if value is not None}
        return {"n": self.n, "causal": self.causal, "pass": passes, **given}


# Layers and references


def options_of(name, sizes, shape):
    """Returns the constructor arguments of a case besides its sizes."""
    options = {
        "grouped_query": dict(num_key_value_heads=max(1, sizes.heads // 4)),
        "differential": dict(num_heads=sizes.heads // 2),  # two maps a head: as many maps as the others
        "sinks": dict(use_sinks=True),
        "gate": dict(use_gate=True),
        "qk_norm": dict(qk_norm=True),
        "collaborative": dict(shared_dim=sizes.key_dim),
        "interacting, pairwise": dict(interaction="pairwise", num_heads=math.isqrt(sizes.heads)),  # as many maps
        "evolving": dict(convolve_first=True),
        "synthesizer": dict(max_length=shape.n),
        "luong": dict(num_heads=1),
    }.get(name, {})
    return {"num_heads": sizes.heads, "key_dim": sizes.key_dim, **options}


def make_layer(name, sizes, shape, dtype="mixed_bfloat16"):
    from keras_headattn import layers

    options = options_of(name, sizes, shape) | dict(role="decoder" if shape.causal else "encoder", dtype=dtype)
    if shape.chunk is not None:
        options["query_chunk_size"] = shape.chunk
    layer = layers.ATTENTIONS[ATTENTION_OF.get(name, name.split(",")[0])](sliding_window=shape.window, **options)
    layer.build((shape.batch, shape.n, sizes.width), (shape.batch, shape.n, sizes.width))
    return layer


def make_stock(name, sizes, shape):
    import keras

    flash = False if name == "stock without flash" else None
    window = {} if shape.window is None else {"sliding_window": shape.window}
    layer = keras.layers.MultiHeadAttention(
        sizes.heads, sizes.key_dim, flash_attention=flash, dtype="mixed_bfloat16", **window
    )
    layer.build((shape.batch, shape.n, sizes.width), (shape.batch, shape.n, sizes.width))
    return layer


def call_mask(user, shape, sizes):
    """Returns the mask of a call as an argument by name; `user` is an index of the values of `MASKS`."""
    import jax.numpy as jnp

    if shape.padding is None:
        return {}
    name, columns, half = MASKS[shape.padding][user], jnp.arange(shape.n, dtype="int32"), shape.n // 2
    segments = jnp.broadcast_to(columns // (shape.n // sizes.documents), (shape.batch, shape.n))
    masks = {
        "key_mask": jnp.broadcast_to(columns < half, (shape.batch, shape.n)),
        "key_lengths": jnp.full((shape.batch,), half, "int32"),
        "segment_ids": segments,
        "attention_mask": segments[:, :, None] == segments[:, None],
    }
    return {name: masks[name]}


def layer_call(layer, shape):
    """Returns the layer as a function of its weights, its other variables, the input and the masks."""
    import jax.numpy as jnp

    def run(weights, non_trainable, x, masks):
        arguments = dict(training=shape.backward, use_causal_mask=shape.causal, return_losses=True, **masks)
        y, _, losses = layer.stateless_call(weights, non_trainable, x, x, **arguments)
        return y, jnp.asarray(sum(losses), "float32")

    return run, values(layer.trainable_variables), values(layer.non_trainable_variables)


def values(variables):
    return [variable.value for variable in variables]


def reference_call(name, sizes, shape):
    """Returns four projections around `jax.nn.dot_product_attention` as a function, as `layer_call` does."""
    import jax
    import jax.numpy as jnp

    heads = 1 if "one head" in name else sizes.heads
    groups = max(1, heads // 4) if "groups" in name else heads
    times = 2 if "twice" in name else 1
    on_gpu = jax.default_backend() != "cpu"
    arguments = dict(is_causal=shape.causal, implementation="cudnn" if on_gpu and name != "xla" else "xla")
    if shape.window is not None:
        arguments["local_window_size"] = (shape.window - 1, 0 if shape.causal else shape.window - 1)

    def run(weights, non_trainable, x, masks):
        *inside, kernel, bias = (weight.astype(x.dtype) for weight in weights)
        q, k, v = (jnp.einsum("bnd,dhk->bnhk", x, w) + b for w, b in zip(inside[::2], inside[1::2], strict=True))
        q, k, v = (jnp.concatenate([part] * times, axis=1) for part in (q, k, v))
        mask_arguments = {"key_value_seq_lengths": masks["key_lengths"]} if "key_lengths" in masks else {}
        mask_arguments |= {"mask": masks["attention_mask"][:, None]} if "attention_mask" in masks else {}
        y = jax.nn.dot_product_attention(q, k, v, **mask_arguments, **arguments)[:, : shape.n]
        return jnp.einsum("bnhk,hkd->bnd", y, kernel) + bias, jnp.float32(0)

    keys, d = iter(jax.random.split(jax.random.key(1), 4)), sizes.key_dim
    weights = []
    for count in (heads, groups, groups):
        weights += [jax.random.normal(next(keys), (sizes.width, count, d)) * sizes.width**-0.5, jnp.zeros((count, d))]
    weights += [jax.random.normal(next(keys), (heads, d, sizes.width)) * sizes.width**-0.5, jnp.zeros((sizes.width,))]
    return run, weights, []


@functools.cache
def inputs(batch, n, width, dtype):
    """Returns an input and the gradient of an output, drawn from a normal distribution."""
    import jax

    return tuple(jax.random.normal(key, (batch, n, width), dtype) for key in jax.random.split(jax.random.key(0)))


def make_program(name, sizes, shape, dtype="mixed_bfloat16"):
    """Returns a function and its arguments for a case or a reference."""
    if name in CASES:
        user, call = 0, layer_call(make_layer(name, sizes, shape, dtype), shape)
    elif name.startswith("stock"):
        user, call = 1, layer_call(make_stock(name, sizes, shape), shape)
    else:
        user, call = 2, reference_call(name, sizes, shape)
    (run, weights, non_trainable), masks = call, call_mask(user, shape, sizes)
    x, gradient = inputs(shape.batch, shape.n, sizes.width, dtype.removeprefix("mixed_"))
    if not shape.backward:
        return run, (weights, non_trainable, x, masks)
    return with_backward(run), (weights, non_trainable, x, masks, gradient)


def with_backward(run):
    """Returns a function that also computes the gradients of weights and input."""
    import jax

    def both(weights, non_trainable, x, masks, gradient):
        (y, losses), pull = jax.vjp(lambda weights, x: run(weights, non_trainable, x, masks), weights, x)
        return y, pull((gradient.astype(y.dtype), losses * 0 + 1))

    return both


# Programs and their time


class Programs:
    """Compiled programs by name: all at once in threads, or each when it is first used.

    Args:
        makers: dictionary from name to a function that returns a function and its arguments.
        precision: of matrix products, as in `jax.default_matmul_precision`.
    """

    def __init__(self, makers, precision=None):
        self.makers, self.precision, self.done = makers, precision, {}

    def _lower(self, name):
        import jax

        function, arguments = self.makers[name]()
        with jax.default_matmul_precision(self.precision):
            return jax.jit(function).lower(*arguments), arguments

    def compile(self, names=None):
        """Compiles all programs, or those named. Keeps an error until its program is asked for."""
        start, pending = time.perf_counter(), {}
        with concurrent.futures.ThreadPoolExecutor(min(8, timing.cores())) as pool:
            for name in self.makers if names is None else names:
                try:
                    lowered, arguments = self._lower(name)
                    pending[name] = pool.submit(lowered.compile), arguments
                except Exception as error:
                    self.done[name] = error
            for name, (future, arguments) in pending.items():
                self.done[name] = future.exception() or (future.result(), arguments)
                send({})
        return {"programs": len(pending), "s": time.perf_counter() - start}

    def get(self, name):
        """Returns the compiled program and its arguments."""
        if name not in self.done:
            lowered, arguments = self._lower(name)
            self.done[name] = lowered.compile(), arguments
        if isinstance(self.done[name], Exception):
            raise self.done[name]
        return self.done[name]

    def run(self, name):
        """Returns a function that starts the program."""
        compiled, arguments = self.get(name)
        return functools.partial(compiled, *arguments)


def time_rounds(runs, repeats, wait, seconds=2.0):
    """Returns `timing.Rounds` of functions that run in turn; short ones run many times before each `wait`."""
    calls = {}
    for name, run in runs.items():
        wait(run())
        start = time.perf_counter()
        wait(run())
        calls[name] = int(min(64, max(1, 0.01 / (time.perf_counter() - start))))
    measured, start = {name: [] for name in runs}, time.perf_counter()
    for count in range(repeats):
        for name in list(runs) if count % 2 == 0 else list(runs)[::-1]:
            begin = time.perf_counter()
            for _ in range(calls[name]):
                result = runs[name]()
            wait(result)
            measured[name].append((time.perf_counter() - begin) / calls[name])
        if count >= 4 and time.perf_counter() - start > seconds:
            break
    return timing.Rounds(measured)


def compare(programs, name, sizes, references, goals):
    """Returns a row of a program's time, its ratios to references, its kernel, and the goal it meets or not.

    Args:
        references: dictionary from label to program name. One that fails has no ratio.
        goals: largest ratios by label.
    """
    import jax

    runs, labels = {name: programs.run(name)}, {}
    for label, reference in references.items():
        with contextlib.suppress(Exception):
            runs[reference] = programs.run(reference)
            jax.block_until_ready(runs[reference]())
            labels[label] = reference
    runs = {key: run for key, run in runs.items() if key == name or key in labels.values()}
    rounds = time_rounds(runs, sizes.repeats, jax.block_until_ready)
    ratios = {label: rounds.ratio(name, reference) for label, reference in labels.items() if reference != name}
    row = {"ms": 1e3 * rounds.median(name)} | {f"to {label}": ratio for label, (ratio, _) in ratios.items()}
    row |= {"±": max((spread for _, spread in ratios.values()), default=None), "rounds": len(rounds)}
    row |= kernels(programs, name)
    row |= meets({label: (ratio, goals[label]) for label, (ratio, _) in ratios.items() if label in goals}, goals)
    return row


def meets(measured, goals):
    """Returns the cells of goals: `measured` has pairs of a value and its limit by label."""
    if not goals:
        return {}
    text = ", ".join(f"{label} {limit:g}" for label, limit in goals.items())
    met = all(x <= limit for x, limit in measured.values())
    return {"goal": text} | ({"met": met} if not met or len(measured) >= len(goals) else {})


def kernels(programs, name):
    """Returns the cells of a program's fused kernels and its temporary memory."""
    compiled, _ = programs.get(name)
    count = compiled.as_text().count("__cudnn$fmha")
    cells = {"kernel": f"cuDNN x {count}" if count else "products"}
    with contextlib.suppress(Exception):  # not every runtime tells
        cells["temporary MB"] = compiled.memory_analysis().temp_size_in_bytes / 1e6
    return cells


def kernel_row(programs, name):
    """Returns the cells of part 1."""
    cells, fuses = kernels(programs, name), name in SHOULD_FUSE
    return cells | {"should fuse": fuses} | ({"met": "cuDNN" in cells["kernel"]} if fuses else {})


# Parts 0 to 5


def time_device(worker, sizes):
    import jax
    import jax.numpy as jnp

    device = jax.devices()[0]
    worker.measure(0, "JAX", {}, lambda: {"value": f"{jax.__version__}, {device.device_kind}, {device.platform}"})
    keys = jax.random.split(jax.random.key(0), 3)

    def rate(function, *arguments):
        run = functools.partial(jax.jit(function), *arguments)
        return time_rounds({"": run}, sizes.repeats, jax.block_until_ready).median("")

    def copy():
        x = jax.random.normal(keys[0], (sizes.elements,), "float32")
        return {"TB/s": 2 * x.nbytes / rate(lambda x: x + 1, x) / 1e12}

    def product():
        a, b = (jax.random.normal(key, (sizes.product, sizes.product), "bfloat16") for key in keys[1:])
        return {"TFLOP/s": 2 * sizes.product**3 / rate(jnp.matmul, a, b) / 1e12}

    worker.measure(0, "copy, bytes read and written", {}, copy)
    worker.measure(0, "matrix product in bfloat16", {}, product)


def references_of(name):
    """Returns the references of a case, or of a reference, by label."""
    stock = "stock without flash" if name in CASES and name not in SHOULD_FUSE else "stock"
    return {"cudnn": CUDNN_OF.get(name, "cudnn"), stock: stock}


def time_layers(worker, sizes, part, shape, names, references=()):
    """Compiles all programs of a shape, and times each beside its references."""
    if part not in worker.parts and not (part == 2 and 1 in worker.parts):
        return
    needed = dict.fromkeys([*references, *names, *itertools.chain(*(references_of(name).values() for name in names))])
    programs = Programs({name: functools.partial(make_program, name, sizes, shape) for name in needed})
    labels, ready, names = shape.labels(), set(), [*references, *names]
    for batch in (names[i : i + BATCH] for i in range(0, len(names), BATCH)):
        new = [x for name in batch for x in (*references_of(name).values(), name) if x not in ready]
        worker.measure(0, f"compilation, part {part}, {batch[0]}", labels, programs.compile, list(dict.fromkeys(new)))
        ready.update(new)
        if part == 2 and shape.backward:
            for name in batch:
                worker.measure(1, name, labels, kernel_row, programs, name)
        for name in batch:
            goals = CASES.get(name, {})
            worker.measure(part, name, labels, compare, programs, name, sizes, references_of(name), goals)


def run_layers(worker, sizes):
    """Parts 0 to 5 but for the memory of fresh processes and the shorter lengths."""
    time_device(worker, sizes)
    names = list(CASES)[:: sizes.part_2_share]
    for n, causal, backward in sizes.first:
        time_layers(worker, sizes, 2, Shape(n, sizes.tokens, causal, backward), names, REFERENCES)
    time_layers(worker, sizes, 3, Shape(sizes.long, sizes.long), LONG[:: sizes.share])
    for chunk in sizes.chunks:
        time_layers(worker, sizes, 3, Shape(sizes.chunked, sizes.chunked, chunk=chunk), MIXING[:: sizes.share])
    windowed = Shape(sizes.windowed, sizes.tokens, window=sizes.window)
    time_layers(worker, sizes, 4, windowed, LONG[: 3 : sizes.share], ["cudnn"])
    time_layers(worker, sizes, 4, dataclasses.replace(windowed, chunk=sizes.window), ["talking_heads"])
    n = sizes.first[0][0]
    for padding, causal in (("key_mask", False), ("key_lengths", False), ("segment_ids", True)):
        shape = Shape(n, sizes.tokens, causal, padding=padding)
        time_layers(worker, sizes, 5, shape, PADDED[:: sizes.share], ["cudnn"])


def run_memory(worker, sizes, name, chunk):
    """Peak memory of one case, which is all that its process does."""
    import jax

    shape = Shape(sizes.chunked, sizes.chunked, chunk=chunk)
    programs = Programs({name: functools.partial(make_program, name, sizes, shape)})

    def peak():
        jax.block_until_ready(programs.run(name)())
        statistics = jax.devices()[0].memory_stats()
        return {"peak MB": statistics["peak_bytes_in_use"] / 1e6 if statistics else timing.resident("VmHWM")}

    worker.measure(3, name, shape.labels(), peak)


# Part 6


def torch_runs(sizes, shape):
    """Returns makers of functions of an input, with their weights, by name; and the input."""
    import torch
    from torch.nn.attention import flex_attention as flex

    device = "cuda" if torch.cuda.is_available() else "cpu"
    compiled = functools.partial(torch.compile, backend="inductor" if device == "cuda" else "eager")
    x = torch.randn(shape.batch, shape.n, sizes.width, device=device).bfloat16().requires_grad_()
    sides = [(sizes.width, sizes.heads, sizes.key_dim)] * 3 + [(sizes.heads, sizes.key_dim, sizes.width)]
    weights = [(torch.randn(side, device=device) * sizes.width**-0.5).requires_grad_() for side in sides]

    def projected(attend):
        def run(x):
            *inside, output = (weight.to(x.dtype) for weight in weights)
            return torch.einsum("bhnk,hkd->bnd", attend(*(torch.einsum("bnd,dhk->bhnk", x, w) for w in inside)), output)

        return run, weights

    def flexible(window):
        mask = flex.create_block_mask(
            lambda b, h, i, j: (i >= j) & (i - j < window), None, None, shape.n, shape.n, device=device
        )
        attend = compiled(flex.flex_attention) if device == "cuda" else flex.flex_attention
        return projected(functools.partial(attend, block_mask=mask))

    def ours(name, compiles):
        layer = make_layer(name, sizes, shape)
        run = functools.partial(layer_of_torch, layer, shape.causal)
        return compiled(run) if compiles else run, values(layer.trainable_variables)

    sdpa = functools.partial(torch.nn.functional.scaled_dot_product_attention, is_causal=shape.causal)
    makers = {"SDPA": lambda: projected(sdpa), "SDPA, compiled": lambda: (compiled(projected(sdpa)[0]), weights)}
    makers |= {"FlexAttention": lambda: flexible(shape.n), "FlexAttention, window": lambda: flexible(sizes.window)}
    for name in ("multi_head", "grouped_query", "knocking_heads", "differential", "talking_heads"):
        makers[f"{name}, eager"] = functools.partial(ours, name, False)
        makers[f"{name}, compiled"] = functools.partial(ours, name, True)
    return makers, x


def layer_of_torch(layer, causal, x):
    return layer(x, x, use_causal_mask=causal, training=True)


def run_torch(worker, sizes):
    """Part 6, in a process with Keras's PyTorch backend."""
    import torch

    n, causal, _ = sizes.first[0]
    shape = Shape(n, sizes.tokens, causal)
    makers, x = torch_runs(sizes, shape)
    gradient = torch.randn_like(x)
    wait = (lambda _: torch.cuda.synchronize()) if torch.cuda.is_available() else (lambda _: None)

    def differentiate(run, weights):
        return torch.autograd.grad(run(x), [x, *weights], gradient, allow_unused=True)

    def measure(name):
        runs = {key: functools.partial(differentiate, *makers[key]()) for key in dict.fromkeys((name, "SDPA"))}
        rounds = time_rounds(runs, sizes.repeats, wait)
        return {"ms": 1e3 * rounds.median(name), "to SDPA": rounds.ratio(name, "SDPA")[0], "rounds": len(rounds)}

    worker.measure(6, "PyTorch", {}, lambda: {"version": torch.__version__})
    for name in makers:
        worker.measure(6, name, shape.labels(), measure, name)


# Parts 7 to 9


def model_attention(name, sizes, width, heads, n):
    """Returns the attention layer of a case for a model."""
    from keras_headattn import layers

    sizes = dataclasses.replace(sizes, heads=heads, key_dim=width // heads)
    return layers.ATTENTIONS[ATTENTION_OF.get(name, name.split(",")[0])](**options_of(name, sizes, Shape(n, n)))


def make_decoder(name, sizes):
    """Returns a language model of this library's decoder blocks, and a batch."""
    import keras

    from keras_headattn import layers, positions

    depth, width, heads, vocabulary, n, batch = sizes.decoder
    dtype, ids = "mixed_bfloat16", keras.Input((n,), dtype="int32")
    embedding = keras.layers.ReversibleEmbedding(vocabulary, width, dtype=dtype)
    x = positions.LearnedPositions(n, dtype=dtype)(embedding(ids))
    attention = model_attention(name, sizes, width, heads, n)
    block = dict(intermediate_dim=4 * width, dropout=0.0, activation="gelu", normalization="pre", dtype=dtype)
    for i in range(depth):
        x = layers.DecoderBlock(attention, cross_attention=[], depth=i, **block)(x)
    x = keras.layers.LayerNormalization(dtype=dtype)(x)
    tokens = np.random.default_rng(0).integers(0, vocabulary, (batch, n)).astype("int32")
    return keras.Model(ids, embedding(x, reverse=True)), tokens, tokens


def make_translator(name, sizes):
    """Returns a Transformer, and a batch."""
    from keras_headattn.models import SIZES, Transformer

    size, vocabulary, n, batch, depth = sizes.translator
    attention = model_attention(name, sizes, SIZES[size]["hidden_dim"], SIZES[size]["num_heads"], n)
    options = dict(num_layers=depth, attention=attention, dropout=0.0, dtype="mixed_bfloat16")
    model = Transformer.from_size(size, vocabulary, **options)
    model.build()
    tokens = np.random.default_rng(0).integers(1, vocabulary, (batch, n)).astype("int32")
    return model, {"source": tokens, "target": tokens}, tokens


def make_training(make_model, counts, name, sizes):
    """Returns a training step with Adam, and its arguments. `counts` gets the numbers of parameters and tokens."""
    import jax
    import jax.numpy as jnp
    import keras

    model, x, labels = make_model(name, sizes)
    counts[name] = model.count_params(), labels.size
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(model.trainable_variables)

    def loss(weights, non_trainable, x, labels):
        logits, _ = model.stateless_call(weights, non_trainable, x, training=True)
        logits = jax.nn.log_softmax(logits.astype("float32"))
        return -jnp.mean(jnp.take_along_axis(logits, labels[..., None], axis=-1))

    def step(weights, non_trainable, state, x, labels):
        gradients = jax.grad(loss)(weights, non_trainable, x, labels)
        return optimizer.stateless_apply(state, gradients, weights)

    state = values(optimizer.variables)
    return step, (values(model.trainable_variables), values(model.non_trainable_variables), state, x, labels)


def time_training(worker, sizes, title, make_model):
    if 7 not in worker.parts:
        return
    counts = {}
    makers = {
        name: functools.partial(make_training, make_model, counts, name, sizes) for name in TRAINED[:: sizes.share]
    }
    programs = Programs(makers)
    worker.measure(0, f"compilation, part 7, {title}", {}, programs.compile)

    def measure(name):
        goals = {"multi_head": 1.3} if (name, title) == ("talking_heads", "decoder") else {}
        row = compare(programs, name, sizes, {"multi_head": "multi_head"}, goals)
        parameters, tokens = counts[name]
        rate = tokens / (row["ms"] / 1e3)
        return row | {"parameters": parameters, "tokens/s": rate, "TFLOP/s": 6 * parameters * rate / 1e12}

    for name in TRAINED[:: sizes.share]:
        worker.measure(7, name, {"model": title}, measure, name)


def make_decoding(sizes_of_cache, batch, name, sizes):
    """Returns a program of several decoding steps at the end of a cache. `sizes_of_cache` gets its bytes."""
    import jax

    layer = make_layer(name, sizes, Shape(1, batch))
    cache, kernels = layer.init_cache(batch, sizes.cache), layer.decoding_kernels()
    sizes_of_cache[name, batch] = sum(x.nbytes for x in cache.values())

    def run(weights, non_trainable, x, cache, kernels):
        def step(state, index):
            arguments = dict(cache=state[1], index=index, use_causal_mask=True, kernels=kernels, training=False)
            return layer.stateless_call(weights, non_trainable, state[0], state[0], **arguments)[0], None

        indices = jax.numpy.arange(sizes.cache - sizes.steps, sizes.cache, dtype="int32")
        return jax.lax.scan(step, (x, cache), indices)[0]

    x, _ = inputs(batch, 1, sizes.width, "bfloat16")
    return run, (values(layer.trainable_variables), values(layer.non_trainable_variables), x, cache, kernels)


def time_decoding(worker, sizes):
    if 8 not in worker.parts:
        return
    for batch in sizes.batches:
        nbytes = {}
        makers = {
            name: functools.partial(make_decoding, nbytes, batch, name, sizes) for name in DECODED[:: sizes.share]
        }
        programs = Programs(makers)
        worker.measure(0, "compilation, part 8", {"batch": batch}, programs.compile)

        def measure(name, batch, programs=programs, nbytes=nbytes):
            row = compare(programs, name, sizes, {"multi_head": "multi_head"}, {})
            row["us a step"] = 1e3 * row.pop("ms") / sizes.steps
            megabytes = nbytes[name, batch] / 1e6
            return row | {"cache MB": megabytes, "TB/s": megabytes / row["us a step"]}

        for name in DECODED[:: sizes.share]:
            worker.measure(8, name, {"batch": batch}, measure, name, batch)


def parity_shape(sizes):
    batch, n, heads = sizes.parity
    return dataclasses.replace(sizes, heads=heads), Shape(n, batch * n)


def parity_file(scratch, name):
    return pathlib.Path(scratch) / f"float64 {name}.npz"


def run_float64(worker, sizes):
    """Writes weights, inputs, output and gradients of each case in float64; the first two are exact in bfloat16."""
    import jax
    import jax.numpy as jnp

    os.nice(10)
    sizes, shape = parity_shape(sizes)
    for i, name in enumerate(list(CASES)[:: sizes.share]):
        function, (weights, non_trainable, x, masks, gradient) = make_program(name, sizes, shape, "float64")
        generator = np.random.default_rng(i)
        noisy = [np.asarray(w) + 0.05 * generator.normal(size=w.shape) for w in weights]
        *weights, x, gradient = (jnp.asarray(a, "bfloat16").astype("float64") for a in (*noisy, x, gradient))
        y, (by_weight, by_input) = jax.jit(function)(weights, non_trainable, x, masks, gradient)
        path = parity_file(worker.scratch, name)
        results = dict(x=x, gradient=gradient, y=y, by_input=by_input, count=len(weights))
        results |= {f"weight{k}": w for k, w in enumerate(weights)} | {f"by{k}": w for k, w in enumerate(by_weight)}
        np.savez(path.with_suffix(".part.npz"), **results)
        path.with_suffix(".part.npz").rename(path)
        send({})


def make_parity(dtype, scratch, name, sizes, shape):
    """Returns the program of a case with the weights and inputs of its file."""
    deadline = time.time() + 60
    while not parity_file(scratch, name).exists():  # another process is writing them
        if time.time() > deadline:
            raise FileNotFoundError(f"no reference in float64 for {name}")
        time.sleep(0.5)
    function, (weights, non_trainable, x, masks, gradient) = make_program(name, sizes, shape, dtype)
    with np.load(parity_file(scratch, name)) as file:
        weights = [jax_array(file[f"weight{k}"], w.dtype) for k, w in enumerate(weights)]
        return function, (
            weights,
            non_trainable,
            jax_array(file["x"], x.dtype),
            masks,
            jax_array(file["gradient"], x.dtype),
        )


def jax_array(x, dtype):
    import jax.numpy as jnp

    return jnp.asarray(np.asarray(x, "float32"), dtype)


def time_parity(worker, sizes):
    if 9 not in worker.parts:
        return
    sizes, shape = parity_shape(sizes)
    for dtype, goal in PARITY_GOALS.items():
        policy = "mixed_bfloat16" if dtype == "bfloat16" else dtype
        make = functools.partial(make_parity, policy, worker.scratch)
        programs = Programs(
            {name: functools.partial(make, name, sizes, shape) for name in list(CASES)[:: sizes.share]}, "highest"
        )
        worker.measure(0, "compilation, part 9", {"dtype": dtype}, programs.compile)

        def measure(name, goal, programs=programs):
            y, (by_weight, by_input) = programs.run(name)()
            with np.load(parity_file(worker.scratch, name)) as file:
                output = relative_norm([y], [file["y"]])
                gradients = [*(file[f"by{k}"] for k in range(file["count"])), file["by_input"]]
            errors = {"output": output, "gradients": relative_norm([*by_weight, by_input], gradients)}
            cells = meets({label: (error, goal) for label, error in errors.items()}, {"both": goal})
            return errors | {"kernel": kernels(programs, name)["kernel"]} | cells

        for name in list(CASES)[:: sizes.share]:
            worker.measure(9, name, {"dtype": dtype}, measure, name, goal)


def relative_norm(results, references):
    """Returns the norm of the difference over that of the references, of all arrays together."""
    results, references = (
        np.concatenate([np.asarray(x, "float64").ravel() for x in xs]) for xs in (results, references)
    )
    return float(np.linalg.norm(results - references) / np.linalg.norm(references))


def run_models(worker, sizes):
    """Parts 7 to 9, and the shorter lengths of part 2."""
    time_training(worker, sizes, "decoder", make_decoder)
    time_training(worker, sizes, "Transformer", make_translator)
    time_decoding(worker, sizes)
    time_parity(worker, sizes)
    for n, causal, backward in sizes.later:
        shape = Shape(n, sizes.tokens, causal, backward)
        time_layers(worker, sizes, 2, shape, list(CASES)[:: sizes.share], REFERENCES)


# Processes


class TimeIsUp(Exception):
    """Raised between two measurements after the time limit."""


class Worker:
    """Sends measurements to the process that writes the report.

    Args:
        task: dictionary of `parts`, `until` (seconds since the epoch), `scratch` (a folder) and `skip`, the keys of
            measurements that are done or ended the process.
    """

    def __init__(self, task):
        self.parts, self.until, self.scratch, self.skip = (task[name] for name in ("parts", "until", "scratch", "skip"))

    def measure(self, part, name, labels, function, *args):
        """Sends a row of `function(*args)`, a dictionary, or of its exception."""
        row = {"part": part, "name": name, **labels}
        if json.dumps(row) in self.skip or (part and part not in self.parts):
            return
        if time.time() > self.until:
            raise TimeIsUp
        send({"begins": row})
        try:
            row = row | function(*args)
        except Exception as error:
            row = row | {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        send({"row": row})


def sizes_of(rehearse, share):
    sizes = REHEARSAL if rehearse else Sizes()
    return dataclasses.replace(sizes, share=sizes.share * share, part_2_share=share)


def send(message):
    print(MARK + json.dumps(message, default=float), flush=True)


def work(task):
    """Runs the measurements of a process."""
    sizes = sizes_of(task["rehearse"], task["share"])
    if os.environ["KERAS_BACKEND"] == "jax":
        import jax

        cache = task["scratch"] if task["rehearse"] else os.path.join(tempfile.gettempdir(), "gpu_heads_cache")
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    worker, (run, *arguments) = Worker(task), task["run"]
    with contextlib.suppress(TimeIsUp):
        globals()[run](worker, sizes, *arguments)


@dataclasses.dataclass
class Report:
    """Rows of all parts, written to a folder as Markdown and JSON after each."""

    folder: pathlib.Path
    machine: list
    start: float
    until: float
    rows: list = dataclasses.field(default_factory=list)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def add(self, row):
        from keras_headattn._files import write_atomically

        with self.lock:
            self.rows.append(row)
            finish(self.rows)
            write_atomically(self.folder / "gpu_heads.md", self.text().encode())
            write_atomically(self.folder / "gpu_heads.json", json.dumps(self.rows, indent=1).encode())
        elapsed, left = (time.time() - self.start) / 60, (self.until - time.time()) / 60
        result = row.get("error") or f"{row['ms']:.3g} ms" if "ms" in row else ""
        print(f"{elapsed:.1f} min, {left:.1f} left: part {row['part']}, {row['name']} {result}", file=sys.stderr)

    def text(self):
        """Returns the report as Markdown."""
        checked = sum(row["part"] == 1 and row.get("should fuse", False) for row in self.rows)
        unfused = dict.fromkeys(x["name"] for x in self.rows if x["part"] == 1 and x.get("met") is False)
        missed = dict.fromkeys(
            f"{x['name']} ({x['part']})" for x in self.rows if x["part"] > 1 and x.get("met") is False
        )
        failed, empty = sum("error" in x for x in self.rows), TITLES.keys() - {x["part"] for x in self.rows}
        lines = [
            f"- Heads that should fuse and do not: {', '.join(unfused) or 'none'}, of {checked} programs",
            f"- Goals missed (part): {', '.join(missed) or 'none'}",
            f"- Compilation: {sum(x.get('s', 0) for x in self.rows):.0f} s",
            f"- Measurements: {len(self.rows)}, of which {failed} failed; parts without any: {sorted(empty) or 'none'}",
        ]
        parts = ["# Heads on a GPU", GOALS, "\n".join(lines)]
        for part, title in TITLES.items():
            rows = [row for row in self.rows if row["part"] == part and "programs" not in row]
            keys = dict.fromkeys(itertools.chain(*rows))
            header = [key for key in keys if key not in ("part", "rounds", *LAST)] + [
                key for key in LAST if key in keys
            ]
            parts += [f"## {part} {title}", timing.table(header, [[cell(row.get(x)) for x in header] for row in rows])]
        return "\n\n".join([*parts, timing.SPREAD, "\n".join(self.machine)]) + "\n"


def finish(rows):
    """Adds the cells that need other rows: shares of the ceilings and of the memory of the whole map."""
    ceilings = {key: value for row in rows if row["part"] == 0 for key, value in row.items()}
    whole = {row["name"]: row["peak MB"] for row in rows if "peak MB" in row and "chunk" not in row}
    for row in rows:
        if row["part"] == 7 and "TFLOP/s" in row and "TFLOP/s" in ceilings:
            row["of the peak"] = row["TFLOP/s"] / ceilings["TFLOP/s"]
        if row["part"] == 8 and "TB/s" in row and "TB/s" in ceilings:
            share = row["of the copy rate"] = row["TB/s"] / ceilings["TB/s"]
            row |= {"goal": f"least {BYTES_GOAL}", "met": share >= BYTES_GOAL}
        if "peak MB" in row and "chunk" in row and row["name"] in whole:
            share = row["of the whole map"] = row["peak MB"] / whole[row["name"]]
            row |= {"goal": f"memory {MEMORY_GOAL}", "met": share <= MEMORY_GOAL}


def cell(value):
    if value is None or isinstance(value, str):
        return (value or "").replace("|", "/")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def environment_of(run, rehearse):
    environment = os.environ | {"KERAS_BACKEND": "torch" if run == "run_torch" else "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.92"}
    if run == "run_float64":
        environment |= {"JAX_ENABLE_X64": "1"}
    if rehearse:
        environment |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return environment | ({"JAX_PLATFORMS": "cpu"} if rehearse or run == "run_float64" else {})


def run_child(report, options, scratch, run, *arguments):
    """Runs measurements in a process of their own. Starts it again after a crash, without what crashed."""
    task = dict(run=[run, *arguments], parts=options.parts, until=report.until, scratch=str(scratch), skip=[])
    task |= {"rehearse": options.rehearse, "share": options.share}
    while time.time() < report.until:
        path = scratch / f"{run} {len(task['skip'])} {' '.join(map(str, arguments))}.log"
        begun, problem = follow(report, task, path)
        if not problem:
            return
        lines = path.read_text(errors="replace").split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), "")[:200]
        report.add((begun or {"part": 0, "name": run}) | {"error": f"The process ended ({problem}): {reason}"})
        if begun is None:
            return
        task["skip"].append(json.dumps(begun))


def follow(report, task, log):
    """Runs a process and adds its rows. Returns the measurement that it did not finish, and why it ended early."""
    command = [sys.executable, "-m", "benchmarks.gpu_heads", "--task", json.dumps(task)]
    arguments = dict(cwd=timing.RESULTS.parents[1], env=environment_of(task["run"][0], task["rehearse"]), text=True)
    with open(log, "w") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, start_new_session=True, **arguments)
    lines, begun = queue.Queue(), None
    threading.Thread(target=pump, args=(process.stdout, lines), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=max(0.1, min(SILENCE, report.until + GRACE - time.time())))
        except queue.Empty:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return begun, "at the time limit" if time.time() > report.until else "no answer"
        if line is None:
            code = process.wait()
            return begun, f"exit status {code}" if code else None
        message = json.loads(line.removeprefix(MARK)) if line.startswith(MARK) else {}
        if "row" in message:
            report.add(message["row"])
            task["skip"].append(json.dumps(begun))
        begun = message.get("begins") if message else begun


def pump(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put(None)


def machine_lines(commit):
    """Returns the report's last lines: GPU and driver, versions, date, commit and command."""
    packages = [name for name in ("jax", "keras", "numpy", "torch") if importlib.util.find_spec(name)]
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip() or "none"
    except (OSError, subprocess.TimeoutExpired):
        gpu = "none"
    return [f"- GPU, driver and memory: {gpu}", *timing.machine(*packages, commit=commit)]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=9, help="time limit (default: 9)")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes on the CPU; by default in a new folder")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="measure one in N heads (default: 1)")
    parser.add_argument("--output", type=pathlib.Path, help="folder of the report (default: benchmarks/results)")
    parser.add_argument("--parts", type=int, nargs="+", default=list(TITLES), help="parts to measure (default: all)")
    parser.add_argument("--commit", help="commit that the report names where there is no checkout")
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_all(report, options, scratch):
    """Runs all parts in order of value."""
    run = functools.partial(run_child, report, options, scratch)
    parts = set(options.parts)
    if 9 in parts:
        reference = threading.Thread(target=run, args=("run_float64",))
        reference.start()
    if parts & {0, 1, 2, 3, 4, 5}:
        run("run_layers")
    if 3 in parts:
        sizes = sizes_of(options.rehearse, options.share)
        names, chunk = CHUNKED[:: sizes.share], sizes.chunks[0]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:  # at most one whole map beside one in chunks
            list(pool.map(lambda case: run("run_memory", *case), itertools.product(names, (None, chunk))))
    if 6 in parts and importlib.util.find_spec("torch"):
        run("run_torch")
    elif 6 in parts:
        report.add({"part": 6, "name": "PyTorch", "skipped": "PyTorch is not installed"})
    if parts & {2, 7, 8, 9}:
        run("run_models")
    if 9 in parts:
        reference.join()


def main():
    options = parse_options()
    if options.task:
        work(options.task)
        return
    start, scratch = time.time(), pathlib.Path(tempfile.mkdtemp(prefix="gpu_heads_"))
    folder = options.output or (scratch if options.rehearse else timing.RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    report = Report(folder, machine_lines(options.commit), start, start + 60 * options.minutes - GRACE)
    print(f"Report: {folder}/gpu_heads.md. Messages of the processes: {scratch}", file=sys.stderr, flush=True)
    run_all(report, options, scratch)
    print(report.text())


if __name__ == "__main__":
    main()
