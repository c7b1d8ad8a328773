"""Shards, search settings and tokenizers of language models that leave for Hugging Face's transformers."""

import itertools
import json
import os

import keras
import numpy as np
import pytest

from keras_headattn.interop import from_pretrained, read_config, read_tensors, to_hugging_face, tokenizer_of
from keras_headattn.layers import FeedForward
from keras_headattn.models import CausalLM
from keras_headattn.text import BytePairTokenizer, ByteTokenizer, train_byte_pairs
from tests.interop.test_language_model_tokenizers import KINDS, MODELS, TEXTS, check, peer, write
from tests.layers.harness import array

tokenizers = pytest.importorskip("tokenizers")

IDS = np.random.default_rng(0).integers(0, 256, (2, 9)).astype("int32")


def language_model(**changes):
    norm, feed_forward = keras.layers.RMSNormalization(), FeedForward(24, "silu", gated=True, use_bias=False)
    arguments = dict(num_layers=2, hidden_dim=16, num_heads=2, norm=norm, feed_forward=feed_forward, seed=0)
    model = CausalLM(710, **{**arguments, "attention_arguments": {"use_bias": False}, **changes})
    model.build()
    return model


@pytest.fixture(scope="module")
def model():
    return language_model()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def check_same(model, again):
    for ours, theirs in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(theirs, ours)


def test_models_without_biases_leave_as_gpt2(tmp_path):
    """They are 0 there, so that nanoGPT's sizes can leave."""
    model = CausalLM.from_size("nano_cpu", 300, num_layers=2, hidden_dim=16, num_heads=2, intermediate_dim=24, seed=0)
    model.build()
    to_hugging_face(model, tmp_path)
    again, transformers = from_pretrained(tmp_path), pytest.importorskip("transformers")
    assert len(again.weights) > len(model.weights)
    np.testing.assert_allclose(array(again(IDS)), array(model(IDS)), atol=1e-6)
    torch = pytest.importorskip("torch")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)(torch.from_numpy(IDS).long()).logits
    np.testing.assert_allclose(theirs.detach().numpy(), array(model(IDS)), atol=1e-5)


# Shards


def test_shards(model, tmp_path):
    to_hugging_face(model, tmp_path / "whole")
    assert names(tmp_path / "whole") == ["config.json", "generation_config.json", "model.safetensors"]
    whole = read_tensors(tmp_path / "whole")
    to_hugging_face(model, tmp_path / "parts", max_shard_size=4000)
    index = json.loads((tmp_path / "parts" / "model.safetensors.index.json").read_text())
    files, count = index["weight_map"], len({*index["weight_map"].values()})
    assert {*files.values()} == {f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)}
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in whole.values())
    assert names(tmp_path / "parts") == sorted(
        ["config.json", "generation_config.json", "model.safetensors.index.json", *{*files.values()}]
    )
    parts = {file: read_tensors(tmp_path / "parts" / file) for file in {*files.values()}}
    assert {name: file for file, part in parts.items() for name in part} == files
    for part in parts.values():
        assert len(part) == 1 or sum(tensor.nbytes for tensor in part.values()) <= 4000
    assert 2 < count < len(whole)
    for name, tensor in read_tensors(tmp_path / "parts").items():
        np.testing.assert_array_equal(tensor, whole[name])
    check_same(model, from_pretrained(tmp_path / "parts"))


@pytest.mark.parametrize("first, second", [(1e9, 4000), (4000, 1e9), (4000, 9000)])
def test_an_older_model_is_gone(first, second, model, tmp_path):
    to_hugging_face(language_model(seed=1, suppress=[3]), tmp_path / "both", max_shard_size=first)
    for folder in ("both", "alone"):
        to_hugging_face(model, tmp_path / folder, max_shard_size=second)
    assert names(tmp_path / "both") == names(tmp_path / "alone")
    check_same(model, from_pretrained(tmp_path / "both"))
    assert not from_pretrained(tmp_path / "both").suppress


@pytest.mark.parametrize("first, second", [(1e9, 20_000), (20_000, 1e9)])
def test_an_interrupted_export_leaves_no_mixture(first, second, model, tmp_path, monkeypatch):
    old, replace, outcomes = language_model(seed=1), os.replace, []
    for done in itertools.count():
        to_hugging_face(old, tmp_path, max_shard_size=first)
        calls = itertools.count()

        def interrupted(*paths, calls=calls, done=done):
            if next(calls) == done:
                raise KeyboardInterrupt
            replace(*paths)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", interrupted)
            try:
                to_hugging_face(model, tmp_path, max_shard_size=second)
            except KeyboardInterrupt:
                try:
                    check_same(old, from_pretrained(tmp_path))
                    outcomes.append("old")
                except ValueError as error:
                    assert "damaged" in str(error) and "model.safetensors" in str(error)
                    outcomes.append("none")
            else:
                break
    assert outcomes == ["old"] + ["none"] * (len(outcomes) - 1) and len(outcomes) > 3
    check_same(model, from_pretrained(tmp_path))


# Search settings


def test_suppressed_ids(tmp_path):
    to_hugging_face(language_model(suppress=[3, 5]), tmp_path)
    assert json.loads((tmp_path / "generation_config.json").read_text()) == {"bad_words_ids": [[3], [5]]}
    assert list(from_pretrained(tmp_path).suppress) == [3, 5]


def test_ids_of_the_tokenizer(model, tmp_path):
    vocabulary = [*ByteTokenizer().vocabulary, "<s>", "<pad>"]
    specials = {"bos": "<s>", "eos": "<|endoftext|>", "pad": "<pad>"}
    tokenizer = BytePairTokenizer(vocabulary, [], specials=specials, add_eos=False)
    to_hugging_face(model, tmp_path, tokenizer=tokenizer)
    ids = {"bos_token_id": 257, "eos_token_id": 256, "pad_token_id": 258}
    assert json.loads((tmp_path / "generation_config.json").read_text()) == ids
    assert ids.items() <= read_config(tmp_path).items()
    to_hugging_face(model, tmp_path, tokenizer=ByteTokenizer())
    assert json.loads((tmp_path / "generation_config.json").read_text()) == {"eos_token_id": 256}
    assert "bos_token_id" not in read_config(tmp_path)


# Tokenizers


@pytest.mark.parametrize("name", MODELS)
def test_tokenizers(name, model, tmp_path):
    """The ids of the tokenizer itself, of the package, and of the tokenizer that is read again."""
    given = tokenizer_of(write(tmp_path / "theirs", KINDS.get(name, name), json.loads(peer(name).to_str())))
    (tmp_path / "ours").mkdir()
    for file in ("added_tokens.json", "special_tokens_map.json"):
        (tmp_path / "ours" / file).write_text('{"<old>": 3}')
    to_hugging_face(model, tmp_path / "ours", tokenizer=given)
    again = tokenizer_of(tmp_path / "ours")
    assert again.fingerprint == given.fingerprint
    check(given, tokenizers.Tokenizer.from_file(str(tmp_path / "ours" / "tokenizer.json")), TEXTS[:700])


def test_trained_byte_pairs_keep_their_fingerprint(model, tmp_path):
    given = train_byte_pairs(["the cat sat on the mat"] * 9, 300)
    to_hugging_face(model, tmp_path, tokenizer=given)
    assert tokenizer_of(tmp_path).fingerprint == given.fingerprint


def test_prefixes_and_lost_bytes(model, tmp_path):
    """A space before the first word, merges of whole words, and bytes that the vocabulary lacks, which are left out."""
    vocabulary = ["a", "c", "t", "Ġ", "at", "Ġc", "Ġcat", "<mask>", "</s>"]
    options = dict(add_prefix_space=True, ignore_merges=True, specials={"eos": "</s>", "mask": "<mask>"}, add_eos=False)
    tokenizer = BytePairTokenizer(vocabulary, ["a t", "Ġ c"], added_tokens=["<b>"], **options)
    to_hugging_face(model, tmp_path, tokenizer=tokenizer)
    again, theirs = tokenizer_of(tmp_path), tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("cat cat", "a <b>cat  <mask>!</s>", "über", ""):
        ids = tokenizer.encode([text], special_tokens=True)[0].tolist()
        assert again.encode([text], special_tokens=True)[0].tolist() == ids == theirs.encode(text).ids


def test_bytes(model, tmp_path):
    to_hugging_face(model, tmp_path, tokenizer=ByteTokenizer())
    check(ByteTokenizer(), tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")), TEXTS[:700])
    assert tokenizer_of(tmp_path).encode(["aé"])[0].tolist() == [97, 195, 169]


@pytest.mark.parametrize("model_type", ["llama", "gpt2", "gemma2"])
def test_live(libraries, model_type, tmp_path):
    """transformers reads shards, search settings and the tokenizer."""
    torch, transformers = libraries
    arguments = {}
    if model_type == "gpt2":
        arguments = dict(norm=keras.layers.LayerNormalization(epsilon=1e-5), positions="learned", max_length=64)
        arguments |= dict(feed_forward=FeedForward(24, "gelu_tanh"), attention_arguments={"use_bias": True})
    if model_type == "gemma2":
        arguments = dict(normalization="sandwich", embedding_scale=4.0)
        arguments |= dict(feed_forward=FeedForward(24, "gelu_tanh", gated=True, use_bias=False))
    given = tokenizer_of(write(tmp_path / "theirs", "llama", json.loads(peer("llama3").to_str())))
    model = language_model(**arguments, suppress=[3])
    to_hugging_face(model, tmp_path / "ours", tokenizer=given, max_shard_size=20_000)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    rows = [ids.tolist() for ids in given.encode(TEXTS, special_tokens=True)]
    assert tokenizer(TEXTS)["input_ids"] == rows
    expected = [text.decode() for text in given.detokenize(given(TEXTS, special_tokens=True)).numpy()]
    assert tokenizer.batch_decode(rows, skip_special_tokens=True) == expected
    with torch.no_grad():
        logits = theirs(torch.tensor(IDS)).logits.numpy()
    np.testing.assert_allclose(logits, array(model(IDS)), rtol=0, atol=1e-5 * np.abs(logits).max())
    settings = theirs.generation_config
    assert (settings.bos_token_id, settings.eos_token_id, settings.bad_words_ids) == (given.bos_id, given.eos_id, [[3]])
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (given.bos_id, given.eos_id)
