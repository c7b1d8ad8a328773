"""SentencePiece models with byte fallback: ids of the package, texts, streams, offsets and graphs."""

import functools
import io

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from keras_headattn.data import _token_files, write_tokens
from keras_headattn.decoding import Generator
from keras_headattn.models import CausalLM
from keras_headattn.serving import export_generator
from keras_headattn.text import ByteFallbackTokenizer
from tests.text.generated import generated_texts

ODD = ["", " ", "   ", " a", "  the", "the  ", "\n a\r\n", "\u2581a", "a\u2581 b", "12 345", "</s>", "<s>a", "[I] x[I]"]
TEXTS = [*generated_texts(600), *ODD]


@functools.cache
def trained(**changes):
    """The bytes of a small model."""
    options = dict(
        model_type="bpe", vocab_size=600, byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, character_coverage=0.98, split_digits=True, allow_whitespace_only_pieces=True,
        minloglevel=2, num_threads=1,
    )  # fmt: skip
    text = [text.replace("\0", "") for text in TEXTS[:40]] + ["the  cat's 1234 hats,    they'll"] * 50
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text), model_writer=model, **{**options, **changes})
    return model.getvalue()


@pytest.mark.parametrize("changes", [
    {},
    {"control_symbols": "[I]"},
    {"add_dummy_prefix": False, "user_defined_symbols": "[I],\u2581\u2581,\n"},
])  # fmt: skip
def test_ids_and_texts(changes):
    proto = trained(**changes)
    tokenizer, processor = ByteFallbackTokenizer(proto), sentencepiece.SentencePieceProcessor(model_proto=proto)
    encoded = [ids.tolist() for ids in tokenizer.encode(TEXTS)]
    assert encoded == [[1, *ids] for ids in processor.encode(TEXTS)]
    ids = tokenizer(TEXTS).numpy()
    assert [row[row >= 0].tolist() for row in ids] == encoded
    for text, row, decoded in zip(TEXTS, encoded, tokenizer.detokenize(ids).numpy(), strict=True):
        space = " " * (text != "" and "add_dummy_prefix" not in changes)
        assert decoded.decode() == space + text.replace("\u2581", " ")
        assert tokenizer.token_bytes[row].sum() == len(decoded)
        decoder = tokenizer.stream_decoder()
        assert "".join(map(decoder.decode, row)) + decoder.finish() == decoded.decode()
    again = ByteFallbackTokenizer.from_config(tokenizer.get_config())
    np.testing.assert_array_equal(again(TEXTS[-99:]), tokenizer(TEXTS[-99:]))
    assert again.fingerprint == tokenizer.fingerprint != ByteFallbackTokenizer(proto, specials={}).fingerprint


def pieces(tokenizer, *texts, **options):
    return [" ".join(map(tokenizer.id_to_token, ids)) for ids in tokenizer.encode(texts, **options)]


def test_special_tokens():
    proto = trained(user_defined_symbols="[I]")
    tokenizer = ByteFallbackTokenizer(proto)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id) == (1, 2, -1, 0)
    assert pieces(tokenizer, "</s>[I]") == ["<s> \u2581< / s > [I]"]
    assert pieces(tokenizer, "</s>[I]the<unk>", special_tokens=True) == ["<s> </s> \u2581 [I] the <unk>"]
    assert tokenizer.stream_decoder().decode(tokenizer.encode(["the"])[0][-1]) == " the"
    added = [dict(content="[I]", special=True), "<think>", dict(content="[E]", special=True)]
    tokenizer = ByteFallbackTokenizer(proto, added_tokens=added, specials={"eos": "[E]", "pad": "<unk>"}, max_length=4)
    assert tokenizer.with_max_length(9)([]).shape == (0, 0) and tokenizer(["x", "xxx"]).numpy()[0, -1] == 0
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.vocabulary_size) == (-1, 601, 602)
    assert pieces(tokenizer, "[I]the") == ["\u2581 [ <0x49> ]"] and pieces(tokenizer, "<think>the") == [
        "<think> \u2581the"
    ]
    assert pieces(tokenizer, "[I]the[E]", special_tokens=True) == ["[I] \u2581the [E]"]
    assert tokenizer.detokenize([[600, 601, tokenizer.vocabulary.index("[I]"), -1]]).numpy() == [b"<think>"]


def test_a_space_before_the_whole_text():
    tokenizer = ByteFallbackTokenizer(trained(), added_tokens=["<think>"], prefix_once=True)
    texts = ["the<think>the", "<think>the", " the", "\u2581the", "", " <think> the", b"\xffthe"]
    assert [row.removeprefix("<s>").lstrip() for row in pieces(tokenizer, *texts)] == [
        "\u2581the <think> the", "<think> the", "\u2581the", "\u2581the", "", "\u2581 <think> \u2581the",
        "\u2581 <0xEF> <0xBF> <0xBD> the",
    ]  # fmt: skip
    assert pieces(tokenizer, "</s>the", special_tokens=True) == ["<s> </s> the"]


@pytest.mark.parametrize("once", [True, False])
def test_offsets(once):
    tokenizer = ByteFallbackTokenizer(trained(), added_tokens=["<think>"], prefix_once=once)
    texts = ["the cat<think>the \U0001f600", "<think> the", "  the", "the\u2581the", ""]
    found = [side.to_list() for side in tokenizer.tokenize_with_offsets(texts)]
    for text, ids, starts, ends in zip(texts, *found, strict=True):
        text = text.replace("\u2581", " ")
        for token, start, end in zip(ids, starts, ends, strict=True):
            content = tokenizer.token_texts[token]
            assert text[start:end] == ("\U0001f600" if content[0] > 127 else content.decode().lstrip(" "))


def test_long_documents(tmp_path, monkeypatch):
    """As whole: a part would get a space."""
    monkeypatch.setattr(_token_files, "CHARACTERS", 3)
    tokenizer, texts = ByteFallbackTokenizer(trained()), ["the cat's hats", "they'll  the"]
    tokens = write_tokens(tmp_path / "a.bin", texts, tokenizer)
    np.testing.assert_array_equal(tokens.tokens, np.concatenate(tokenizer.encode(texts)))
    assert tokens.document_starts().tolist() == [0, len(tokenizer.encode(texts)[0])]


def test_text_that_goes_on(tmp_path):
    """A SavedModel reads and writes text as the tokenizer does."""
    tokenizer = ByteFallbackTokenizer(trained(), added_tokens=["<think>"])
    model = CausalLM(601, num_layers=1, hidden_dim=8, num_heads=2, seed=0)
    path = export_generator(model, tokenizer, tmp_path, warmup_batch_sizes=(), max_length=6, temperature=2.0)
    signatures = tf.saved_model.load(str(path)).signatures
    (ids,) = tokenizer.encode(["the cat<think>"])
    tokens = Generator(model, max_length=6, temperature=2.0, end_ids=[2])(ids[None])["tokens"]
    texts = signatures["serving_default"](prompts=tf.constant(["the cat<think>"]))["texts"].numpy()
    expected = [text.decode("utf-8", "replace") for text in tokenizer.detokenize(tokens[0]).numpy()]
    assert [text.decode() for text in texts[0]] == expected
