import collections
import json
import re
import unicodedata

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.text import BytePairTokenizer

SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
SENTENCES = ["the cat's mat", "They'll see  the 42 cats", "aaaa bbbb abab", "the thesis then", "é 😀 é"]
BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
SIGNS = {byte: chr(byte) for byte in BYTES}
SIGNS |= {byte: chr(256 + i) for i, byte in enumerate(byte for byte in range(256) if byte not in BYTES)}


def words_of(text):
    """GPT-2's pattern, in which each character stands for its kind."""
    kinds = "".join(
        "_" if c == " " else "W" if c.isspace() and c not in "\x1c\x1d\x1e\x1f" else unicodedata.category(c)[0]
        for c in text
    )
    kinds = re.sub("[^_WLN]", "O", kinds)
    place, words = 0, []
    while place < len(text):
        match = re.compile(r"'(s|t|re|ve|m|ll|d)").match(text, place)
        match = match or re.compile(r"_?L+|_?N+|_?O+|[_W]+(?![^_W])|[_W]+").match(kinds, place)
        words.append(text[place : match.end()])
        place = match.end()
    return words


def merged(word, merges):
    """A word as a tuple of tokens, by one merge at a time."""
    tokens = [SIGNS[byte] for byte in word.encode()]
    while True:
        ranks = [merges.get(pair, len(merges)) for pair in zip(tokens, tokens[1:], strict=False)]
        if not ranks or min(ranks) == len(merges):
            return tuple(tokens)
        place = ranks.index(min(ranks))
        tokens[place : place + 2] = ["".join(tokens[place : place + 2])]


def learn(number=40):
    merges = {}
    for _ in range(number):
        pairs = collections.Counter()
        for word in (word for sentence in SENTENCES for word in words_of(sentence)):
            tokens = merged(word, merges)
            pairs.update(zip(tokens, tokens[1:], strict=False))
        if not pairs:
            break
        merges[min(pairs, key=lambda pair: (-pairs[pair], pair))] = len(merges)
    return merges


@pytest.fixture(scope="module")
def merges():
    return learn()


@pytest.fixture(scope="module")
def tokenizer(merges):
    vocabulary = [*SPECIALS, *SIGNS.values(), *map("".join, merges), "<mask>"]
    return BytePairTokenizer(vocabulary, [" ".join(pair) for pair in merges])


def tokens(tokenizer, text):
    ids = tokenizer.encode([text])[0]
    assert (ids[0], ids[-1]) == (tokenizer.bos_id, tokenizer.eos_id) and ids.dtype == "int32"
    return [tokenizer.id_to_token(i) for i in ids[1:-1]]


CHARACTERS = st.sampled_from(" \t\n\r\x0b\x1c\x85\xa0\u3000'stedlaabb4½²é中😀\u0301\u200d.!\0\ufffd")


def check(tokenizer, merges, texts):
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        found = [tokenizer.id_to_token(i) for i in ids[1:-1]]
        assert found == [token for word in words_of(text) for token in merged(word, merges)], text
    assert [text.decode() for text in tokenizer.detokenize(tokenizer(texts)).numpy()] == texts


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(CHARACTERS, max_size=30), min_size=6, max_size=20))
def test_slow_code_gives_the_same(tokenizer, merges, texts):
    check(tokenizer, merges, texts)


def test_some_texts(tokenizer, merges):
    check(tokenizer, merges, ["", " ", *SENTENCES, "a" * 999, "ab" * 500 + "=" * 99, "x\r\n\r\n y'S"])


def test_very_long_text(tokenizer):
    text = "".join(chr(97 + i * i % 26) for i in range(100_000)) + "a" * 100_000
    assert tokenizer.detokenize(tokenizer([text])).numpy()[0].decode() == text
    assert tokenizer.with_max_length(128)([text]).shape == (1, 128)


def test_odd_texts(tokenizer):
    assert tokens(tokenizer, b"a\xff\xe2\x82") == tokens(tokenizer, "a\ufffd\ufffd")
    special = "<s> </s><mask>"  # is no special token where it is written
    assert set(tokens(tokenizer, special)).isdisjoint([*SPECIALS, "<mask>"])
    assert tokenizer.detokenize(tokenizer([special])).numpy()[0].decode() == special


def test_one_text_and_pairs(tokenizer):
    bos, pad, eos = 0, 1, 2
    cat, the = (tokenizer.encode([word])[0][1:-1].tolist() for word in ("cat", "the"))
    found = tf.function(tokenizer, autograph=False)(tf.constant(["cat", ""])).numpy().tolist()
    assert found == [[bos, *cat, eos], [bos, eos, *[pad] * len(cat)]]
    (row,) = tokenizer(["cat"], ["the"]).numpy().tolist()
    assert row == [bos, *cat, eos, eos, *the, eos] == tokenizer.encode(["cat"], ["the"])[0].tolist()
    shorter = tokenizer.with_max_length(6)
    assert shorter(["the " * 9], ["the"]).numpy().tolist() == [[bos, *the, eos, eos, *the, eos]]
    assert shorter(["the " * 9]).shape == (1, 6)
    assert tokenizer.detokenize([row]).numpy().tolist() == [b"catthe"]
    assert tokenizer.encode([]) == [] and tokenizer(tf.constant([], tf.string)).shape[0] == 0


def test_a_space_before_the_text(tokenizer):
    spaced = BytePairTokenizer(tokenizer.vocabulary, tokenizer.merges, add_prefix_space=True)
    same_texts = {"the": " the", " the": " the", "\tthe": " \tthe", "\n": " \n", "\u3000a": " \u3000a", "\xa0": " \xa0"}
    for text, same in {**same_texts, "": "", "  a": "  a", b"\xffa": " \ufffda"}.items():
        np.testing.assert_array_equal(spaced([text]), tokenizer([same]))


def test_attributes_and_files(tokenizer, tmp_path):
    ids = tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id
    assert ids == (1, 3, 0, 2, tokenizer.vocabulary_size - 1)
    vocabulary = {token: number for number, token in enumerate(tokenizer.vocabulary)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *tokenizer.merges, ""]), encoding="utf-8")
    again = BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert (again.vocabulary, again.merges) == (tokenizer.vocabulary, tokenizer.merges)
    few = BytePairTokenizer([*SPECIALS, "a"], [])
    assert few(["ab"]).numpy().tolist() == [[0, 4, 3, 2]] and few.mask_id == -1


def test_saved_with_a_model(tokenizer, tmp_path):
    """As a SavedModel and in a file of Keras; `tests/serving/test_exports.py` runs SavedModels without this library."""
    tokenizer = BytePairTokenizer(tokenizer.vocabulary, tokenizer.merges, added_tokens=["[E1]"])
    texts = keras.Input((), dtype="string"), keras.Input((), dtype="string")
    keras.Model(texts, tokenizer(*texts)).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    expected = tokenizer(["the [E1] cat"], ["é"]).numpy().tolist()
    assert again((tf.constant(["the [E1] cat"]), tf.constant(["é"]))).numpy().tolist() == expected
    module = tf.Module()
    module.tokenizer = again.layers[-1]
    signature = tf.function(lambda text, second: {"ids": module.tokenizer(text, second)}, autograph=False)
    specs = [tf.TensorSpec((None,), tf.string, name) for name in ("text", "second")]
    tf.saved_model.save(module, str(tmp_path / "saved"), signature.get_concrete_function(*specs))
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"]
    found = served(text=tf.constant(["the [E1] cat"]), second=tf.constant(["é"]))
    assert found["ids"].numpy().tolist() == expected


@pytest.mark.parametrize("text, told", [
    ('{"a": "0"}', "vocab.json .* Received: 'a': '0'"),
    ('{"a": true}', "vocab.json .* Received: 'a': True"),
    ("[]", "vocab.json .* Received: list"),
    ('{"": 0}', "vocab.json .* Received: '' of id 0"),
    ('{"a": 0, "\\ud800": 1}', "Received: '\\\\ud800' of id 1"),
    ("[" * 100_000, "vocab.json is not JSON"),
    ("{", "vocab.json is not JSON. Received: "),
])  # fmt: skip
def test_damaged_vocabularies(text, told, tmp_path):
    (tmp_path / "vocab.json").write_text(text)
    with pytest.raises(ValueError, match=told):
        BytePairTokenizer(tmp_path / "vocab.json", [])


def test_damaged_merges(tmp_path):
    vocabulary, path = [*SPECIALS, "a", "b", "ab"], tmp_path / "merges.txt"
    for text, line in {"#version: 0.2\na b\na c\n": 3, "a b\n\na\tb": 3, "a b\na b": 2}.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"merges.txt, line {line}"):
            BytePairTokenizer(vocabulary, path)


def test_added_tokens(tokenizer):
    options = [{"content": "[L]", "lstrip": True}, {"content": "[R]", "rstrip": True}, "[E1]", "[E12]", "the"]
    added = BytePairTokenizer(tokenizer.vocabulary, tokenizer.merges, added_tokens=options)
    size = tokenizer.vocabulary_size
    assert added.vocabulary_size == size + 4  # "the" is one of the vocabulary
    the = added.vocabulary.index("the")
    for text, expected in {
        "a[E1]b": ["a", size + 2, "b"],
        "[E12][E1] a": [size + 3, size + 2, " a"],
        "a \u3000[L] b": ["a", size, " b"],
        "a [R] \n b": ["a ", size + 1, "b"],
        "cathe": ["ca", the],
        "": [],
    }.items():
        ids = [i for part in expected for i in ([part] if isinstance(part, int) else tokenizer.encode([part])[0][1:-1])]
        assert added.encode([text])[0][1:-1].tolist() == ids == added([text]).numpy()[0, 1:-1].tolist(), text
    texts = ["a[E1]b é[E12]", "\xff[E1]"]
    assert [text.decode() for text in added.detokenize(added(texts)).numpy()] == texts
    again = BytePairTokenizer.from_config(added.get_config())
    assert again.get_config() == added.get_config() and again.vocabulary == added.vocabulary


def test_ids_of_hugging_face(shared_data, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    with open(shared_data / "sst2_sick" / "sentiment-test", encoding="utf-8") as file:
        texts = [line.split("\t")[0] for line in file]
    texts += (shared_data / "sentencepiece" / "botchan.txt").read_text(encoding="utf-8").splitlines()
    texts += ["It's  4 o'clock,\n\nisn't it?", "日本語 \u3000 👩\u200d👧 ﬁ½", "\x00\x1c\x85\u2028 ", "   "]
    peer = tokenizers.ByteLevelBPETokenizer(add_prefix_space=False)
    peer.train_from_iterator(texts, 3000, special_tokens=[*SPECIALS, "<mask>"], show_progress=False)
    peer.save_model(str(tmp_path))
    found = BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt").encode(texts)
    different = [t for t, a, b in zip(texts, peer.encode_batch(texts), found, strict=True) if a.ids != b[1:-1].tolist()]
    assert len(texts) > 5_000 and not different
