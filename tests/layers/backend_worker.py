"""Every case on the backend of this process."""

import tempfile

import keras
import numpy as np

from keras_headattn import layers, positions
from keras_headattn.ops._cache import row_indices, write_rows
from tests.full import sample
from tests.layers import fused_worker
from tests.layers.harness import (
    BATCH,
    COMPUTATIONS,
    HEADS,
    KEY_DIM,
    KEY_WIDTH,
    KEYS,
    PATHS,
    QUERIES,
    QUERY_WIDTH,
    SIZES,
    VALUE_WIDTH,
    Case,
    array,
    cross_inputs,
    random_mask,
    randomize,
    self_input,
)

LENGTH = 4

# Values as wide as keys: what other backends than TensorFlow have kernels for.
FUSED = {"num_heads": HEADS, "key_dim": KEY_DIM}
# A layer for each stage that one replaces, and each path of the kernel.
SAMPLE = (*PATHS, "multi_token", "fused", "fused_relative", "fused_grouped_query")
ALL = [
    *COMPUTATIONS,
    Case("fused", layers.MultiHeadAttention, FUSED),
    Case(
        "fused_relative",
        layers.MultiHeadAttention,
        {**FUSED, "relative_positions": positions.RelativePositions(2), "qk_norm": True},
        by_content=False,
    ),
    Case("fused_grouped_query", layers.GroupedQueryAttention, {**FUSED, "num_heads": 4, "num_key_value_heads": 2}),
]
EVERY = sample(ALL, SAMPLE)


EXPORTED = [
    *EVERY,
    Case("buckets", layers.MultiHeadAttention, {**SIZES, "relative_positions": positions.BucketPositions(8, 20)}),
    Case("window", layers.TalkingHeadsAttention, {**SIZES, "sliding_window": 2}),
]


def layer_with(case, weights, query, value, key, **arguments):
    """Built with zeros, as JAX would compile a random initializer for each shape."""
    layer = case.make(kernel_initializer="zeros", **arguments)
    layer.build(query.shape, value.shape, key.shape)
    layer.set_weights(weights)
    return layer


def cross_mask():
    """With a query that may attend to nothing, on the fused path and on the other."""
    mask = random_mask((BATCH, QUERIES, KEYS))
    mask[1, 2] = False
    return mask


def results(case, weights):
    """Name to array: outputs and scores of cross-attention."""
    query, value, key = cross_inputs()
    layer, mask = layer_with(case, weights, query, value, key), cross_mask()
    out = {"plain": layer(query, value, key), "masked": layer(query, value, key, attention_mask=mask)}
    both = layer(query, value, key, attention_mask=mask, return_attention_scores=True)
    out["with_scores"], out["scores"] = both
    bias = np.linspace(-1.0, 1.0, KEYS, dtype="float32")[None, None, None]
    out["biased"] = layer(query, value, key, attention_mask=mask, bias=bias)
    out["causal"] = layer(query, value, key, use_causal_mask=True, value_mask=mask[:, 0])
    queries, keys = np.arange(QUERIES) < [[QUERIES], [2]], np.arange(KEYS) < [[3], [KEYS]]
    by_pair = random_mask((1, layer.softmax_heads, QUERIES, KEYS)), np.linspace(-1.0, 1.0, QUERIES * KEYS)
    every = {"query_mask": queries, "key_mask": keys, "attention_mask": by_pair[0]}
    out["all_masks"] = layer(query, value, key, **every, bias=by_pair[1].reshape(1, 1, QUERIES, KEYS))
    if case.causal:
        out["cross_cached"] = layer(query, cache=layer.project_cache(value, key), key_mask=mask[:, 0])
    return out


def refused(case, weights):
    """A mask in place of a bias; its values are known outside compiled programs alone."""
    query, value, key = cross_inputs()
    layer, mask = layer_with(case, weights, query, value, key), cross_mask()
    try:
        layer(query, value, key, bias=np.where(mask, 0.0, -1e9)[:, None])
    except ValueError:
        return {"refused": np.array(True)}
    return {"refused": np.array(False)}


def decoded(case, weights):
    """Step by step and all at once; and two sequences packed into one."""
    x = self_input(length=LENGTH)
    layer = layer_with(case, weights, x, x, x)
    cache, steps = layer.init_cache(BATCH, LENGTH), []
    for i in range(LENGTH):
        piece = x[:, i : i + 1]
        output, cache = layer(piece, piece, cache=cache, index=i, use_causal_mask=True)
        steps.append(output)
    out = {"steps": keras.ops.concatenate(steps, axis=1), "at_once": layer(x, x, use_causal_mask=True)}
    if not layer.rows_interact:
        out["packed"] = layer(x, x, segment_ids=np.array([[1, 1, 2, 2], [1, 2, 2, 2]]))
    return out


def half(case, weights):
    """float16: the query that may attend to nothing must give zeros there as well."""
    query, value, key = cross_inputs()
    layer = layer_with(case, weights, query, value, key, dtype="mixed_float16")
    return {"half": layer(query, value, key, attention_mask=cross_mask())}


def gradients(given):
    """Of all cases at once, as a model is compiled once: what a step of training takes off the weights."""
    sizes = (QUERIES, QUERY_WIDTH), (KEYS, VALUE_WIDTH), (KEYS, KEY_WIDTH)
    inputs, mask = [keras.Input(size) for size in sizes], keras.Input((QUERIES, KEYS), dtype="bool")
    cases = [case for case in EVERY if case.alike_in_training]
    attentions = [case.make(kernel_initializer="zeros") for case in cases]
    outputs = keras.layers.Concatenate()([layer(*inputs, attention_mask=mask) for layer in attentions])
    for case, layer in zip(cases, attentions, strict=True):
        layer.set_weights(of_case(given, case, "cross"))
    model = keras.Model([*inputs, mask], outputs)
    on_jax = keras.backend.backend() == "jax"
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=on_jax, run_eagerly=not on_jax)
    before = [layer.get_weights() for layer in attentions]
    model.train_on_batch([*cross_inputs(), cross_mask()], np.ones((BATCH, QUERIES, outputs.shape[-1])))
    return {
        f"{case.name}/gradient/{i:02}": old - new
        for case, layer, weights in zip(cases, attentions, before, strict=True)
        for i, (old, new) in enumerate(zip(weights, layer.get_weights(), strict=True))
    }


def exported(case):
    """Of a model for any length, what PyTorch answers and what its ONNX file does, for two lengths."""
    inputs = keras.Input((None, QUERY_WIDTH)), keras.Input((None, None), dtype="bool"), keras.Input((1, None, None))
    layer = case.make()
    model = keras.Model(inputs, layer(inputs[0], inputs[0], attention_mask=inputs[1], bias=inputs[2]))
    randomize(layer)
    return answers(model, {length: pairs_of(length) for length in (1, QUERIES)})


def exported_convolution():
    """The same of images, in batches of 1 and of another size."""
    inputs = keras.Input((6, 7, QUERY_WIDTH))
    layer = layers.AugmentedConv2D(20, 3, layers.MultiHeadAttention(**FUSED), strides=2, downsample=True)
    model = keras.Model(inputs, layer(inputs))
    randomize(layer)
    images = np.random.default_rng(0).normal(size=(QUERIES, 6, 7, QUERY_WIDTH)).astype("float32")
    return answers(model, {size: [images[:size]] for size in (1, QUERIES)})


def answers(model, given, signature=None):
    """Each tensor that a model and its ONNX file answer to inputs of each size."""
    import onnxruntime

    outputs = {size: keras.tree.flatten(model(inputs)) for size, inputs in given.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        model.export(path, format="onnx", verbose=False, input_signature=signature)
        session = onnxruntime.InferenceSession(path)
    names = [node.name for node in session.get_inputs()]
    out = {}
    for size, inputs in given.items():
        run = session.run(None, dict(zip(names, keras.tree.flatten(inputs), strict=True)))
        for i, (eager, exported) in enumerate(zip(outputs[size], run, strict=True)):
            out |= {f"eager_{size}/{i}": eager, f"exported_{size}/{i}": exported}
    return out


def pairs_of(length):
    """A sequence, a mask and a bias."""
    bias = np.linspace(-1.0, 1.0, BATCH * length * length, dtype="float32")
    mask = random_mask((BATCH, length, length))
    return [self_input(length=length), mask, bias.reshape(BATCH, 1, length, length)]


def written_rows():
    """A cache after one and after two rows are written: on JAX axes are easily swapped when n = batch."""
    rng = np.random.default_rng(0)
    cache, rows = (rng.normal(size=(BATCH, 3, n, 5)).astype("float32") for n in (4, 3))
    pieces = ((1, 0), (2, 1), (3, 1))
    return {
        f"write_rows/{n}_at_{index}": write_rows(cache, rows[:, :, :n], row_indices(rows[:, :, :n], index))
        for n, index in pieces
    }


def of_any_length():
    """Models for sequences of any length."""
    out, x = {}, self_input(length=7)
    window, chunks = {"sliding_window": 2}, {"query_chunk_size": 3}
    for name, arguments in {"window": window, "chunks": chunks, "both": window | chunks, "synthesizer": {}}.items():
        inputs = keras.Input((None, QUERY_WIDTH))
        kind = layers.SynthesizerAttention if name == "synthesizer" else layers.MultiHeadAttention
        layer = kind(HEADS, KEY_DIM, **arguments)
        model = keras.Model(inputs, layer(inputs, inputs))
        randomize(layer)
        out[f"any_length/{name}"] = model(x)
    return out


def of_case(given, case, kind):
    return [given[name] for name in sorted(given) if name.startswith(f"{case.name}/{kind}/")]


def as_one_program(compute, *arguments):
    """Calls a function; on JAX as one program, as it takes longer to compile each operation."""
    if keras.backend.backend() != "jax":
        return compute(*arguments)
    import jax

    return jax.jit(lambda: compute(*arguments))()


def arrays(name, compute, *arguments, prefix=""):
    """Results as arrays; an exception becomes the result `name/error`, so that the others are still compared."""
    try:
        return {prefix + key: array(value) for key, value in compute(*arguments).items()}
    except Exception as error:
        return {f"{name}/error": np.array(f"{type(error).__name__}: {error}")}


def everything(folder):
    """All results of all cases, with the weights of a file."""
    with np.load(folder / "weights.npz") as file:
        given = dict(file)
    out = arrays("write_rows", written_rows) | arrays("gradients", gradients, given)
    out |= arrays("any_length", of_any_length)
    if keras.backend.backend() == "torch":
        for case in EXPORTED:
            out |= arrays(f"onnx/{case.name}", exported, case, prefix=f"onnx/{case.name}/")
        out |= arrays("onnx/convolution", exported_convolution, prefix="onnx/convolution/")
    for case in EVERY:
        prefix, weights = f"{case.name}/", of_case(given, case, "cross")
        functions = [(results, weights), (half, weights)]
        functions += [(decoded, of_case(given, case, "self"))] if case.causal else []
        for function, own in functions:
            run = (function,) if case is EVERY[0] else (as_one_program, function)
            out |= arrays(prefix + function.__name__, *run, case, own, prefix=prefix)
        out |= arrays(f"{prefix}refused", refused, case, weights, prefix=prefix)
    if keras.backend.backend() != "tensorflow":  # which has no fused kernel
        out |= {f"kernels/{name}": result for name, result in fused_worker.everything().items()}
    return out
