"""Texts of language models, in Python and as a SavedModel."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.decoding import Generator
from keras_headattn.layers import capture_intermediates
from keras_headattn.models import CausalLM
from keras_headattn.serving import TextGenerator, export_generator
from keras_headattn.text import ByteTokenizer, CharacterTokenizer
from tests.processes import run_python

PROMPTS = ["one, two", "a", "\u00e9t\u00e9"]
PROGRAM = """
import json, sys
sys.modules["keras_headattn"] = sys.modules["tensorflow_text"] = None
import tensorflow as tf
call = tf.saved_model.load(sys.argv[1]).signatures
found = call["serving_default"](prompts=tf.constant(["one, two", "a", "\u00e9t\u00e9"]), seed=tf.constant(7))
scores = call["score"](texts=tf.constant(["one, two"]))
texts = [text.decode("utf-8", "replace") for text in found["texts"].numpy()[:, 0]]
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
    assert len(write([""])[0]) == 2  # begins with the end of a document


def test_scores_are_log_probabilities(model, write):
    (scores,) = write.score(["two"])
    logits = np.asarray(model(np.array([[256, *b"tw"]])))[0].astype("float64")
    expected = [row[token] - np.log(np.exp(row).sum()) for row, token in zip(logits, b"two", strict=True)]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_long_prompts_lose_their_beginning():
    model = CausalLM(257, 1, 16, num_heads=4, positions="learned", max_length=12, seed=1)
    write = TextGenerator(model, ByteTokenizer(), max_length=4, temperature=0)
    assert write(["a prompt of many letters"]) == write([" letters"[-7:]])


def test_models_that_take_no_padding_get_one_prompt_at_a_time():
    model = CausalLM(
        257, 1, 16, num_heads=4, attention="synthesizer", positions="none", attention_arguments={"max_length": 32}
    )
    write = TextGenerator(model, ByteTokenizer(), max_length=4)
    assert [write([prompt])[0] for prompt in PROMPTS] == write(PROMPTS)


def test_a_saved_model_in_a_fresh_process(model, write, tmp_path):
    path = export_generator(model, ByteTokenizer(), tmp_path / "models", max_length=9, num_samples=2, attention=True)
    process = run_python("-c", PROGRAM, path)
    assert process.returncode == 0, process.stderr
    texts, scores = json.loads(process.stdout)
    assert texts == [row[0] for row in write(PROMPTS, seed=7)]
    np.testing.assert_allclose(scores, [write.score(["one, two"])[0].sum()], rtol=1e-5)
    signatures = tf.saved_model.load(path).signatures
    empty = dict(prompts=tf.constant([], tf.string), seed=tf.constant(0))
    assert signatures["serving_default"](**empty)["texts"].shape == (0, 2)
    assert signatures["attention"](prompts=empty["prompts"])["weights"].shape[0] == 0
    found = signatures["attention"](prompts=tf.constant(PROMPTS))
    for row, prompt in enumerate(PROMPTS):
        text = found["texts"].numpy()[row].decode("utf-8", "replace")
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
