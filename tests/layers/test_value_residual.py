"""Value residual: the equation, chains of layers, caches, language models and other models, files, wrong arguments."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.analysis import prune_heads
from keras_headattn.models import Bert, CausalLM, ModernBert, Transformer, ViT
from keras_headattn.positions import RotaryPositions
from tests.layers import oracles
from tests.layers.harness import BATCH, HEADS, KEY_DIM, array, build, check_close, random_mask, randomize, self_input
from tests.layers.oracles_variants import DOUBLE, attention, grouped_query
from tests.refusals import refused

KINDS = {
    "multi_head": (layers.MultiHeadAttention, {}),
    "grouped_query": (layers.GroupedQueryAttention, {"num_heads": 4, "num_key_value_heads": 2}),
    "paired_heads": (layers.PairedHeadsAttention, {"num_heads": 4}),
    "interleaved": (layers.InterleavedHeadAttention, {}),
    "exclusive": (layers.MultiHeadAttention, {"exclusive": True, "relative_positions": RotaryPositions()}),
    "chunks": (layers.MultiHeadAttention, {"query_chunk_size": 2, "sliding_window": 3}),
}
each_kind = pytest.mark.parametrize("name", KINDS)
RESIDUAL = {"value_residual": True}
IDS = np.random.default_rng(0).integers(0, 11, (2, 7)).astype("int32")


def make(name="multi_head", depth=0, **options):
    layer, own = KINDS[name]
    sizes = {"num_heads": HEADS, "key_dim": KEY_DIM, "dtype": "float64", "role": "decoder"}
    return layer(**{**sizes, **own, "value_residual": True, "depth": depth, **options})


def run(chain, x, **call):
    """The output after a chain of layers, with the first one's values in each."""
    values = None
    for layer in chain:
        x, values, *_ = layer(x, x, first_values=values, return_first_values=True, **call)
    return x


def language_model(**arguments):
    arguments = {"num_heads": 2, "attention_arguments": RESIDUAL, **arguments}
    model = CausalLM(11, 3, 16, intermediate_dim=12, seed=0, **arguments)
    model.build()
    return randomize(model)


@pytest.mark.parametrize("name", ["multi_head", "grouped_query"])
def test_equation(name):
    """l_1 V + l_2 V_1, one sentence at a time."""
    x, y = (self_input(seed, dtype="float64") for seed in (0, 1))
    first, second = build(make(name), x), build(make(name, depth=1), x, seed=2)
    mask = random_mask((BATCH, 1, 5, 5))
    plain, values = first(x, x, attention_mask=mask, return_first_values=True)
    weights = oracles.named_weights(first)
    check_close(plain, attention(grouped_query, weights, x, x, mask=mask)[0], DOUBLE)
    result = second(y, y, attention_mask=mask, first_values=values)
    for b in range(BATCH):

        def equation(weights, query, key, value, mask, b=b, **options):
            own, others = weights["value_lambdas"]
            mixed = own * value + others * oracles.project(oracles.named_weights(first), "value", x[b])
            return grouped_query(weights, query, key, mixed, mask, **options)

        one = slice(b, b + 1)
        expected, _ = attention(equation, oracles.named_weights(second), y[one], y[one], mask=mask[one])
        check_close(result[one], expected, DOUBLE)


@each_kind
def test_decoding(name):
    """Step by step as at once, with the first values of the new tokens alone; a cache holds mixed values."""
    x = self_input(dtype="float64", length=6)
    chain = [build(make(name, depth), x, seed=depth + 1) for depth in range(3)]
    expected = array(run(chain, x, use_causal_mask=True))
    for size in (1, 2, 6):
        caches = [layer.init_cache(BATCH, 6) for layer in chain]
        for i in range(0, 6, size):
            y, values = x[:, i : i + size], None
            for j, layer in enumerate(chain):
                call = {"cache": caches[j], "index": i, "use_causal_mask": True, "return_first_values": True}
                y, values, caches[j] = layer(y, y, first_values=values, **call)
            check_close(y, expected[:, i : i + size], DOUBLE)


@each_kind
def test_the_start(name):
    """Both shares are a half; with those of 1 and 0 a layer is one without."""
    x = self_input(dtype="float64")
    layer, plain = make(name, 1), build(make(name, value_residual=False), x)
    layer.build(x.shape, x.shape)
    assert array(layer.value_lambdas).tolist() == [0.5, 0.5]
    names = {weight.path.split("/", 1)[1]: weight for weight in plain.weights}
    for weight in layer.weights:
        weight.assign(names.get(weight.path.split("/", 1)[1], [1.0, 0.0]))
    values = np.ones((BATCH, layer.projections["value"][0], 5, KEY_DIM))
    check_close(layer(x, x, first_values=values), plain(x, x), DOUBLE)
    assert len(make(name).get_config()) == len(plain.get_config())


@pytest.mark.parametrize("arguments", [
    {}, {"attention": "evolving"}, {"attention": ["grouped_query", "talking_heads"], "num_heads": 1},
], ids=str)  # fmt: skip
def test_language_models(arguments):
    """Prefilled and step by step as at once, and nothing of the future."""
    model = language_model(**arguments)
    assert [hasattr(block.attention, "value_lambdas") for block in model.blocks] == [False, True, True]
    logits = array(model(IDS))
    result, cache = model.prefill(IDS[:, :4], model.init_cache(2, 7), chunk_size=3)
    np.testing.assert_allclose(result, logits[:, 3], atol=1e-4)
    for i in range(4, 7):
        result, cache = model.decode_step(IDS[:, i : i + 1], cache, i, kernels=model.decoding_kernels())
        np.testing.assert_allclose(array(result)[:, 0], logits[:, i], atol=1e-4)
    changed = np.concatenate([IDS[:, :6], 10 - IDS[:, :1]], axis=1)
    np.testing.assert_allclose(model(changed)[:, :6], logits[:, :6], atol=1e-5)


def test_gradients_reach_the_first_values():
    """Of all weights, and the same if blocks are computed again."""
    gradients = []
    for recompute in (False, True):
        model = language_model(recompute=recompute)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(model(IDS, training=True)))
        gradients.append(tape.gradient(loss, [weight.value for weight in model.trainable_weights]))
    for one, other in zip(*gradients, strict=True):
        check_close(one, other, 1e-5)
    model.blocks[1].attention.value_lambdas.assign([1.0, 0.0])
    model.blocks[2].attention.value_lambdas.assign([1.0, 0.0])
    plain = language_model(attention_arguments={})
    weights = {weight.path.partition("/")[2]: weight for weight in model.weights}
    for weight in plain.weights:
        weight.assign(weights[weight.path.partition("/")[2]])
    np.testing.assert_allclose(model(IDS), plain(IDS), atol=1e-5)


def test_files(tmp_path):
    model = language_model()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(IDS)), array(model(IDS)))


def test_heads_are_removed_from_all_blocks_alike():
    model = language_model()
    importance = {block.attention.path: [i, 1.5] for i, block in enumerate(model.blocks)}
    pruned = prune_heads(model, importance, 0.5)
    for block, smaller in zip(model.blocks, pruned.blocks, strict=True):
        kernel = array(block.attention.value_dense.kernel)
        np.testing.assert_array_equal(smaller.attention.value_dense.kernel, kernel[:, 1:])


SIZES = {"num_layers": 3, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 10}
SIZES["attention"] = layers.MultiHeadAttention(3, 4, value_residual=True)


@pytest.mark.parametrize("make_model, inputs", [
    (lambda: Bert(13, max_length=9, **SIZES), IDS),
    (lambda: ModernBert(13, **SIZES), IDS),
    (lambda: ViT((4, 4, 3), patch_size=2, classes=3, **SIZES), np.ones((2, 4, 4, 3))),
    (lambda: Transformer(13, **SIZES), {"source": IDS, "target": IDS}),
], ids=["bert", "modern_bert", "vit", "transformer"])  # fmt: skip
def test_models(make_model, inputs):
    """All blocks but the first of a stack have the weights; attention to the encoder has none."""
    model = make_model()
    model(inputs)
    paths = [weight.path for weight in model.weights if weight.name == "value_lambdas"]
    assert len(paths) == (4 if isinstance(model, Transformer) else 2) and not any("cross" in path for path in paths)


def test_refused():
    x = self_input(dtype="float64")
    for options in ({"role": None}, {"depth": None}, {"role": "cross"}):
        with refused("value_residual", ", ".join(f"{name}={value!r}" for name, value in options.items())):
            build(make(**{"depth": 1, **options}), x)
    layer = build(make(depth=1), x)
    for values in (None, np.ones((BATCH, HEADS, 4, KEY_DIM)), np.ones((BATCH, HEADS, 5, 1)), x):
        with refused("first_values", f"first_values of shape {None if values is None else values.shape}"):
            layer(x, x, first_values=values)
    with refused("multi-head", "MultiHeadAttention with value_residual=True"):
        layers.absorb(layer)
    with refused("first_values", "None"):
        layers.EncoderBlock(layers.MultiHeadAttention(3, 4, value_residual=True), 8, depth=1)(x)
