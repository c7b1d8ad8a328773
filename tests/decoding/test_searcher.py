"""The searcher with real Transformers, against slow searches that run the whole model on every prefix."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers
from keras_headattn.decoding import Searcher, beam_search
from keras_headattn.positions import LearnedPositions
from tests.decoding.tables import (
    check_same,
    ended_tokens,
    every_hypothesis,
    log_softmax,
    naive_beam_search,
    score,
)
from tests.models.small import CASES, array, each_path, make, sentences

START, END, STEPS = 2, 3, 6


def translator(case=CASES[0], end=2.0, **arguments):
    """A model whose states vary from token to token, with `end` more logit for the end token."""
    model = make(case, **arguments)
    for block in model.encoder_blocks + model.decoder_blocks:
        for norm in block.norms.values():
            norm.gamma.assign(np.ones(norm.gamma.shape))
    norm = model.norms[1] if model.norms else model.decoder_blocks[-1].norms["feed_forward"]
    norm.gamma.assign(np.ones(norm.gamma.shape))
    towards = array(model.target_embedding.embeddings)[END]
    norm.beta.assign(end * towards / np.square(towards).sum())
    return model


@functools.cache
def usual(name=CASES[0].name):
    """The translator with the attention of this name, for all tests that only read it."""
    return translator(next(case for case in CASES if case.name == name))


def sources(batch=3):
    return sentences(seed=4, batch=batch)["source"]


def one_shot_log_probs(model, source):
    """Of any prefixes of one sentence, by running the whole model, with nothing kept from step to step."""

    def log_probs(prefixes):
        target = np.zeros((len(prefixes), STEPS + 1), "int32")
        for row, prefix in zip(target, prefixes, strict=True):
            row[: len(prefix) + 1] = (START, *prefix)
        logits = array(model({"source": np.tile(source, (len(prefixes), 1)), "target": target}))
        last = [len(prefix) for prefix in prefixes]
        return log_softmax(logits[np.arange(len(prefixes)), last])

    return log_probs


def search(model, source, beam_size=3, alpha=0.6, **arguments):
    searcher = Searcher(model, beam_size, alpha, STEPS, START, END, **arguments)
    return {name: keras.ops.convert_to_numpy(x) for name, x in searcher(source).items()}


def check_naive(model, beam_size=3, alpha=0.6):
    source = sources(2)
    found = search(model, source, beam_size, alpha)
    for b in range(2):
        expected = naive_beam_search(one_shot_log_probs(model, source[b]), STEPS, END, beam_size, alpha)
        check_same(found["tokens"][b], found["scores"][b], expected, 1e-4, END)


# -------------------------------------------------------------------------------------- against slow searches


@each_path
def test_same_as_the_naive_search(case):
    check_naive(usual(case.name))


@pytest.mark.parametrize("arguments", [
    {"normalization": "pre", "num_layers": 2},
    {"positions": LearnedPositions(STEPS + 1)},
    {"target_vocabulary_size": None},
    {"cross_attention": layers.LuongAttention(key_dim=5, score_mode="concat")},
    {"decoder_attention": layers.MultiHeadAttention(2, 4, sliding_window=2)},
], ids=["pre_norm", "learned_positions", "one_vocabulary", "other_cross", "sliding_window"])  # fmt: skip
def test_other_models_same_as_the_naive_search(arguments):
    check_naive(translator(**arguments), beam_size=4, alpha=1.0)


def test_kernels_of_a_call_keep_their_precision():
    """Those of norms are float32."""
    model = translator(dtype="mixed_bfloat16")
    searcher = Searcher(model, 3, 0.6, STEPS, START, END, dtype="mixed_bfloat16")
    kernels = searcher.decoding_kernels()
    searcher.search = lambda source, kernels, *others: kernels
    dtypes = [[x.dtype for x in keras.tree.flatten(each)] for each in (kernels, searcher(sources(), kernels))]
    assert dtypes[0] == dtypes[1] and len({*dtypes[0]}) == 2


def test_some_translations_end_and_some_do_not():
    """Else the tests above would say little."""
    tokens = search(usual(), sources())["tokens"]
    ended = (tokens == END).any(-1)
    assert ended.any() and not ended.all()


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_finds_what_exhaustive_search_finds(alpha):
    """Two live tokens besides the end token: 31 translations of at most 5 tokens. The beam drops none."""
    model = translator(source_vocabulary_size=11, target_vocabulary_size=50)
    live, beam_size, length = (4, 5), 24, 5
    dead = np.full(50, -1e4, "float32")
    dead[[END, *live]] = 0.0

    def step(tokens, cache, index, position, mask):
        positions = keras.ops.broadcast_to(position, (tokens.shape[1],))
        logits, cache = model.decode_step(tokens, cache, index, positions, mask)
        return logits + dead, cache

    source = sources(1)
    cache = model.init_cache(source, length * beam_size)
    tokens, scores = beam_search(step, cache, 1, length, START, END, beam_size, alpha)
    unrestricted = one_shot_log_probs(model, source[0])

    def log_probs(prefixes):
        return log_softmax(unrestricted(prefixes) + dead)

    expected = every_hypothesis(log_probs, length, END, live, alpha)
    assert len(expected) == 31
    check_same(tokens[0].numpy(), scores[0].numpy(), expected[:beam_size], 1e-4, END)


@each_path
def test_greedy_search_is_the_loop_over_argmax(case):
    model, source = usual(case.name), sources(2)
    found = search(model, source, beam_size=1)
    assert found["tokens"].shape == (2, 1, STEPS) and found["scores"].shape == (2, 1)
    for b in range(2):
        log_probs, expected = one_shot_log_probs(model, source[b]), ()
        while len(expected) < STEPS and END not in expected:
            expected += (int(log_probs([expected])[0].argmax()),)
        assert ended_tokens(found["tokens"][b, 0], END) == expected


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_scores_are_those_of_the_model(beam_size, alpha):
    """Log probabilities of teacher forcing, divided by the length penalty, with greedy search too."""
    model, source = usual(), sources()
    found = search(model, source, beam_size, alpha)
    for b in range(3):
        log_probs = one_shot_log_probs(model, source[b])
        for row, value in zip(found["tokens"][b], found["scores"][b], strict=True):
            np.testing.assert_allclose(value, score(log_probs, ended_tokens(row, END), alpha), rtol=1e-4)


# ------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("beam_size", [1, 3])
def test_rows_and_padding_are_independent(beam_size):
    model, source = usual(), sources()
    together = search(model, source, beam_size=beam_size)
    padded = search(model, np.pad(source, ((0, 0), (0, 3))), beam_size=beam_size)
    np.testing.assert_array_equal(padded["tokens"], together["tokens"])
    for b in range(3):
        alone = search(model, source[b : b + 1], beam_size=beam_size)
        np.testing.assert_array_equal(alone["tokens"][0], together["tokens"][b])
        np.testing.assert_allclose(alone["scores"][0], together["scores"][b], rtol=1e-4)


def test_source_of_padding_alone():
    source = sources()
    expected = search(usual(), source)
    source[1] = 0
    found = search(usual(), source)
    assert np.isfinite(found["scores"]).all()
    np.testing.assert_array_equal(found["tokens"][[0, 2]], expected["tokens"][[0, 2]])


def test_mixed_precision():
    model, source = translator(dtype="mixed_float16"), sources()
    found = search(model, source)
    assert found["scores"].dtype == "float32"
    for b in range(3):
        log_probs = one_shot_log_probs(model, source[b])
        for row, value in zip(found["tokens"][b], found["scores"][b], strict=True):
            np.testing.assert_allclose(value, score(log_probs, ended_tokens(row, END), 0.6), atol=0.03)


# ------------------------------------------------------------------------------------------ as a Keras model


def test_eager_equals_graph_equals_xla():
    """The graph is for any number of sentences of any length, as in a SavedModel."""
    model, source = usual(), sources()
    searcher = Searcher(model, 2, 0.6, STEPS, START, END)
    expected = searcher(source)
    graph = tf.function(searcher, input_signature=[tf.TensorSpec((None, None), tf.int32)])
    xla = tf.function(searcher, jit_compile=True)
    for found in (graph(source), xla(source)):
        np.testing.assert_array_equal(found["tokens"], expected["tokens"])
        np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_predict_batch_by_batch(beam_size):
    source = sources(5)
    searcher = Searcher(usual(), beam_size, 0.6, STEPS, START, END)
    expected = searcher(source)
    found = searcher.predict(source, batch_size=2, verbose=0)
    assert found["tokens"].shape == (5, beam_size, STEPS)
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)


def test_file_round_trip(tmp_path):
    source = sources()
    searcher = Searcher(translator(normalization="pre"), 3, 0.8, STEPS, START, END, name="searcher")
    expected = searcher(source)
    searcher.save(tmp_path / "searcher.keras")
    loaded = keras.models.load_model(tmp_path / "searcher.keras")
    assert json.dumps(loaded.get_config()) == json.dumps(searcher.get_config())
    for name, value in {
        "beam_size": 3,
        "alpha": 0.8,
        "max_length": STEPS,
        "start_id": START,
        "end_id": END,
    }.items():
        assert getattr(loaded, name) == value
    found = loaded(source)
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])
    np.testing.assert_array_equal(found["scores"], expected["scores"])


def test_saved_model(tmp_path):
    source = sources()
    searcher = Searcher(usual(), 2, 0.6, STEPS, START, END)
    expected = searcher(source)
    searcher.export(tmp_path / "searcher", verbose=False, input_signature=[tf.TensorSpec((None, None), tf.int32)])
    loaded = tf.saved_model.load(tmp_path / "searcher")
    found = loaded.serve(source)
    np.testing.assert_array_equal(found["tokens"], expected["tokens"])
    np.testing.assert_allclose(found["scores"], expected["scores"], rtol=1e-4)


def test_model_that_is_not_built_yet():
    from keras_headattn.models import Transformer

    searcher = Searcher(Transformer(11, num_layers=1, hidden_dim=16, intermediate_dim=8), 2, 0.6, 3, START, END)
    assert tuple(searcher(sources())["tokens"].shape) == (3, 2, 3)


@pytest.mark.parametrize("name, beam_size", [("multi_head", 1), ("multi_head", 2), ("evolving", 2)])
def test_empty_batch(name, beam_size):
    searcher = Searcher(usual(name), beam_size, 0.6, 4, START, END)
    source = np.zeros((0, 3), "int32")
    any_size = tf.function(searcher, input_signature=[tf.TensorSpec((None, None), tf.int32)])
    for search in (searcher, any_size, tf.function(searcher, jit_compile=True)):
        found = search(tf.constant(source))
        assert tuple(found["tokens"].shape) == (0, beam_size, 4) and found["tokens"].dtype == "int32"
        assert tuple(found["scores"].shape) == (0, beam_size) and found["scores"].dtype == "float32"


def test_symbolic_shapes():
    found = Searcher(usual(), 3, 0.6, STEPS, START, END)(keras.Input((None,), dtype="int32"))
    assert tuple(found["tokens"].shape) == (None, 3, STEPS) and found["tokens"].dtype == "int32"
    assert tuple(found["scores"].shape) == (None, 3) and found["scores"].dtype == "float32"
