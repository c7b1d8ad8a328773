"""Texts of language models, in Python and as a SavedModel."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.decoding import Generator
from keras_headattn.decoding._row_search import likeliest, likeliest_by_request
from keras_headattn.layers import capture_intermediates
from keras_headattn.models import CausalLM
from keras_headattn.serving import TextGenerator, export_generator
from keras_headattn.serving._text_generator import _read_prompts, _score
from keras_headattn.text import BytePairTokenizer, ByteTokenizer, CharacterTokenizer
from keras_headattn.text._byte_pair_tokenizer import byte_signs
from tests.processes import run_python

PROMPTS = ["one, two", "a", "\u00e9t\u00e9"]
PROGRAM = """
import json, sys
sys.modules["keras_headattn"] = sys.modules["tensorflow_text"] = None
import tensorflow as tf
call = tf.saved_model.load(sys.argv[1]).signatures
options = dict(seed=7, temperature=0.9, top_k=20, top_p=1.0, max_tokens=9, min_tokens=0, stop=["%"])
options = {name: tf.constant(value) for name, value in options.items()}
found = call["generate"](prompts=tf.constant(["one, two", "a", "\u00e9t\u00e9"]), **options)
scores = call["score"](texts=tf.constant(["one, two"]))
texts = [text.decode() for text in found["texts"].numpy()[:, 0]]
print(json.dumps([texts, scores["scores"].numpy().tolist()]))
"""


@pytest.fixture(scope="module")
def model():
    return CausalLM(257, num_layers=2, hidden_dim=16, num_heads=4, attention="talking_heads", seed=1)


@pytest.fixture(scope="module")
def write(model):
    return TextGenerator(model, ByteTokenizer(), max_length=9, num_samples=2)


def test_texts_are_those_of_the_generator(model, write):
    generator = Generator(model, max_length=9, num_samples=2, start_ids=[256], end_ids=[256])
    for prompt, texts in zip(PROMPTS, write(PROMPTS, seed=7), strict=True):
        assert len(texts) == 2
        (alone,) = write([prompt], seed=7)
        ids = ByteTokenizer()([prompt])
        tokens = generator(ids, seed=7)["tokens"][0]
        assert alone == [text.decode("utf-8", "replace") for text in ByteTokenizer().detokenize(tokens).numpy()]
    assert write(PROMPTS, seed=7) == write(PROMPTS, seed=7) != write(PROMPTS, seed=8)
    assert "".join(write.stream("one", seed=7)) == write(["one"], seed=7)[0][0]
    assert "".join(write.stream("")) == write([""])[0][0]  # begins with the end of a document


def test_options_under_mixed_precision(model):
    write = TextGenerator(model, ByteTokenizer(), max_length=4, dtype="mixed_bfloat16")
    options = dict(temperature=0.5, top_p=0.999)
    assert "".join(write.stream("one", **options)) == write(["one"], **options)[0][0]


def byte_pairs(**options):
    vocabulary = ["<s>", "</s>", *byte_signs()]
    return BytePairTokenizer(vocabulary, [], specials={"bos": "<s>", "eos": "</s>"}, **options)


def test_a_tokenizer_that_begins_texts():
    """Nothing else comes before, and the beginning has no score."""
    model = CausalLM(258, num_layers=1, hidden_dim=16, num_heads=4, seed=1)
    write = TextGenerator(model, byte_pairs(add_eos=False), max_length=4)
    assert write.generator.start_ids == () and write.generator.end_ids == (1,)
    ids = write.tokenizer(["ab"]).numpy()
    logits = keras.ops.log_softmax(model(ids[:, :-1]))[0].numpy()
    np.testing.assert_allclose(write.score(["ab"])[0], logits[[0, 1], ids[0, 1:]], rtol=1e-5)


@pytest.mark.parametrize("options", [
    {"top_k": 300}, {"top_p": 0.3}, {"temperature": 0.7, "top_k": 20, "top_p": 0.8},
])  # fmt: skip
def test_options_of_a_call_are_those_of_a_generator(model, write, options):
    logits = keras.random.normal((4, 257), seed=3)
    scaled = logits / options.get("temperature", 1.0)
    tensors = write.generator.request(**options)
    found = likeliest_by_request(scaled, tensors["top_k"], tensors["top_p"])
    expected = likeliest(scaled, options.get("top_k"), options.get("top_p"))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    generator = Generator(model, max_length=9, num_samples=2, start_ids=[256], end_ids=[256], **options)
    ids = ByteTokenizer()(["one"])
    again = write.generator(ids, seed=7, options=tensors)["tokens"]
    np.testing.assert_array_equal(np.asarray(again), np.asarray(generator(ids, seed=7)["tokens"]))


def test_options_of_a_call(write):
    texts = write(PROMPTS, seed=7)
    assert write(PROMPTS, seed=7, temperature=1.0, top_k=0, top_p=1.0, max_tokens=9) == texts
    greedy = write(PROMPTS, temperature=0)
    assert greedy == write(PROMPTS, seed=9, top_k=1) and all(first == second for first, second in greedy)
    assert (
        "".join(write.stream("one", seed=7, top_p=0.5, max_tokens=4))
        == (write(["one"], seed=7, top_p=0.5, max_tokens=4)[0][0])
    )
    ids = ByteTokenizer()(["one"])
    result = write.generator(ids, seed=7, options=write.generator.request(max_tokens=4))
    whole = write.generator(ids, seed=7)
    np.testing.assert_array_equal(result["tokens"][..., :4], whole["tokens"][..., :4])
    assert np.asarray(result["lengths"]).max() <= 4


def test_texts_end_before_stop():
    """They are cut texts of a generator without it, in streams, too, and end with the token that completes a stop."""
    letters = "ab.*\\E\n"
    model = CausalLM(len(letters), num_layers=1, hidden_dim=16, num_heads=2, seed=1)
    tokenizer, own = CharacterTokenizer(letters), ["\\E", "a*"]
    write = TextGenerator(model, tokenizer, own, max_length=40, num_samples=8)
    (plain,) = write(["a"], seed=3, stop=[])
    assert {len(text) for text in plain} == {40}
    for stop in (None, ["b."], ["a\nb", "*", "ab.*a"], ["."], [".", "E"], ["absent"]):
        expected = [min((text.partition(part)[0] for part in stop or own), key=len) for text in plain]
        assert write(["a"], seed=3, stop=stop) == [expected]
    assert "".join(write.stream("a", seed=3)) == min((plain[0].partition(part)[0] for part in own), key=len)


def test_all_signatures_end_at_the_stop_of_the_export(tmp_path):
    letters = "ab.*"
    model = CausalLM(len(letters) + 1, num_layers=1, hidden_dim=16, num_heads=2, seed=1)  # one without a text
    options = dict(stop=["b."], max_length=20, warmup_batch_sizes=(), attention=True)
    call = tf.saved_model.load(export_generator(model, CharacterTokenizer(letters), tmp_path, **options)).signatures
    found = {name: call[name](prompts=tf.constant(["a", "b"])) for name in ("serving_default", "attention")}
    texts = found["serving_default"]["texts"][:, 0].numpy().tolist()
    assert texts == found["attention"]["texts"].numpy().tolist() and all(0 < len(text) < 20 for text in texts)
    assert found["serving_default"]["lengths"].numpy().max() < 20


def test_least_number_of_tokens():
    model = CausalLM(257, num_layers=1, hidden_dim=16, num_heads=2, seed=1)
    model.build()
    write = TextGenerator(model, ByteTokenizer(), max_length=8, end_ids=[*range(64, 257)], num_samples=4)
    for least in (0, 5):
        lengths = np.asarray(
            write.generator(ByteTokenizer()(["a"]), options=write.generator.request(min_tokens=least))["lengths"]
        )
        assert least < lengths.min() <= least + 2
    assert "".join(write.stream("a")) == write(["a"])[0][0]  # without the text of the end


def test_filters_of_a_request_see_the_likeliest_tokens():
    """Their probabilities are over all tokens."""
    logits = keras.ops.arange(5_000, 0, -1, dtype="float32")[None] * 1e-4
    for share, count in ((0.1, 395), (0.999, 1_024)):
        kept = likeliest_by_request(logits, np.int32(0), np.float32(share))
        expected = np.cumsum(np.exp(logits[0].numpy().astype("float64") - 0.5))
        least = min(1_024, 1 + np.searchsorted(expected / expected[-1], share))
        assert abs((np.asarray(kept) > -1e30).sum() - least) <= 1 and abs(least - count) < 30


def test_scores_are_log_probabilities(model, write):
    (scores,) = write.score(["two"])
    logits = np.asarray(model(np.array([[256, *b"tw"]])))[0].astype("float64")
    expected = [row[token] - np.log(np.exp(row).sum()) for row, token in zip(logits, b"two", strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_long_prompts_lose_their_beginning():
    model = CausalLM(257, 1, 16, num_heads=4, positions="learned", max_length=12, seed=1)
    write = TextGenerator(model, ByteTokenizer(), max_length=4, temperature=0)
    assert write(["a prompt of many letters"]) == write([" letters"[-7:]])
    model = CausalLM(258, 1, 16, num_heads=4, positions="learned", max_length=12, seed=1)
    write = TextGenerator(model, byte_pairs(add_eos=False), max_length=4, temperature=0)
    ids, _, is_cut = _read_prompts(write.generator, write.tokenizer, tf.constant(["many letters", "few"]))
    begin, letters, few = (write.tokenizer.encode([text])[0].tolist() for text in ("", " letters"[-7:], "few"))
    assert ids.numpy().tolist() == [letters, few + [0] * 4] and is_cut.numpy().tolist() == [True, False]
    assert letters[:1] == begin
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_length=12 tokens"):
        tf.function(_score)(write.generator, write.tokenizer, tf.constant(["a text of many letters"]))


def test_models_that_take_no_padding_get_one_prompt_at_a_time():
    model = CausalLM(
        257, 1, 16, num_heads=4, attention="synthesizer", positions=None, attention_arguments={"max_length": 32}
    )
    write = TextGenerator(model, ByteTokenizer(), max_length=4)
    assert [write([prompt])[0] for prompt in ["", *PROMPTS]] == write(["", *PROMPTS])
    with pytest.raises(ValueError, match="`max_length` .* max_length=31, 1 start_ids, 0 positions left of 32"):
        TextGenerator(model, ByteTokenizer(), max_length=31)


def test_a_saved_model_in_a_fresh_process(model, write, tmp_path):
    path = export_generator(model, ByteTokenizer(), tmp_path / "models", max_length=9, num_samples=2, attention=True)
    process = run_python("-c", PROGRAM, path)
    assert process.returncode == 0, process.stderr
    texts, scores = json.loads(process.stdout)
    options = dict(seed=7, temperature=0.9, top_k=20, top_p=1.0, max_tokens=9, min_tokens=0, stop=["%"])
    assert texts == [row[0] for row in write(PROMPTS, **options)]
    np.testing.assert_allclose(scores, [write.score(["one, two"])[0].sum()], rtol=1e-5)
    signatures = tf.saved_model.load(path).signatures
    empty = dict(prompts=tf.constant([], tf.string))
    plain = signatures["serving_default"](prompts=tf.constant(PROMPTS))["texts"].numpy()
    assert [text.decode() for text in plain[:, 0]] == [texts[0] for texts in write(PROMPTS)]
    assert signatures["serving_default"](**empty)["texts"].shape == (0, 2)
    asked = dict(prompts=tf.constant(["one"]), seed=tf.constant(7), temperature=tf.constant(0.5), top_k=tf.constant(9))
    asked |= dict(top_p=tf.constant(0.9), max_tokens=tf.constant(3), min_tokens=tf.constant(0))
    asked |= dict(stop=tf.constant([], tf.string))
    expected = write(["one"], seed=7, temperature=0.5, top_k=9, top_p=0.9, max_tokens=3)[0]
    found = signatures["generate"](**asked)["texts"].numpy()[0]
    assert [text.decode() for text in found] == expected
    for wrong in ({"top_p": tf.constant(0.0)}, {"max_tokens": tf.constant(10)}, {"min_tokens": tf.constant(4)}):
        with pytest.raises(tf.errors.InvalidArgumentError, match="top_p` above 0"):
            signatures["generate"](**asked | wrong)
    for stop in ([""], ["a" * 65], ["a"] * 9):
        with pytest.raises(tf.errors.InvalidArgumentError, match="at most 8 texts of 1 to 64 bytes"):
            signatures["generate"](**asked | {"stop": tf.constant(stop)})
    assert signatures["attention"](prompts=empty["prompts"])["weights"].shape[0] == 0
    found = signatures["attention"](prompts=tf.constant(PROMPTS))
    for row, prompt in enumerate(PROMPTS):
        text = found["texts"].numpy()[row].decode()
        assert text == write(PROMPTS)[row][0]
        pieces = [piece for piece in found["pieces"].numpy()[row] if piece]
        ids = ByteTokenizer()([prompt]).numpy()[0]
        expected = {"one, two": "o", "a": "a", "\u00e9t\u00e9": "<0xC3>"}[prompt]
        assert len(pieces) >= 1 + len(ids) and [*pieces[:2]] == [b"<|endoftext|>", expected.encode()]
        with capture_intermediates() as seen:
            model(np.array([[256, *ids]]))
        maps = np.stack([np.asarray(layer["weights"])[0] for layer in seen.values() if "weights" in layer])
        count = 1 + len(ids)
        np.testing.assert_allclose(found["weights"].numpy()[row, :, :, :count, :count], maps, atol=1e-5)
        assert (found["weights"].numpy()[row, :, :, len(pieces) :] == 0).all()


@pytest.mark.parametrize("call, message", [
    (lambda write: write("one"), "`prompts` must be a list of str. Received: the str 'one'"),
    (lambda write: write(["one"], top_p=0), "`top_p` must be .* Received: top_p=0"),
    (lambda write: write(["one"], top_k=1.5), "`top_k` must be .* Received: top_k=1.5"),
    (lambda write: write(["one"], max_tokens=0), "`max_tokens` must be .* Received: max_tokens=0"),
    (lambda write: write(["one"], temperature=float("nan")), "`temperature` must be .* Received: temperature=nan"),
    (lambda write: write(["one"], min_p=0.5), "Options of a call are temperature.* Received: min_p"),
    (lambda write: write(["one"], min_tokens=-1), "`min_tokens` must be .* Received: min_tokens=-1"),
    (lambda write: write(["one"], seed=2**31), "`seed` must be .* Received: seed=2147483648"),
    (lambda write: TextGenerator(CausalLM(258, 1, 16, num_heads=4), byte_pairs()), "`add_eos=False`. Received: .*1"),
    (lambda write: write(["one"], stop="."), "`stop` must be a list .* Received: stop='.'"),
    (lambda write: write(["one"], stop=["a" * 65]), "`stop` must be .* 1 to 64 bytes"),
    (lambda write: TextGenerator(write.generator.model, ByteTokenizer(), stop=["."], beam_size=2), "beam_size"),
    (lambda write: TextGenerator(write.generator.model, CharacterTokenizer(map(chr, range(1, 400)))), "Received: 399"),
])  # fmt: skip
def test_wrong_arguments(write, call, message):
    with pytest.raises(ValueError, match=message):
        call(write)


def test_empty_prompts_without_an_end_symbol():
    model = CausalLM(5, num_layers=1, hidden_dim=16, num_heads=4)
    write = TextGenerator(model, CharacterTokenizer("abcde"), max_length=4)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="must have a token"):
        write([""])
    with pytest.raises(ValueError, match="characters of the vocabulary alone. Received: 'z'"):
        write(["az"])
