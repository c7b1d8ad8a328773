"""Decoder-only language models with every attention: equations, causality, caches, documents, training, sizes."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.decoding import Generator
from keras_headattn.layers import ATTENTIONS, FeedForward, GroupedQueryAttention, MultiHeadAttention
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import CAUSAL_SIZES, CausalLM
from keras_headattn.positions import ALiBiPositions, RotaryPositions
from keras_headattn.training import Model, make_strategy
from tests.layers.harness import array, check_close, randomize
from tests.models.test_block_equations import Weights

VOCABULARY, WIDTH, HEADS, LENGTH, ROOM = 11, 16, 4, 9, 14
TOLERANCE = 1e-5
IDS = np.random.default_rng(0).integers(0, VOCABULARY, (2, LENGTH)).astype("int32")
NAMES = [name for name in ATTENTIONS if name not in ("re_attention", "graph")]
UNROTATED = ("collaborative", "synthesizer")
WITHOUT_DOCUMENTS = ("evolving", "synthesizer")
ARGUMENTS = {
    "grouped_query": {"num_key_value_heads": 2},
    "multi_token": {"mix_logits": True, "mix_weights": 2, "logits_kernel_size": (3, 3)},
    "differential": {"num_heads": 2},
    "luong": {"num_heads": 1},
    "evolving": {"alpha": 0.4, "beta": 0.3, "convolve_first": True},
}
CASES = [(name, positions) for name in NAMES for positions in ("learned", "rotary")]
CASES = [(name, positions) for name, positions in CASES if positions == "learned" or name not in UNROTATED]
each_case = pytest.mark.parametrize("name, positions", CASES)


def make(name="multi_head", positions="rotary", weights_seed=1, **arguments):
    """A built model, all of whose weights are seeded random numbers."""
    given = {"positions": positions, "max_length": ROOM}
    sizes = dict(vocabulary_size=VOCABULARY, num_layers=2, hidden_dim=WIDTH, intermediate_dim=12, num_heads=HEADS)
    heads = {} if not isinstance(name, str) else {"attention_arguments": ARGUMENTS.get(name)}
    model = CausalLM(**{**sizes, "attention": name, **heads, **given, **arguments})
    model.build()
    return randomize(model, weights_seed)


@functools.cache
def shared(name="multi_head", positions="rotary"):
    """The model of `make`, for all tests that only read it."""
    return make(name, positions)


# ------------------------------------------------------------------------------------------------- equations


def rms_norm(weights, x):
    return weights["scale"] * x / np.sqrt((x**2).mean() + 1e-6)


def rotated(head, position):
    """Pairs (i, i + d / 2) as complex numbers, turned by the position times 10,000 ** (-2 i / d)."""
    half = len(head) // 2
    turned = (head[:half] + 1j * head[half:]) * np.exp(1j * position * 10_000.0 ** (-np.arange(half) / half))
    return np.concatenate([turned.real, turned.imag])


def attention(weights, x, rotate):
    """One head and one query at a time, which sees itself and what is before it: (n, D) -> (n, D)."""
    heads, width = weights["query/bias"].shape
    output = np.tile(weights["attention_output/bias"], (len(x), 1))
    for h in range(heads):
        query, key, value = (
            x @ weights[f"{name}/kernel"][:, h] + weights[f"{name}/bias"][h] for name in ("query", "key", "value")
        )
        if rotate:
            query, key = (np.stack([rotated(row, i) for i, row in enumerate(each)]) for each in (query, key))
        for i in range(len(x)):
            exponents = np.exp(key[: i + 1] @ query[i] / np.sqrt(width))
            output[i] += exponents / exponents.sum() @ value[: i + 1] @ weights["attention_output/kernel"][h]
    return output


def feed_forward(weights, x):
    hidden = x @ weights["inner/kernel"] + weights["inner/bias"]
    hidden *= 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
    return hidden @ weights["outer/kernel"] + weights["outer/bias"]


def block(weights, x, normalization, rotate):
    def norm(name, x):
        return np.stack([rms_norm(weights.within(f"{name}_norm"), row) for row in x])

    def attend(x):
        return attention(weights.within("attention"), x, rotate)

    def feed(x):
        return feed_forward(weights.within("feed_forward"), x)

    if normalization == "parallel":
        return x + attend(norm("attention", x)) + feed(norm("feed_forward", x))
    for name, sublayer in (("attention", attend), ("feed_forward", feed)):
        if normalization == "pre":
            x = x + sublayer(norm(name, x))
        elif normalization == "post":
            x = norm(name, x + sublayer(x))
        elif normalization == "output":
            x = x + norm(f"{name}_output", sublayer(x))
        else:
            x = x + norm(f"{name}_output", sublayer(norm(name, x)))
    return x


def language_model(model, ids, positions):
    """Logits of one text by the equations."""
    weights = Weights(model)
    table = weights["token_embedding/embeddings"]
    x = table[ids] * (model.embedding_scale or 1)
    if positions == "learned":
        x = x + weights["position_embedding/embeddings"][: len(ids)]
    for i in range(model.num_layers):
        x = block(weights.within(f"block_{i}"), x, model.normalization, positions == "rotary")
    if model.normalization != "post":
        x = np.stack([rms_norm(weights.within("final_norm"), row) for row in x])
    kernel = table.T if model.tie_output else weights["output_projection/kernel"]
    bias = weights["output_bias" if model.tie_output else "output_projection/bias"] if model.output_bias else 0
    cap = model.logits_soft_cap
    return cap * np.tanh((x @ kernel + bias) / cap) if cap else x @ kernel + bias


@pytest.mark.parametrize("positions", ["learned", "rotary", None])
@pytest.mark.parametrize("arguments", [
    {},
    {"normalization": "parallel", "tie_output": False},
    {"normalization": "sandwich", "logits_soft_cap": 3.0, "embedding_scale": 4.0},
    {"normalization": "output", "output_bias": True},
    {"normalization": "post", "tie_output": False, "output_bias": True},
], ids=["pre", "parallel", "sandwich", "output", "post"])  # fmt: skip
def test_equations(arguments, positions):
    model = make(positions=positions, **arguments)
    expected = [language_model(model, row, positions) for row in IDS]
    check_close(model(IDS), np.stack(expected), 5e-6)
    last, _ = model.prefill(IDS, model.init_cache(2, LENGTH))
    check_close(last, np.stack(expected)[:, -1], 5e-6)


# --------------------------------------------------------------------------------------- causality and caches


@each_case
def test_nothing_of_the_future(name, positions):
    model, other = shared(name, positions), IDS.copy()
    other[:, 5:] = (other[:, 5:] + 1) % VOCABULARY
    for training in (False, True):
        outputs = []
        for ids in (IDS, other):
            before = model.get_weights()
            outputs.append(array(model(ids, training=training)))
            model.set_weights(before)  # statistics of training
        np.testing.assert_array_equal(outputs[0][:, :5], outputs[1][:, :5])
        assert not np.allclose(outputs[0][:, 5:], outputs[1][:, 5:])


def go_on(model, cache, ids, index, kernels=None):
    """Logits of the tokens from `index` on, one a step."""
    logits = []
    for i in range(index, ids.shape[1]):
        step, cache = model.decode_step(ids[:, i : i + 1], cache, i, kernels=kernels)
        logits.append(array(step))
    return np.concatenate(logits, axis=1)


@each_case
def test_prefill_and_steps(name, positions):
    model = shared(name, positions)
    expected = array(model(IDS))
    for chunk_size in (1, 7, 512):
        kernels = model.decoding_kernels() if chunk_size == 7 else None
        cache = model.init_cache(2, ROOM, kernels)
        last, cache = model.prefill(IDS[:, :-2], cache, chunk_size=chunk_size, kernels=kernels)
        check_close(last, expected[:, -3], TOLERANCE)
        check_close(go_on(model, cache, IDS, LENGTH - 2, kernels), expected[:, -2:], TOLERANCE)


@pytest.mark.parametrize("name, positions", [case for case in CASES if case[0] not in WITHOUT_DOCUMENTS])
def test_padding_on_the_left(name, positions):
    """Prompts of 7 and of 4 tokens, each of which goes on for two."""
    model, prompts = shared(name, positions), IDS[:, :7].copy()
    prompts[1] = np.roll(prompts[1], 3)
    last, cache = model.prefill(prompts, model.init_cache(2, ROOM), first=np.array([0, 3]), chunk_size=4)
    later = go_on(model, cache, np.concatenate([prompts, IDS[:, 7:]], axis=1), 7)
    for row, text in enumerate((IDS[:1], np.concatenate([IDS[1:, :4], IDS[1:, 7:]], axis=1))):
        expected = array(model(text))[0]
        check_close(last[row], expected[-3], TOLERANCE)
        check_close(later[row], expected[-2:], TOLERANCE)


@pytest.mark.parametrize("name, positions", [case for case in CASES if case[0] not in WITHOUT_DOCUMENTS])
def test_documents_in_a_row(name, positions):
    model = shared(name, positions)
    documents = np.array([[3] * 4 + [5] * 5, [0] * 2 + [1] * 5 + [-1] * 2])
    logits = array(model({"token_ids": IDS, "sequence_ids": documents}))
    for row, start, end in ((0, 0, 4), (0, 4, 9), (1, 0, 2), (1, 2, 7)):
        check_close(logits[row, start:end], array(model(IDS[row : row + 1, start:end]))[0], TOLERANCE)


def test_the_caches_of_a_batch():
    """Rows in another order, several of each, less of each, and room for more."""
    model = shared()
    last, cache = model.prefill(IDS[:, :6], model.init_cache(2, LENGTH), first=np.array([0, 2]))
    later = go_on(model, cache, IDS, 6)
    check_close(go_on(model, model.reorder_cache(cache, [1, 0]), IDS[::-1], 6), later[::-1], TOLERANCE)
    copies = model.copy_cache(cache, 3)
    check_close(go_on(model, copies, np.repeat(IDS, 3, axis=0), 6), np.repeat(later, 3, axis=0), TOLERANCE)
    check_close(go_on(model, model.grow_cache(cache, ROOM), IDS, 6), later, TOLERANCE)
    _, longer = model.prefill(IDS[:, 6:8], cache, index=6)
    trimmed = model.trim_cache(longer, tf.constant(6))
    keras.tree.map_structure(lambda x, y: np.testing.assert_array_equal(array(x), array(y)), trimmed, cache)


@pytest.mark.parametrize("cls", [ALiBiPositions, None])
def test_positions_by_hand(cls):
    """A window and biases read the positions that a cache keeps."""
    attention = MultiHeadAttention(HEADS, 4, sliding_window=3, relative_positions=cls and cls())
    model = make(attention)
    expected = array(model(IDS))
    last, cache = model.prefill(IDS[:, :6], model.init_cache(2, ROOM), chunk_size=4)
    check_close(last, expected[:, 5], TOLERANCE)
    check_close(go_on(model, cache, IDS, 6), expected[:, 6:], TOLERANCE)
    order = np.array([0, 2, 1])  # row 7 of the cache holds position 8
    position = np.arange(6, 9)[order]
    mask = np.zeros((2, 3, ROOM), bool)
    mask[:, :, :6], mask[:, :, 6:9] = True, position[:, None] >= position
    tokens = IDS[:, 6:9][:, order]
    step, _ = model.decode_step(tokens, cache, 6, positions=position, attention_mask=mask)
    check_close(step, expected[:, 6:9][:, order], TOLERANCE)


@pytest.mark.parametrize("name", ["multi_head", "evolving"])
def test_steps_in_a_graph(name):
    """One program for all steps and lengths of prompts, with ids beyond the vocabulary that no graph can check."""
    model = make(name, "learned")
    expected = array(model(IDS))
    signature = [tf.TensorSpec((2, None), tf.int32)]
    prefill = tf.function(lambda ids: model.prefill(ids, model.init_cache(2, ROOM)), input_signature=signature)
    step = tf.function(lambda ids, cache, index: model.decode_step(ids, cache, index), jit_compile=True)
    for length in (4, 6):
        last, cache = prefill(IDS[:, :length])
        check_close(last, expected[:, length - 1], TOLERANCE)
        for index in range(length, LENGTH):
            logits, cache = step(IDS[:, index : index + 1], cache, tf.constant(index))
            check_close(logits[:, 0], expected[:, index], TOLERANCE)
    assert np.isfinite(prefill(np.array([[-5], [99]], "int32"))[0]).all()


@pytest.mark.parametrize("name", NAMES)
def test_writing_in_a_graph_of_unknown_sizes(name):
    """As `serving.TextGenerator` does."""
    rules = dict(repetition_penalty=1.4, no_repeat_ngram_size=2)
    generator = Generator(make(name, "learned"), max_length=3, temperature=0, **rules)
    write = in_graph(lambda ids: generator(ids)["tokens"])
    for size in (1, 4):
        np.testing.assert_array_equal(write(IDS[:, :size]), generator(IDS[:, :size])["tokens"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"the {ROOM} positions"):
        write(np.ones((1, ROOM - 2), "int32"))


def in_graph(function):
    return tf.function(function, input_signature=[tf.TensorSpec((None, None), tf.int32)], autograph=False)


@pytest.mark.parametrize("name", ["multi_head", "multi_token"])
def test_search_after_one_token_in_a_graph_of_unknown_sizes(name):
    generator = Generator(make(name, "learned"), max_length=3, beam_size=2)
    search = in_graph(generator)
    for size in (1, 4):
        for key, values in search(IDS[:, :size]).items():
            check_close(values, generator(IDS[:, :size])[key], TOLERANCE)


def test_more_tokens_than_positions_in_a_graph_of_unknown_sizes():
    model, other = make("multi_head", "learned"), make("synthesizer", None, attention_arguments={"max_length": ROOM})
    calls = model, lambda ids: model({"token_ids": ids, "sequence_ids": 0 * ids}), other
    for call in map(in_graph, calls):
        assert call(np.ones((1, ROOM), "int32")).shape == (1, ROOM, VOCABULARY)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"max_length={ROOM} tokens"):
            call(np.ones((1, ROOM + 1), "int32"))


# ----------------------------------------------------------------------------------------- weights and settings


def test_initial_weights():
    """Radford et al. 2019: N(0, 0.02), divided by the square root of 2 L where the residual stream gets the output."""
    model = CausalLM(500, 8, 64, num_heads=4, positions="learned", max_length=100, tie_output=False, seed=3)
    model.build()
    for weight in model.weights:
        if weight.name in ("kernel", "embeddings"):
            is_last = "attention_output" in weight.path or "outer" in weight.path
            assert np.std(weight) == pytest.approx(0.02 / (4 if is_last else 1), rel=0.1), weight.path
        elif weight.name in ("bias", "scale"):
            np.testing.assert_array_equal(weight, float(weight.name == "scale"))
    kernels = [array(weight) for weight in model.weights if weight.path.endswith("query/kernel")]
    assert not any(np.allclose(kernels[0], other) for other in kernels[1:])


def built(attention, seed=7, **arguments):
    model = CausalLM(VOCABULARY, 2, WIDTH, num_heads=HEADS, attention=attention, seed=seed, **arguments)
    model.build()
    return {weight.path.split("/", 1)[1]: array(weight) for weight in model.weights}


@pytest.mark.parametrize("name", ["talking_heads", "grouped_query", "dynamically_composable"])
def test_comparisons_are_paired(name):
    """Weights of equal path and shape begin equal for one seed; a variant's own begin as in the layer."""
    base, other = built("multi_head"), built(name, **({"attention_arguments": ARGUMENTS.get(name)}))
    common = [path for path in base if path in other and base[path].shape == other[path].shape]
    missing = {path for path in base if path not in common}
    assert all("/key/" in path or "/value/" in path for path in missing) and bool(missing) == (name == "grouped_query")
    for path in common:
        np.testing.assert_array_equal(base[path], other[path], err_msg=path)
    again, different = built("multi_head"), built("multi_head", seed=8)
    for path in base:
        np.testing.assert_array_equal(base[path], again[path])
        assert path.endswith(("bias", "scale")) or not np.allclose(base[path], different[path])
    if name == "talking_heads":
        assert np.abs(other["block_0/attention/pre_softmax_kernel"]).max() > 0.1


def test_attentions_in_turn():
    """`[local, local, whole]`, each with positions of its own, over five blocks."""
    local, whole = (
        GroupedQueryAttention(4, 6, num_key_value_heads=1, sliding_window=window, relative_positions=positions)
        for window, positions in ((3, RotaryPositions(100)), (None, None))
    )
    model = make([local, local, whole], num_layers=5)
    layers = [block.attention for block in model.blocks]
    assert [layer.sliding_window for layer in layers] == [3, 3, None, 3, 3]
    assert [layer.relative_positions.max_wavelength for layer in layers] == [100, 100, 10_000, 100, 100]
    assert [layer.depth for layer in layers] == [*range(5)] and {layer.role for layer in layers} == {"decoder"}
    loaded = CausalLM.from_config(model.get_config())
    loaded.build()
    loaded.set_weights(model.get_weights())
    np.testing.assert_array_equal(loaded(IDS), model(IDS))


@pytest.mark.parametrize(
    "feed_forward, width", [(None, 4 * WIDTH), (FeedForward(activation="silu", gated=True), 64), (FeedForward(5), 5)]
)
def test_widths_of_feed_forward_layers(feed_forward, width):
    model = make(feed_forward=feed_forward, intermediate_dim=None)
    assert model.blocks[0].feed_forward.inner.units == width
    assert make(feed_forward=FeedForward(gated=True), intermediate_dim=7).blocks[0].feed_forward.gate.units == 7


@pytest.mark.parametrize("arguments", [
    {}, {"tie_output": False}, {"loss_chunk_size": 4, "output_bias": True}, {"logits_soft_cap": 2.0},
])  # fmt: skip
def test_mixed_precision(arguments):
    model, narrow = make(**arguments), make(**arguments, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(narrow(IDS).dtype) == "float32"
    check_close(narrow(IDS), array(model(IDS)), 0.05)
    last, _ = narrow.prefill(IDS, narrow.init_cache(2, LENGTH))
    check_close(last, array(narrow(IDS))[:, -1], 0.05)


def test_biases_of_inputs_alone():
    """As in Qwen 2."""
    model = make(attention_arguments={"use_bias": "inputs"})
    layer = model.blocks[0].attention
    assert layer.output_dense.bias is None
    assert all(dense.bias is not None for dense in (layer.query_dense, layer.key_dense, layer.value_dense))
    kernels = model.decoding_kernels()
    last, _ = model.prefill(IDS, model.init_cache(2, LENGTH, kernels), kernels=kernels)
    check_close(last, array(model(IDS))[:, -1], TOLERANCE)


# ---------------------------------------------------------------------------------------------------- training

TEXTS = np.random.default_rng(1).integers(0, VOCABULARY, (4, LENGTH + 1)).astype("int32")
SAMPLE_WEIGHT = (TEXTS[:, 1:] > 1).astype("float32")


def fit(model, inputs=TEXTS[:, :-1], **arguments):
    chunks = model.loss_chunk_size is not None
    metrics = None if chunks else [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    model.compile(keras.optimizers.SGD(0.1), LabelSmoothedCrossentropy(), weighted_metrics=metrics, **arguments)
    fit = model.fit(inputs, TEXTS[:, 1:], sample_weight=SAMPLE_WEIGHT, batch_size=4, epochs=2, shuffle=False, verbose=0)
    assert fit.history["loss"][-1] < fit.history["loss"][0]
    return fit.history


def test_training(tmp_path):
    """With and without XLA, logits in chunks and recomputation; documents in a row; and in a file."""
    documents = {"token_ids": TEXTS[:, :-1], "sequence_ids": np.array([[0] * 4 + [1] * 5] * 4)}
    arguments = dict(num_layers=1, logits_soft_cap=5.0)
    expected = fit(make(**arguments), documents, run_eagerly=True)
    for options, changes in (
        ({"jit_compile": True}, {"loss_chunk_size": 5, "recompute": True}),
        ({"jit_compile": False}, {}),
    ):
        model = make(**arguments, **changes)
        history = fit(model, documents, **options)
        for name, values in expected.items():
            np.testing.assert_allclose(history[name], values, rtol=1e-4, err_msg=name)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(documents), model(documents))


def test_two_replicas_train_as_one():
    histories = []
    for replicas in (1, 2):
        with make_strategy(replicas).scope():
            ids = keras.Input((None,), dtype="int32")
            model = make(attention_arguments={"use_sinks": True})
            trainer = Model(ids, model(ids))
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            trainer.compile(keras.optimizers.SGD(0.1), loss, jit_compile=False)
            result = trainer.fit(TEXTS[:, :-1], TEXTS[:, 1:], batch_size=4, epochs=3, shuffle=False, verbose=0)
            histories.append(result.history["loss"])
    assert histories[1] == pytest.approx(histories[0], rel=1e-5)


# ------------------------------------------------------------------------------------------------------- sizes

# As published, or counted in the public code: nanoGPT, Hugging Face.
PARAMETERS = {
    "nano_cpu": 804_096,
    "nano": 10_745_088,
    "gpt2": 124_439_808,
    "gpt2_medium": 354_823_168,
    "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "smollm2_135m": 134_515_008,
    "smollm2_360m": 361_821_120,
    "qwen2.5_0.5b": 494_032_768,
    "qwen3_0.6b": 596_049_920,
    "llama3.2_1b": 1_235_814_400,
    "gemma3_270m": 268_098_176,
    "pythia_70m": 70_426_624,
}


def zeros(self, shape, dtype=None):
    return keras.ops.zeros(shape, dtype)


@pytest.mark.parametrize("attention, plain", [("multi_head", True), ("evolving", False)])
def test_properties_before_the_first_call(attention, plain):
    sizes = dict(num_layers=1, hidden_dim=8, num_heads=2, positions="learned", max_length=7)
    for name, value in {"position_count": 7, "takes_documents": plain, "beams_share_rows": plain}.items():
        assert getattr(CausalLM(9, attention=attention, **sizes), name) == value


def count(size, **overrides):
    model = CausalLM.from_size(size, **overrides)
    model.build()
    return model.count_params()


def test_all_sizes_are_counted():
    assert list(PARAMETERS) == list(CAUSAL_SIZES)


@pytest.mark.parametrize("size", PARAMETERS)
def test_sizes(size, monkeypatch):
    """Of a model of one token and one block or two; each other block has as much as the second."""
    monkeypatch.setattr(keras.initializers.RandomNormal, "__call__", zeros)
    arguments = CAUSAL_SIZES[size]()
    one, two = (count(size, vocabulary_size=1, num_layers=number) for number in (1, 2))
    others = (arguments["num_layers"] - 1) * (two - one)
    tables = arguments["hidden_dim"] * (1 if arguments.get("tie_output", True) else 2)
    assert one + others + (arguments["vocabulary_size"] - 1) * tables == PARAMETERS[size]
    if size == "nano_cpu":
        assert count(size) == PARAMETERS[size]


def test_sizes_with_another_attention():
    model = CausalLM.from_size("smollm2_135m", 30, num_layers=1, attention="talking_heads")
    layer = model.attention_templates[0].layer
    assert (type(layer), layer.use_bias, layer.num_heads) == (ATTENTIONS["talking_heads"], False, 9)
