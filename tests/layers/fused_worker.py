"""Fused attention on JAX and PyTorch: the calls of the kernel, and the distance from the plain path."""

import contextlib
import dataclasses
import json
import unittest.mock

import keras
import numpy as np

from keras_headattn import layers, ops, positions
from tests.full import FULL, sample
from tests.layers.harness import (
    BATCH,
    HEADS,
    KEY_DIM,
    KEYS,
    KINDS,
    QUERIES,
    Case,
    array,
    cross_inputs,
    output_bias,
    randomize,
    self_input,
)
from tests.ops.oracles import allowed, attention, draw_by_seed

# Layers that compute a map of their own, in two products.
PLAIN = (
    layers.TalkingHeadsAttention,
    layers.LuongAttention,
    layers.EvolvingAttention,
    layers.DisentangledMaskAttention,
    layers.SynthesizerAttention,
    layers.DynamicallyComposableAttention,
    layers.ReAttention,
    layers.MultiTokenAttention,
    layers.RealFormerAttention,
)
EQUAL = {"num_heads": HEADS, "key_dim": KEY_DIM}  # values as wide as keys
SHARED = {**EQUAL, "num_heads": 4, "num_key_value_heads": 2}
NORMED = {**EQUAL, "qk_norm": True, "relative_positions": positions.RotaryPositions()}
COLLABORATIVE = {**EQUAL, "shared_dim": KEY_DIM}


def is_plain(case):
    return case.layer in PLAIN or "attn_logits_soft_cap" in case.arguments


# Layers with an `attend`, or with arguments of the kernel, of their own: the others do the same in all situations.
PATHS = ("equal_widths", "sinks_grouped", "interleaved")
PATHS = (*PATHS, "equal_pairwise", "wide_differential", "equal_collaborative") if FULL else PATHS

UNFUSED = sample([case for case in KINDS if is_plain(case)], ("talking", "evolving"))
ALL_FUSED = [
    *(case for case in KINDS if not is_plain(case)),
    Case("equal_widths", layers.MultiHeadAttention, EQUAL),
    Case("wide_keys", layers.MultiHeadAttention, {**EQUAL, "value_dim": 3}),
    Case("norms_and_rotary", layers.MultiHeadAttention, NORMED),
    Case("sinks", layers.MultiHeadAttention, {**EQUAL, "use_sinks": True}),
    Case("sinks_grouped", layers.GroupedQueryAttention, {**SHARED, "value_dim": 5, "use_sinks": True}),
    Case("equal_grouped_query", layers.GroupedQueryAttention, SHARED),
    Case("equal_pairwise", layers.InteractingHeadAttention, {**EQUAL, "interaction": "pairwise"}),
    Case("wide_differential", layers.DifferentialAttention, EQUAL),  # values twice as wide as keys
    Case("equal_differential", layers.DifferentialAttention, {**EQUAL, "value_dim": KEY_DIM}),
    Case("equal_collaborative", layers.CollaborativeAttention, COLLABORATIVE),
    Case("collaborative_unbiased", layers.CollaborativeAttention, {**COLLABORATIVE, "use_bias": False}),
]
FUSED = sample(ALL_FUSED, PATHS)

# ------------------------------------------------------------------------------------------ calls of the kernel

LENGTH = 64  # nothing else is as large
WINDOW = 8
RECORDED = [case for case in FUSED if "relative" not in case.name]  # their biases are maps
SHORT = ("causal", "window", "lengths", "causal_key_mask")  # situations of the cases that are not in `PATHS`


def shape_situations():
    """Returns name to the window, flags and tensors of a call."""
    rng = np.random.default_rng(0)
    holes = rng.random((BATCH, LENGTH)) > 0.3
    lengths = {"key_lengths": np.array([LENGTH, 5], "int32")}
    causal = {"use_causal_mask": True}
    return {
        "plain": (None, {}, {}),
        "causal": (None, causal, {}),
        "causal_window": (WINDOW, causal, {}),
        "window": (WINDOW, {}, {}),
        "lengths": (None, {}, lengths),
        "causal_lengths": (None, causal, lengths),
        "key_mask": (None, {}, {"key_mask": holes}),
        "value_mask": (None, {}, {"value_mask": holes}),
        "causal_key_mask": (None, causal, {"key_mask": holes}),
        "query_mask": (None, {}, {"query_mask": holes}),
        "key_bias": (None, {}, {"bias": rng.normal(size=(1, 1, 1, LENGTH)).astype("float32")}),
        "shared_mask": (None, {}, {"attention_mask": rng.random((LENGTH, LENGTH)) > 0.3}),
        "mask_by_item": (None, {}, {"attention_mask": rng.random((BATCH, LENGTH, LENGTH)) > 0.3}),
        "segments": (None, {}, {"segment_ids": np.sort(rng.integers(0, 4, (BATCH, LENGTH)))}),
    }


def call_of(query, key, value, mask, bias, heads_axis, **options):
    """One call of a kernel, for JSON."""
    shapes = {"mask": None if mask is None else [*mask.shape], "bias": None if bias is None else [*bias.shape]}
    heads, groups = query.shape[heads_axis], key.shape[heads_axis]
    widths = [x.shape[-1] for x in (query, key, value)]
    return {"heads": heads, "groups": groups, "widths": widths, **shapes, **options}


@contextlib.contextmanager
def recorder_on_jax(calls):
    """Replaces the kernel by one of the same shapes that makes no map."""
    import jax

    def kernel(query, key, value, bias=None, mask=None, *, is_causal=False, return_residual=False, **options):
        window = options.get("local_window_size")
        options = {
            "is_causal": bool(is_causal),
            "window": [window, window] if isinstance(window, int) else window,
            "lengths": options.get("key_value_seq_lengths") is not None,
        }
        calls.append(call_of(query, key, value, mask, bias, 2, **options))
        mean = value.mean(axis=1, keepdims=True).repeat(query.shape[2] // value.shape[2], axis=2)
        output = 0 * query[..., :1] + mean
        return (output, output[..., 0]) if return_residual else output

    with unittest.mock.patch.object(jax.nn, "dot_product_attention", kernel):
        yield


@contextlib.contextmanager
def recorder_on_torch(calls):
    from torch.nn import functional

    kernel = functional.scaled_dot_product_attention

    def record(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        options = {"is_causal": bool(is_causal), "enable_gqa": bool(enable_gqa)}
        calls.append(call_of(query, key, value, attn_mask, None, 1, **options))
        return kernel(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    with unittest.mock.patch.object(functional, "scaled_dot_product_attention", record):
        yield


def recorder(calls):
    return {"jax": recorder_on_jax, "torch": recorder_on_torch}[keras.backend.backend()](calls)


def is_map(shape):
    """True for a tensor of the size of a map of all queries and keys, whatever the order of its axes."""
    return sum(size >= LENGTH for size in shape) > 1


def shapes_in(jaxpr):
    """Yields the shapes of all results in a closed jaxpr, and of its constants, which a mask may be."""
    for constant in jaxpr.consts:
        yield np.shape(constant)
    yield from shapes_of_equations(jaxpr.jaxpr)


def shapes_of_equations(jaxpr):
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            yield variable.aval.shape
        for parameter in equation.params.values():
            for inner in parameter if isinstance(parameter, (list, tuple)) else [parameter]:
                if hasattr(inner, "consts"):
                    yield from shapes_in(inner)
                elif hasattr(inner, "eqns"):
                    yield from shapes_of_equations(inner)


def trace_on_jax(layer, x, flags, tensors):
    """Returns the shapes of all tensors of a compiled call."""
    import jax

    call = jax.jit(lambda x, tensors: layer(x, x, **flags, **tensors))
    return [*shapes_in(jax.make_jaxpr(call)(x, tensors))]


def trace_on_torch(layer, x, flags, tensors):
    """Returns the shapes of all tensors of a call."""
    import torch

    class Shapes(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            shapes.extend(tuple(y.shape) for y in keras.tree.flatten(result) if isinstance(y, torch.Tensor))
            return result

    shapes = []
    x = keras.ops.convert_to_tensor(x)
    tensors = {name: keras.ops.convert_to_tensor(y) for name, y in tensors.items()}
    with torch.no_grad(), Shapes():
        layer(x, x, **flags, **tensors)
    return shapes


def traced(layer, x, flags, tensors):
    """Returns the calls of the kernel in a call of the layer, and the shapes of all maps there, as JSON."""
    calls, trace = [], {"jax": trace_on_jax, "torch": trace_on_torch}[keras.backend.backend()]
    with recorder(calls):
        shapes = trace(layer, x, flags, tensors)
    return np.array(json.dumps({"calls": calls, "maps": sorted({shape for shape in shapes if is_map(shape)})}))


def made(case, x, **arguments):
    layer = case.make(kernel_initializer="zeros", **arguments)
    layer.build(x.shape, x.shape, x.shape)
    return layer


def kernel_calls(case):
    """Returns situation to calls of the kernel."""
    x, out, situations = self_input(length=LENGTH), {}, shape_situations()
    by_window = {window: made(case, x, sliding_window=window) for window in (None, WINDOW)}
    for name, (window, flags, tensors) in situations.items():
        if case.name in PATHS or name in SHORT:
            out[name] = traced(by_window[window], x, flags, tensors)
    half = made(case, x, dtype="bfloat16")
    for name in ("plain", "causal"):
        out[f"bfloat16_{name}"] = traced(half, x, *situations[name][1:])
    if case.name in PATHS:  # without `jax.jit`
        calls = []
        with recorder(calls):
            by_window[None](x, x, use_causal_mask=True)
        out["eager_causal"] = np.array(json.dumps({"calls": calls, "maps": []}))
    return out


def calls_of_plain_layers(case):
    x = self_input(length=LENGTH)
    return {"causal": traced(made(case, x), x, {"use_causal_mask": True}, {})}


def calls_that_read_weights():
    """Returns the number of calls of the kernel where weights are returned or dropped, and where dropout is off."""
    x, out = self_input(length=LENGTH), {}
    layer = made(Case("", layers.MultiHeadAttention, EQUAL), x, dropout=0.5)
    situations = {"scores": {"return_attention_scores": True}, "training": {"training": True}, "inference": {}}
    for name, flags in situations.items():
        calls = []
        with recorder(calls):
            layer(x, x, **flags)
        out[name] = np.array(len(calls))
    return out


# ------------------------------------------------------------------------------------ distance from the plain path

TOKENS = 6  # of self-attention; cross-attention has `QUERIES` and `KEYS`
PADDED = np.array([3, KEYS - 1])  # lengths of the keys of cross-attention
FEW = ("causal_key_mask", "causal_window_lengths")
MANY = (*FEW, "lengths", "causal_key_bias", "mask_by_item", "everything", "cross_masks") if FULL else FEW
HALF = ("equal_widths", "sinks_grouped") if FULL else ("sinks_grouped",)


def self_situations(layer):
    """Returns name to the window and the call arguments of self-attention."""
    rng = np.random.default_rng(5)
    causal = {"use_causal_mask": True}
    holes = np.array([[0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 1, 0]], bool)  # the first query of the first item has no key
    masks = rng.random((BATCH, TOKENS, TOKENS)) > 0.4
    masks[1, 2] = False
    masks_by_head = rng.random((BATCH, layer.softmax_heads, TOKENS, TOKENS)) > 0.2
    segments = np.array([[1, 1, 2, 2, 2, 3], [4, 4, 4, 4, 4, 0]])
    bias = rng.normal(size=(BATCH, layer.score_heads, TOKENS, TOKENS)).astype("float32")
    everything = {
        "key_lengths": np.array([6, 5]),
        "key_mask": holes,
        "value_mask": rng.random((BATCH, TOKENS)) > 0.2,
        "query_mask": holes[::-1],
        "attention_mask": masks_by_head,
        "segment_ids": segments,
        "bias": bias,
    }
    return {
        "plain": (None, {}),
        "causal": (None, causal),
        "causal_window": (3, causal),
        "window": (3, {}),
        "lengths": (None, {"key_lengths": np.array([4, 0])}),
        "causal_window_lengths": (2, causal | {"key_lengths": np.array([3, 6])}),
        "causal_key_mask": (None, causal | {"key_mask": holes}),
        "window_key_mask": (2, {"key_mask": holes}),
        "query_mask": (None, {"query_mask": holes}),
        "mask_by_item": (None, {"attention_mask": masks}),
        "segments": (None, causal | {"segment_ids": segments}),
        "key_bias": (None, {"bias": bias[:1, :1, :1]}),
        "causal_key_bias": (None, causal | {"bias": bias[:, :, :1], "value_mask": holes}),
        "bias": (None, {"bias": bias}),
        "everything": (3, causal | everything),
    }


def cross_situations(layer):
    """Returns the same for cross-attention, whose masks hide the padding."""
    real = np.arange(KEYS) < PADDED[:, None]
    holes = real & (np.arange(KEYS) % np.array([[3], [2]]) > 0)
    return {
        "cross_lengths": (None, {"key_lengths": PADDED}),
        "cross_causal": (None, {"use_causal_mask": True, "key_mask": real}),
        "cross_causal_window": (2, {"use_causal_mask": True, "key_mask": holes}),
        "cross_masks": (None, {"key_mask": holes, "query_mask": np.arange(QUERIES) < [[2], [9]]}),
    }


def padded_inputs():
    """Returns inputs of cross-attention whose padding is huge."""
    query, value, key = cross_inputs()
    for x in (value, key):
        x[np.arange(KEYS) >= PADDED[:, None]] = 1e6
    return query, value, key


def all_masks(shape, window, call):
    """Returns all masks of a call as one of this shape, `(B, h, n, m)`."""
    axes = {"key_mask": (1, 2), "value_mask": (1, 2), "query_mask": (1, 3)}
    mask = np.ones(shape, bool)
    for name, new in axes.items():
        mask &= np.expand_dims(call[name], new) if name in call else True
    if "segment_ids" in call:
        mask &= (call["segment_ids"][:, :, None] == call["segment_ids"][:, None])[:, None]
    if "attention_mask" in call:
        mask &= call["attention_mask"] if call["attention_mask"].ndim == 4 else call["attention_mask"][:, None]
    return allowed(shape, mask, call.get("use_causal_mask", False), window, call.get("key_lengths"))


def direction(shape):
    return np.random.default_rng(7).normal(size=shape).astype("float32")


def randomized(case, inputs, **arguments):
    layer = case.make(kernel_initializer="zeros", **arguments)
    layer.build(*(x.shape for x in inputs))
    return randomize(layer)


@dataclasses.dataclass
class Comparison:
    """One call, and its masks and biases as one tensor each for the plain path."""

    kind: str
    layer: layers.Attention
    inputs: tuple
    flags: dict
    tensors: dict
    bias: np.ndarray | None
    mask: np.ndarray
    map_bias: np.ndarray


def comparisons(case, names=None):
    """Returns name to a comparison, of these situations or of all; and kind to the layer without a window."""
    out, plain, sequence = {}, {}, self_input(length=TOKENS)
    kinds = {
        "self": (self_situations, (sequence,) * 3),
        "cross": (cross_situations, padded_inputs()),
    }
    for kind, (situations, inputs) in kinds.items():
        layer = plain[kind] = randomized(case, inputs)
        by_window = {None: layer}
        sizes = inputs[0].shape[1], inputs[1].shape[1]
        for name, (window, call) in situations(layer).items():
            if names and name not in names or "segment_ids" in call and layer.rows_interact:
                continue
            if window not in by_window:
                by_window[window] = randomized(case, inputs, sliding_window=window)
            bias = call.get("bias")
            out[name] = Comparison(
                kind,
                by_window[window],
                inputs,
                {key: x for key, x in call.items() if isinstance(x, bool)},
                {key: x for key, x in call.items() if key != "bias" and not isinstance(x, bool)},
                bias,
                all_masks((BATCH, layer.softmax_heads, *sizes), window, call),
                np.zeros((BATCH, layer.score_heads, *sizes), "float32") + (0 if bias is None else bias),
            )
    return out, plain


def gradients_on_jax(layer, sources, flags, tensors):
    """Returns the output and the gradients of weights, inputs and bias."""
    import jax

    fixed = [variable.value for variable in layer.non_trainable_variables]

    def loss(sources):
        weights, inputs, bias = sources
        outputs, _ = layer.stateless_call(weights, fixed, *inputs, bias=bias, **flags, **tensors)
        output = outputs[0] if isinstance(outputs, tuple) else outputs
        return (output * direction(output.shape)).sum(), output

    gradients, output = jax.grad(loss, has_aux=True)(sources)
    return [output, *jax.tree.leaves(gradients)]


def weights_of(layer):
    return [variable.value for variable in layer.trainable_variables]


def results_on_jax(compared, plain, jit):
    """Returns name to results on the fused path, and on the plain one.

    All are one program, as it takes longer to compile many. It has the plain path once, for all masks.
    """
    import jax

    names = {kind: [name for name, x in compared.items() if x.kind == kind] for kind in plain}

    def on_plain_path(layer, weights, inputs, masks, biases):
        def one(given):
            flags, tensors = {"return_attention_scores": True}, {"attention_mask": given[0]}
            return gradients_on_jax(layer, (weights, inputs, given[1]), flags, tensors)

        return jax.lax.map(one, (masks, biases))

    def compute(sources, tensors, stacked):
        fused = {name: gradients_on_jax(x.layer, sources[name], x.flags, tensors[name]) for name, x in compared.items()}
        return fused, {kind: on_plain_path(plain[kind], *given) for kind, given in stacked.items()}

    sources = {name: (weights_of(x.layer), x.inputs, x.bias) for name, x in compared.items()}
    stacked = {
        kind: (
            weights_of(plain[kind]),
            compared[names[kind][0]].inputs,
            np.stack([compared[name].mask for name in names[kind]]),
            np.stack([compared[name].map_bias for name in names[kind]]),
        )
        for kind in plain
        if names[kind]
    }
    compute = jax.jit(compute) if jit else compute
    fused, results = compute(sources, {name: x.tensors for name, x in compared.items()}, stacked)
    results = {kind: [array(x) for x in given] for kind, given in results.items()}
    return fused, {name: [x[i] for x in results[kind]] for kind in results for i, name in enumerate(names[kind])}


def gradients_on_torch(layer, inputs, bias, **call):
    """Returns the output and the gradients of weights, inputs and bias."""
    import torch

    inputs = [torch.tensor(x, requires_grad=True) for x in inputs]
    biases = [] if bias is None else [torch.tensor(bias, requires_grad=True)]
    outputs = layer(*inputs, bias=biases[0] if biases else None, **call)
    output = outputs[0] if isinstance(outputs, tuple) else outputs
    loss = (output * torch.tensor(direction(output.shape))).sum()
    sources = [*weights_of(layer), *inputs, *biases]
    return [output.detach(), *torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)]


def results_on_torch(compared, plain, jit):
    fused, results = {}, {}
    for name, x in compared.items():
        fused[name] = gradients_on_torch(x.layer, x.inputs, x.bias, **x.flags, **x.tensors)
        call = {"attention_mask": x.mask, "return_attention_scores": True}
        results[name] = gradients_on_torch(plain[x.kind], x.inputs, x.map_bias, **call)
    return fused, results


def difference(result, expected):
    if result.shape != expected.shape:
        raise ValueError(f"Results must have the shape {expected.shape}. Received: shape {result.shape}")
    return np.abs(result - expected).max()


def distance(results, expected):
    """Returns the largest difference of outputs and of gradients, relative to the largest number of each."""
    parts = []
    for part in (slice(0, 1), slice(1, None)):
        differences = [difference(x, y) for x, y in zip(results[part], expected[part], strict=True)]
        parts.append(np.max(differences) / max(np.abs(x).max() for x in expected[part]))
    return np.array(parts)


def summed_to(gradient, shape):
    """Returns the gradient of a tensor of this shape, from that of the tensor it was broadcast to."""
    axes = tuple(i for i, size in enumerate(shape) if size < gradient.shape[i])
    return gradient.sum(axis=axes, keepdims=True)


def distances(case, names=None, jit=False):
    """Returns name to the distance of the fused from the plain path, of outputs and of gradients."""
    compared, plain = comparisons(case, names)
    results = {"jax": results_on_jax, "torch": results_on_torch}[keras.backend.backend()]
    fused, expected = results(compared, plain, jit)
    out = {}
    for name, x in compared.items():
        *whole, bias_gradient = map(array, expected[name])
        whole += [] if x.bias is None else [summed_to(bias_gradient, x.bias.shape)]
        out[name] = distance([array(y) for y in fused[name]], whole)
    return out


def half_precision(case, dtype):
    """Returns the distance of the output from that in float32, and whether a query without keys gets zeros."""
    x = self_input(length=TOKENS)
    call = {"use_causal_mask": True, "key_mask": np.array([[0, 1, 1, 0, 1, 1], [1, 0, 0, 0, 1, 0]], bool)}
    expected, _ = randomized(case, (x, x, x))(x, x, return_attention_scores=True, **call)
    layer = randomized(case, (x, x, x), dtype=f"mixed_{dtype}")
    output = array(layer(x, x, **call))
    bias = array(keras.ops.cast(output_bias(layer), dtype))
    return {"distance": distance([output] * 2, [array(expected)] * 2)[0], "zeros": (output[0, 0] == bias).all()}


# ---------------------------------------------------------------------------------------------- `ops.attend` itself

SEEDS, EAGER = 30 if FULL else 10, 3


def arguments_by_seed(seed):
    """Returns the options of a call of `ops.attend`, and its tensors."""
    arguments = draw_by_seed(seed)
    options = {name: arguments.pop(name) for name in ("scale", "is_causal", "sliding_window")}
    tensors = {name: x for name, x in arguments.items() if x is not None}
    return options, {name: x.astype("float32") if x.dtype == "float64" else x for name, x in tensors.items()}


def outputs_of_attend(seeds):
    return [ops.attend(**tensors, **options) for options, tensors in map(arguments_by_seed, seeds)]


def outputs_of_attend_on_jax(seeds):
    """Compiled, as one program."""
    import jax

    options, tensors = zip(*map(arguments_by_seed, seeds), strict=True)

    def compute(tensors):
        return [ops.attend(**x, **given) for x, given in zip(tensors, options, strict=True)]

    return jax.jit(compute)(tensors)


def distances_of_attend(compute, seeds):
    """Returns the largest differences from the oracle."""
    expected = [attention(**draw_by_seed(seed)) for seed in seeds]
    outputs = [array(x) for x in compute(seeds)]
    return {"distances": [difference(x, y) for x, y in zip(outputs, expected, strict=True)]}


# ------------------------------------------------------------------------------------- cuDNN, without a GPU, on JAX

WIDE = {"num_heads": 4, "key_dim": 64}  # as cuDNN takes them
ALL_ACCEPTED = [
    Case("multi_head", layers.MultiHeadAttention, WIDE),
    Case("grouped_query", layers.GroupedQueryAttention, {**WIDE, "num_key_value_heads": 2}),
    Case("sinks", layers.MultiHeadAttention, {**WIDE, "use_sinks": True}),
    Case("knocking_heads", layers.KnockingHeadsAttention, WIDE),
    Case("multi_head_explicit", layers.MultiHeadExplicitAttention, WIDE),
    Case("mixture_of_heads", layers.MixtureOfHeadsAttention, WIDE),
    Case("interacting_sum", layers.InteractingHeadAttention, WIDE),
    Case("interacting_pairwise", layers.InteractingHeadAttention, {**WIDE, "interaction": "pairwise"}),
    Case("interleaved", layers.InterleavedHeadAttention, WIDE),
    Case("paired_heads", layers.PairedHeadsAttention, WIDE),
    Case("collaborative", layers.CollaborativeAttention, {**WIDE, "shared_dim": 64}),
    Case("differential", layers.DifferentialAttention, WIDE),
]
ACCEPTED = sample(ALL_ACCEPTED, ("multi_head", "sinks", "interleaved"))


def kernels_of_cudnn(case):
    """Returns the numbers of forward and backward kernels in the trace of a training step, by call.

    Tracing runs all of JAX's checks of what cuDNN takes; only running needs a GPU.
    """
    import jax
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    layer = case.make(flash_attention=True, dtype="mixed_bfloat16")
    out, weights = {}, None
    calls = {"plain": {}, "causal": {"use_causal_mask": True}, "lengths": {"key_lengths": np.array([3, 5], "int32")}}
    calls["key_mask"] = {"key_mask": np.arange(8) < np.array([[3], [5]]), "use_causal_mask": True}
    versions = {"check_cudnn_version": lambda: 91100, "check_compute_capability": lambda _: True}
    with unittest.mock.patch.multiple(cudnn, **versions):
        for name, call in calls.items():
            for length in (8,) if "key_mask" in call else (8, 7):
                x = jax.ShapeDtypeStruct((BATCH, length, 32), "bfloat16")
                if weights is None:
                    layer.build(x.shape, x.shape)
                    weights = [variable.value for variable in layer.trainable_variables]

                def loss(weights, x, call=call):
                    scope = keras.StatelessScope([*zip(layer.trainable_variables, weights, strict=True)])
                    with scope:
                        return layer(x, x, training=True, **call).astype("float32").sum()

                trace = str(jax.make_jaxpr(jax.grad(loss))(weights, x))
                out[f"{name}_{length}"] = [
                    trace.count(f"dot_product_attention_{way}_wrapper[") for way in ("fwd", "bwd")
                ]
    return out


def distances_of_even_lengths():
    """Returns the differences of `ops.attend` from the oracle with the lengths that cuDNN gets, by XLA's kernel."""
    import jax

    kernel = jax.nn.dot_product_attention

    def replaced(*inputs, implementation, **options):
        assert implementation == "cudnn" and inputs[0].shape[1] % 2 == inputs[1].shape[1] % 2 == 0
        return kernel(*inputs, **options, implementation="xla")

    def compute(seeds):
        with unittest.mock.patch.object(jax.nn, "dot_product_attention", replaced):
            return [ops.attend(**x, **given, flash_attention=True) for given, x in map(arguments_by_seed, seeds)]

    return distances_of_attend(compute, range(EAGER))


# -------------------------------------------------------------------------------------------------------- all of it


def attempt(name, compute, *arguments, **options):
    """Returns results as arrays, or an exception as `name/error`."""
    try:
        return {f"{name}/{key}": np.asarray(x) for key, x in compute(*arguments, **options).items()}
    except Exception as error:
        return {f"{name}/error": np.array(f"{type(error).__name__}: {error}")}


@contextlib.contextmanager
def one_thread():
    """PyTorch's threads only get into each other's way on tensors as small as these."""
    if keras.backend.backend() != "torch":
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def compared_cases():
    """Yields name, case, situations (`None` = all) and options of comparisons: fewer on JAX, which compiles each."""
    on_jax = keras.backend.backend() == "jax"
    for case in FUSED:
        if not on_jax or case.name in PATHS:
            names = MANY if on_jax and case.name != PATHS[0] else None
            yield f"distances/{case.name}", case, names, {"jit": on_jax}
        if FULL and on_jax and case.name == "sinks_grouped":
            yield f"eager_distances/{case.name}", case, FEW, {}
    for case in UNFUSED if not on_jax else ():
        yield f"distances/{case.name}", case, ("lengths", "causal_window_lengths"), {}


def everything():
    """Returns the results of all parts, as `part/case/name`."""
    on_jax, out = keras.backend.backend() == "jax", {}
    with one_thread():
        for case in RECORDED:
            out |= attempt(f"calls/{case.name}", kernel_calls, case)
        for case in UNFUSED:
            out |= attempt(f"plain_calls/{case.name}", calls_of_plain_layers, case)
        out |= attempt("weights", calls_that_read_weights)
        for name, case, names, options in compared_cases():
            out |= attempt(name, distances, case, names, **options)
        for case in FUSED:
            for dtype in ("float16", "bfloat16") if case.name in HALF else ():
                out |= attempt(f"half/{case.name}/{dtype}", half_precision, case, dtype)
        if on_jax:
            out |= attempt("attend/jit", distances_of_attend, outputs_of_attend_on_jax, range(SEEDS))
            out |= attempt("attend/even", distances_of_even_lengths)
            for case in ACCEPTED:
                out |= attempt(f"cudnn/{case.name}", kernels_of_cudnn, case)
        out |= attempt("attend/eager", distances_of_attend, outputs_of_attend, range(EAGER if on_jax else SEEDS))
    return out


if __name__ == "__main__":
    import sys

    np.savez(sys.argv[1], backend=keras.backend.backend(), **everything())
