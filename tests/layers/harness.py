"""The attention layers under test, tiny inputs for them, and how a layer is built and run.

A new attention layer joins every test of this folder with one line in `CASES`. Nothing here imports a
backend, so that the same cases also run in a process with another one.
"""

import dataclasses

import keras
import numpy as np
import pytest

from keras_headattn import layers, positions

BATCH, QUERIES, KEYS = 2, 5, 7
QUERY_WIDTH, KEY_WIDTH, VALUE_WIDTH = 12, 9, 15
HEADS, KEY_DIM, VALUE_DIM = 3, 4, 5


@dataclasses.dataclass(frozen=True)
class Case:
    """One layer class with its arguments.

    Args:
        name: how tests are called.
        layer: the class.
        arguments: constructor arguments.
        map_axes: the axes of the attention scores between batch and queries.
        mask_heads: size of the head axis of an attention mask; `None` if masks may not differ by head.
        causal: whether under the causal mask a row of the output depends on no later row.
        by_content: whether a token means the same in any row of the queries, and in any of the keys.
        alike_in_training: whether, but for dropout, the weights in training are those of later.
        rows_sum_to_one: whether the weights of a query do.
        key_bias_cancels: whether the bias of keys adds the same to every logit of a query, so that it changes nothing.
        has_output: whether the heads go through a projection.
    """

    name: str
    layer: type
    arguments: dict
    map_axes: tuple = (HEADS,)
    mask_heads: int | None = HEADS
    causal: bool = True
    by_content: bool = True
    alike_in_training: bool = True
    rows_sum_to_one: bool = True
    key_bias_cancels: bool = True
    has_output: bool = True

    def make(self, **overrides):
        return self.layer(**{**self.arguments, **overrides})


SIZES = {"num_heads": HEADS, "key_dim": KEY_DIM, "value_dim": VALUE_DIM}
ONE_HEAD = {"key_dim": KEY_DIM, "value_dim": VALUE_DIM}
GROUPED = {**SIZES, "num_heads": 4, "num_key_value_heads": 2}
TALKING = {**SIZES, "key_heads": 2, "value_heads": 4}
PAIRWISE = {**SIZES, "interaction": "pairwise"}
EVOLVING = {**SIZES, "alpha": 0.0, "beta": 0.4}  # without a chain each layer convolves
SYNTHESIZER = {**SIZES, "max_length": 3000, "mixture": ("dense", "dot_product")}
DISENTANGLED = {**SIZES, "num_clusters": 2, "centre_gradient": 1.0}
KNOCKING = {**GROUPED, "knocking": ("query", "key", "value")}
COMPONENTS = {**SIZES, "num_components": 2}
TOKENS = {**SIZES, "logits_kernel_size": (3, 5), "weights_kernel_size": (2, 3), "mix_logits": True, "mix_weights": 3}
INTERLEAVED = {**SIZES, "num_pseudo_tokens": 2}
PAIRED = {**SIZES, "num_heads": 4}
OPTIONS = {**SIZES, "qk_norm": True, "attn_logits_soft_cap": 5.0, "use_sinks": True}
GRAPH = {"num_heads": HEADS, "key_dim": KEY_DIM, "use_bias": True}
RELATIVE = {**SIZES, "relative_positions": positions.RelativePositions(2)}

CASES = [
    Case("multi_head", layers.MultiHeadAttention, SIZES),
    Case("gated", layers.MultiHeadAttention, {**SIZES, "use_gate": True}),
    Case("talking", layers.TalkingHeadsAttention, SIZES, rows_sum_to_one=False),
    Case("talking_2_3_4", layers.TalkingHeadsAttention, TALKING, (4,), rows_sum_to_one=False),
    Case("interacting_sum", layers.InteractingHeadAttention, SIZES),
    Case("interacting_pairwise", layers.InteractingHeadAttention, PAIRWISE, (HEADS, HEADS), None),
    *(
        Case(f"luong_{score}", layers.LuongAttention, {**ONE_HEAD, "score_mode": score}, (1,), 1)
        for score in ("dot", "general")
    ),
    Case(
        "luong_concat",
        layers.LuongAttention,
        {**ONE_HEAD, "score_mode": "concat"},
        (1,),
        1,
        key_bias_cancels=False,
    ),
    Case("evolving", layers.EvolvingAttention, EVOLVING, causal=False, by_content=False, key_bias_cancels=False),
    Case(
        "evolving_decoder",
        layers.EvolvingAttention,
        {**EVOLVING, "role": "decoder"},
        by_content=False,
        key_bias_cancels=False,
    ),
    Case("disentangled", layers.DisentangledMaskAttention, DISENTANGLED),
    Case(
        "disentangled_decoder",
        layers.DisentangledMaskAttention,
        {**DISENTANGLED, "role": "decoder"},
        alike_in_training=False,
    ),
    Case("synthesizer", layers.SynthesizerAttention, SYNTHESIZER, by_content=False),
    Case("relative", layers.MultiHeadAttention, RELATIVE, by_content=False),
    Case(
        "rotary",
        layers.MultiHeadAttention,
        {**SIZES, "relative_positions": positions.RotaryPositions()},
        by_content=False,
        key_bias_cancels=False,
    ),
    Case("options", layers.MultiHeadAttention, OPTIONS, rows_sum_to_one=False, key_bias_cancels=False),
    Case("grouped_query", layers.GroupedQueryAttention, GROUPED, (4,), 4),
    Case("multi_query", layers.GroupedQueryAttention, {**SIZES, "value_dim": KEY_DIM}),
    Case(
        "dynamically_composable",
        layers.DynamicallyComposableAttention,
        SIZES,
        rows_sum_to_one=False,
        key_bias_cancels=False,
    ),
    Case("differential", layers.DifferentialAttention, SIZES, mask_heads=2 * HEADS, rows_sum_to_one=False),
    Case("differential_per_token", layers.DifferentialAttention, {**SIZES, "per_token": True}, (2 * HEADS,), 2 * HEADS),
    Case("mixture_of_heads", layers.MixtureOfHeadsAttention, {**SIZES, "num_heads": 4}, (4,), 4),
    Case("re_attention", layers.ReAttention, SIZES, alike_in_training=False, rows_sum_to_one=False),
    Case("gated_by_head", layers.MultiHeadAttention, {**SIZES, "use_gate": "head"}),
    Case("knocking_heads", layers.KnockingHeadsAttention, {**SIZES, "knocking": ("query", "key", "value_mlp")}),
    Case("knocking_heads_linear", layers.KnockingHeadsAttention, KNOCKING, (4,), 4),
    Case("multi_head_explicit", layers.MultiHeadExplicitAttention, COMPONENTS),
    Case("collaborative", layers.CollaborativeAttention, {**SIZES, "shared_dim": 7}, key_bias_cancels=False),
    Case(
        "multi_token",
        layers.MultiTokenAttention,
        TOKENS,
        by_content=False,
        rows_sum_to_one=False,
        key_bias_cancels=False,
    ),
    Case(
        "multi_token_normed",
        layers.MultiTokenAttention,
        {**TOKENS, "head_norm": "depth", "output_gate": True},
        by_content=False,
        rows_sum_to_one=False,
        key_bias_cancels=False,
    ),
    Case("interleaved", layers.InterleavedHeadAttention, INTERLEAVED, (2 * HEADS,), key_bias_cancels=False),
    Case("paired_heads", layers.PairedHeadsAttention, PAIRED, (4,), 4, key_bias_cancels=False),
    Case("talking_chunks", layers.TalkingHeadsAttention, {**SIZES, "query_chunk_size": 2}, rows_sum_to_one=False),
    Case("relative_chunks", layers.MultiHeadAttention, {**RELATIVE, "query_chunk_size": 2}, by_content=False),
    Case("real_former", layers.RealFormerAttention, SIZES),
    Case("graph", layers.GraphAttention, GRAPH, has_output=False),
]


def each(cases):
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


# Without the cases whose stages are those of another case.
ALIKE = ("gated", "gated_by_head", "luong_general", "luong_concat", "talking_2_3_4", "multi_query")
ALIKE += ("knocking_heads_linear", "multi_token_normed")
KINDS = [case for case in CASES if case.name not in ALIKE]
COMPUTATIONS = [case for case in CASES if case in KINDS or case.layer is layers.LuongAttention]
CAUSAL = [case for case in KINDS if case.causal]
# The base as it is, and a layer for each stage that one replaces: `score`, `evolve`, `weigh`, `mix`, `attend`.
PATHS = ("multi_head", "luong_dot", "evolving", "talking", "differential", "interacting_pairwise")

# A test takes `each_layer` where an argument of a layer may change the result: equations, gradients, configuration.
# It takes `each_kind` where a stage may: shapes, masks, caches, models.
# It takes `each_computation` where operations may, also those of each score of Luong attention: dtypes, compilation.
# It takes `each_path` where the base does all, before or after the stages: forms of masks, errors, the last axes.
each_layer = each(CASES)
each_kind = each(KINDS)
each_computation = each(COMPUTATIONS)
each_path = each([case for case in CASES if case.name in PATHS])
each_causal_layer = each(CAUSAL)
each_layer_by_content = each([case for case in KINDS if case.by_content])


def cross_inputs(seed=0, dtype="float32", keys=KEYS):
    """Query, value and key of different lengths and widths."""
    rng = np.random.default_rng(seed)
    shapes = (BATCH, QUERIES, QUERY_WIDTH), (BATCH, keys, VALUE_WIDTH), (BATCH, keys, KEY_WIDTH)
    return tuple(rng.normal(size=shape).astype(dtype) for shape in shapes)


def self_input(seed=0, dtype="float32", length=QUERIES):
    return np.random.default_rng(seed).normal(size=(BATCH, length, QUERY_WIDTH)).astype(dtype)


def build(layer, query, value=None, key=None, seed=1):
    """Builds `layer` for these inputs and gives it seeded weights, biases too, none of them zero."""
    value = query if value is None else value
    layer.build(query.shape, value.shape, value.shape if key is None else key.shape)
    return randomize(layer, seed)


def randomize(layer, seed=1):
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(scale=0.4, size=variable.shape))
    for variable in layer.non_trainable_variables:
        if variable.name == "steps":
            variable.assign(10_000)  # what begins with training has begun
    return layer


def copy_weights(source, target):
    """Those that both have; by the path within the layer, as the order differs between layers."""
    values = {variable.path.split("/", 1)[1]: variable for variable in source.weights}
    for variable in target.weights:
        if variable.path.split("/", 1)[1] in values:
            variable.assign(values[variable.path.split("/", 1)[1]])


def array(tensor):
    """A NumPy array; the half-precision types as float32."""
    result = keras.ops.convert_to_numpy(tensor)
    return result if result.dtype in ("float32", "float64", "bool") else result.astype("float32")


def output_bias(layer):
    """What a query that attends to nothing gets."""
    found = [array(variable) for variable in layer.weights if "attention_output/bias" in variable.path]
    return found[0] if found else np.zeros(QUERY_WIDTH, "float32")


def check_close(actual, expected, tolerance=2e-6):
    """Equal up to `tolerance`, relative to the largest expected number."""
    actual, expected = array(actual), array(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


def check_slopes(loss, variables, gradients, step=1e-5, **tolerance):
    """Compares two coordinates of each gradient, an array, with differences of `loss()` in float64."""
    rng = np.random.default_rng(9)
    for variable, gradient in zip(variables, gradients, strict=True):
        start = variable.numpy()
        for i in rng.integers(start.size, size=2):
            shift = np.where(np.arange(start.size) == i, step, 0.0).reshape(start.shape)
            variable.assign(start + shift)
            above = float(loss())
            variable.assign(start - shift)
            slope = (above - float(loss())) / (2 * step)
            variable.assign(start)
            assert gradient.flat[i] == pytest.approx(slope, **tolerance), variable.name


def random_mask(shape, seed=3):
    """Boolean, about a third False, at least one True in each row."""
    rng = np.random.default_rng(seed)
    mask = rng.random(shape) > 0.35
    np.put_along_axis(mask, rng.integers(shape[-1], size=shape[:-1])[..., None], True, axis=-1)
    return mask
