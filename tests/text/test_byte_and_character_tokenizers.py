"""Tokenizers of bytes and characters, and what all tokenizers of language models share."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.text import BytePairTokenizer, ByteTokenizer, CharacterTokenizer, WordPieceTokenizer
from tests.refusals import refused
from tests.text.generated import generated_texts

TEXTS = [text for text in generated_texts(300) if text]
WITH_END = BytePairTokenizer(["<|end|>", "a", "b", "ab"], ["a b"], specials={"eos": "<|end|>"}, add_eos=False)


def make(cls):
    return cls() if cls is ByteTokenizer else cls(sorted({*"".join(TEXTS)}))


@pytest.mark.parametrize("cls", [ByteTokenizer, CharacterTokenizer])
def test_ids_and_texts(cls, tmp_path):
    tokenizer = make(cls)
    characters = sorted({*"".join(TEXTS)})
    expected = [list(t.encode()) if cls is ByteTokenizer else [characters.index(c) for c in t] for t in TEXTS[:99]]
    encoded = tokenizer.encode(TEXTS[:99])
    assert [ids.tolist() for ids in encoded] == expected and encoded[0].dtype == "int32"
    ids = tokenizer(TEXTS).numpy()
    for row, text, decoded in zip(ids, TEXTS, tokenizer.detokenize(ids).numpy(), strict=True):
        assert decoded.decode() == text and tokenizer.token_bytes[row[row >= 0]].sum() == len(text.encode())
    assert tokenizer.token_bytes.dtype == "int32" and len(tokenizer.token_bytes) == tokenizer.vocabulary_size
    assert tokenizer.with_max_length(4)(["a" * 7]).shape == (1, 4)
    texts = keras.Input((), dtype="string")
    keras.Model(texts, tokenizer(texts)).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(tf.constant(TEXTS)), ids)
    served = tf.Module()
    served.tokenizer = again.layers[-1]
    call = tf.function(served.tokenizer, [tf.TensorSpec([None], tf.string)], autograph=False)
    tf.saved_model.save(served, str(tmp_path / "saved"), call)
    found = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"](tf.constant(TEXTS))
    np.testing.assert_array_equal([*found.values()][0], ids)


@pytest.mark.parametrize("cls", [ByteTokenizer, CharacterTokenizer])
def test_offsets(cls):
    ids, starts, ends = make(cls).tokenize_with_offsets([TEXTS[0], "a b"])
    spans = [(i, i + 1) for i, c in enumerate(TEXTS[0]) for _ in (c.encode() if cls is ByteTokenizer else "x")]
    found = zip(starts.to_list()[0], ends.to_list()[0], strict=True)
    assert len(spans) == len(ids[0])
    for (start, end), (first, last) in zip(found, spans, strict=True):
        assert (start, end) in ((first, last), (last, last))  # white space is no part of a piece


def test_offsets_of_bytes_that_are_left_out():
    with pytest.raises(tf.errors.InvalidArgumentError, match="every byte"):
        WITH_END.tokenize_with_offsets(["abc"])
    assert WITH_END.tokenize_with_offsets(["bab"])[1].to_list() == [[0, 1]]


def test_special_tokens_of_bytes():
    tokenizer = ByteTokenizer()
    assert (tokenizer.vocabulary_size, tokenizer.eos_id, tokenizer.bos_id, tokenizer.pad_id) == (257, 256, -1, -1)
    assert 256 not in tokenizer.encode(["a<|endoftext|>"])[0] and tokenizer.token_bytes[256] == 0
    for text, ids in {
        "a<|endoftext|>b": [97, 256, 98],
        "<|endoftext|>" * 2: [256, 256],
        b"\xff": [239, 191, 189],
    }.items():
        assert tokenizer.encode([text], special_tokens=True)[0].tolist() == ids
    assert tokenizer.detokenize([[97, 256, 98, -1, 257]]).numpy().tolist() == [b"ab"]


def test_unknown_characters():
    tokenizer = CharacterTokenizer("abc")
    with refused("vocabulary", "'é'"):
        tokenizer(["abc", "aébü"])
    with refused("vocabulary", "'\ufffd'"):
        tokenizer.encode([b"a\xff"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="vocabulary"):
        tf.function(tokenizer)(tf.constant(["d"]))
    assert tokenizer.encode(["", "cab"])[1].tolist() == [2, 0, 1] and tokenizer.eos_id == -1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-1, 257), max_size=30))
def test_streams(ids):
    """As Python decodes the whole; no piece holds a character that a later byte could still change."""
    tokenizer = ByteTokenizer()
    decoder = tokenizer.stream_decoder()
    pieces = [decoder.decode(i) for i in ids]
    data = bytes(i for i in ids if 0 <= i < 256)
    assert "".join(pieces) + decoder.finish() == data.decode("utf-8", "replace")
    assert tokenizer.detokenize([ids or [-1]]).numpy()[0] == data


def test_a_stream_of_merged_bytes():
    tokenizer = BytePairTokenizer(["<|end|>", "a", "Ã", "©", "aÃ", "Ġ"], ["a Ã"], specials={"eos": "<|end|>"})
    decoder = tokenizer.stream_decoder()
    assert [decoder.decode(i) for i in tokenizer.encode(["aé a"])[0]] == ["a", "é", " ", "a", ""]
    assert decoder.decode(2) == "" and decoder.finish() == "\ufffd"


def test_tokens_at_the_ends():
    vocabulary, merges = ["<b>", "<e>", "a", "b", "ab"], ["a b"]
    both = BytePairTokenizer(vocabulary, merges, specials={"bos": "<b>", "eos": "<e>"}, max_length=5)
    assert both(["abababab<b>"], special_tokens=True).numpy().tolist() == [[0, 4, 4, 4, 1]] and both.joins_pairs
    first = BytePairTokenizer(vocabulary, merges, specials={"bos": "<b>", "eos": "<e>"}, add_eos=False, max_length=5)
    ids = first(["ababab<e>b", "<e>"], special_tokens=True).numpy()
    assert ids.tolist() == [[0, 4, 4, 4, 1], [0, 1, -1, -1, -1]]
    assert first.is_cut(["abababab", "ababababa"]).numpy().tolist() == [False, True] and not first.joins_pairs
    none = BytePairTokenizer(vocabulary, merges, specials=None)
    assert none(["<b>ab", "a"]).numpy().tolist() == [[3, 4], [2, -1]]  # bytes that the vocabulary lacks are left out
    assert none(["<b>ab"], special_tokens=True).numpy().tolist() == [[3, 4]]
    for tokenizer in (first, none):
        with refused("second_texts", "eos_id"):
            tokenizer(["a"], ["b"])


def test_special_tokens_of_encoders():
    """They are found where asked for; a mask takes the white space before it."""
    pieces = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "[", "]", "mask"])
    assert pieces(["a [MASK]a"], special_tokens=True).numpy().tolist() == [[2, 5, 4, 5, 3]]
    assert pieces(["a [MASK]"]).numpy().tolist() == [[2, 5, 7, 9, 8, 3]]
    pairs = pieces.encode(["a"], ["[SEP]a"], special_tokens=True)
    assert pairs["token_ids"][0].tolist() == [2, 5, 3, 3, 5, 3]
    roberta = BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", "a", "Ġ", "<mask>"], [])
    assert roberta(["a <mask> a"], special_tokens=True).numpy().tolist() == [[0, 4, 6, 5, 4, 2]]


def test_added_special_tokens():
    added = [{"content": "<|x|>", "special": True}, "<y>", {"content": "ab", "special": True}]
    tokenizer = BytePairTokenizer(WITH_END.vocabulary, WITH_END.merges, specials=None, added_tokens=added)
    assert tokenizer.encode(["<|x|>a<y>ab"])[0].tolist() == [1, 5, 3]
    assert tokenizer.encode(["<|x|>a<y>ab"], special_tokens=True)[0].tolist() == [4, 1, 5, 3]
    assert tokenizer.token_bytes.tolist() == [7, 1, 1, 0, 0, 3] and WITH_END.token_bytes.tolist() == [0, 1, 1, 2]
    assert tokenizer.detokenize([[4, 1, 5, 3]]).numpy().tolist() == [b"a<y>"]


def test_fingerprints():
    """Of all that changes ids, and nothing else."""
    config = WITH_END.get_config()
    changes = dict(
        merges=[], specials=None, added_tokens=["x"], add_eos=True, pre_tokenizer="llama3", ignore_merges=True,
        vocabulary=["<|end|>", "b", "a", "ab"],
    )  # fmt: skip
    prints = [BytePairTokenizer.from_config({**config, name: value}).fingerprint for name, value in changes.items()]
    prints += [ByteTokenizer().fingerprint, CharacterTokenizer("ab").fingerprint, CharacterTokenizer("ba").fingerprint]
    assert len({*prints, WITH_END.fingerprint}) == len(prints) + 1
    assert BytePairTokenizer.from_config({**config, "name": "x", "max_length": 9}).fingerprint == WITH_END.fingerprint
