import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.text import WordPieceTokenizer
from tests.processes import run_python
from tests.refusals import refused

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["a", "cat", "##s", "dog", "É", "e", "km", "##²", "…", "[", "]", "mask", "cl", "中", "σ", "##σ", "ab"]
PAD, UNK, CLS, SEP, MASK = range(5)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(SPECIALS + WORDS)


def tokens(tokenizer, text):
    ids = tokenizer.encode([text])[0]
    assert (ids[0], ids[-1]) == (tokenizer.bos_id, tokenizer.eos_id) and ids.dtype == "int32"
    return " ".join(tokenizer.id_to_token(i) for i in ids[1:-1])


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Cats a dog", "cat ##s a dog"),
        ("", ""),
        (" \t\n", ""),
        ("É é", "e e"),
        ("km² …", "km ##² …"),  # one sign each, not "km2" and "..."
        ("[MASK] [CLS]", "[ mask ] [ cl ##s ]"),  # special tokens are no part of texts
        ("a中a", "a 中 a"),
        ("ΣΣ", "σ ##σ"),
        ("a\0b a\ufffdb a\u200db", "ab ab ab"),
        ("a\N{NO-BREAK SPACE}cat\u2028dog", "a cat dog"),
        ("😀 \N{WOMAN}\u200d\N{GIRL} a", "[UNK] [UNK] a"),
        ("a" * 101 + " a", "[UNK] a"),
        (b"a \xff\xfe cat\xe2\x82", "a [UNK] cat"),
    ],
)
def test_pieces(tokenizer, text, expected):
    if isinstance(text, bytes):  # what is no UTF-8 is left out
        text, expected = text, expected.replace("[UNK] ", "")
    assert tokens(tokenizer, text) == expected


def test_case_may_be_kept():
    assert tokens(WordPieceTokenizer(SPECIALS + WORDS, lowercase=False), "É é Cat cat") == "É [UNK] [UNK] cat"


@pytest.mark.parametrize("letter", ["a", "ก", "я", "😀"])
def test_words_of_more_than_100_letters(letter):
    """However many bytes they have; other words of the text stay."""
    tokenizer = WordPieceTokenizer(sorted({*SPECIALS, "a", letter, f"##{letter}", f"##{letter * 3}"}))
    for count, pieces in {34: 12, 97: 33, 100: 34, 101: 1, 400: 1, 401: 1}.items():
        ids = tokenizer.encode([f"a {letter * count} a"])[0][1:-1].tolist()
        assert len(ids) == 2 + pieces, count
        assert (ids[1] == tokenizer.unk_id) == (count > 100)
        assert tokenizer([f"a {letter * count} a"]).numpy()[0, 1:-1].tolist() == ids


@pytest.mark.parametrize("strip_accents, lowercase, expected", [
    (None, True, "e e"), (False, True, "[UNK] [UNK]"), (True, False, "[UNK] e"), (None, False, "É [UNK]"),
])  # fmt: skip
def test_accents(strip_accents, lowercase, expected):
    assert tokens(WordPieceTokenizer(SPECIALS + WORDS, lowercase, strip_accents=strip_accents), "É é") == expected


def test_added_tokens(tokenizer):
    options = [{"content": "[E1]", "normalized": True}, "[X]", {"content": "new", "normalized": True}, "cat"]
    added = WordPieceTokenizer(SPECIALS + WORDS, added_tokens=options)
    assert added.vocabulary[-3:] == ("[E1]", "[X]", "new") and added.unk_id == UNK
    for text, expected in {
        "a [E1] [e1]dog": "a [E1] [E1] dog",
        "a[X]a [x]": "a [X] a [ [UNK] ]",
        "NEW aNéw": "new a new",
        "cats": "cat [UNK]",  # "cat" is taken before its ending
        "[E1][X][E1]": "[E1] [X] [E1]",
        "": "",
    }.items():
        assert tokens(added, text) == expected
        assert added([text, "a"]).numpy()[0][: 2 + len(expected.split())].tolist() == added.encode([text])[0].tolist()
    pair = added(["a [E1]"], ["[X]"])
    assert pair["token_ids"].numpy().tolist() == [[CLS, 5, len(SPECIALS + WORDS), SEP, len(SPECIALS + WORDS) + 1, SEP]]
    assert added.detokenize(pair["token_ids"]).numpy().tolist() == [b"a [E1] [X]"]
    assert tokens(added.with_max_length(99), "[e1]") == "[E1]"


def test_very_long_text(tokenizer):
    (ids,) = tokenizer.encode(["cat " * 50_000])
    assert len(ids) == 50_002
    assert tokenizer.with_max_length(128)(["cat " * 50_000]).shape == (1, 128)


def test_one_text(tokenizer):
    ids = tf.function(tokenizer, autograph=False)(tf.constant(["a cats", ""]))
    assert ids.dtype == "int32" and ids.numpy().tolist() == [[CLS, 5, 6, 7, SEP], [CLS, SEP, PAD, PAD, PAD]]
    np.testing.assert_array_equal(tokenizer([["a cats"], [""]]), ids)
    assert tokenizer.encode([]) == [] and tokenizer(tf.constant([], tf.string)).shape[0] == 0


def test_pairs(tokenizer):
    texts, second_texts = ["a cats", ""], ["dog", "a a"]
    found = tokenizer(texts, second_texts)
    assert found["token_ids"].numpy().tolist() == [[CLS, 5, 6, 7, SEP, 8, SEP], [CLS, SEP, 5, 5, SEP, PAD, PAD]]
    assert found["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 1, 0, 0]]
    encoded = tokenizer.encode(texts, second_texts)
    for name, rows in encoded.items():
        for row, ids in zip(found[name].numpy(), rows, strict=True):
            assert row[: len(ids)].tolist() == ids.tolist() and not row[len(ids) :].any()
    assert tokenizer.encode([], []) == {"token_ids": [], "segment_ids": []}
    assert tokenizer.detokenize(found["token_ids"]).numpy().tolist() == [b"a cats dog", b"a a"]


def truncated(first, second, room):
    """Hugging Face's `longest_first`, one id at a time but for who keeps the odd one."""
    swapped = first > second
    short, long = sorted((first, second))
    while short + long > room:
        if long > short:
            long -= 1
        else:
            short -= 1
    return (long, short) if swapped else (short, long)


def test_the_longer_text_is_cut_first():
    tokenizer = WordPieceTokenizer(SPECIALS + WORDS, max_length=8)
    sizes = list(itertools.product(range(8), repeat=2))
    found = tokenizer(["a " * first for first, _ in sizes], ["dog " * second for _, second in sizes])
    for (first, second), ids in zip(sizes, found["token_ids"].numpy(), strict=True):
        assert ((ids == 5).sum(), (ids == 8).sum()) == truncated(first, second, 5)
        assert (ids == SEP).sum() == 2
    assert tokenizer(["a " * 20]).numpy().tolist() == [[CLS, *[5] * 6, SEP]]


def test_what_fits_exactly_is_not_cut(tokenizer):
    shorter = tokenizer.with_max_length(6)
    assert shorter.is_cut(["a a a a", "a a a a a"]).numpy().tolist() == [False, True]
    assert shorter.is_cut(["a a", "a a"], ["a", "a a"]).numpy().tolist() == [False, True]


def test_with_max_length(tokenizer):
    shorter = tokenizer.with_max_length(6)
    assert shorter.max_length == 6 and tokenizer.max_length is None
    assert shorter.with_max_length(None) is shorter.with_max_length(9) is shorter
    assert shorter.with_max_length(5).max_length == 5


def test_attributes(tokenizer):
    assert tokenizer.vocabulary_size == len(SPECIALS + WORDS)
    ids = tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id
    assert ids == (PAD, UNK, CLS, SEP, MASK) and tokenizer.id_to_token(7) == "##s"
    assert WordPieceTokenizer([*SPECIALS[:-1], "a"]).mask_id == -1
    elsewhere = WordPieceTokenizer(["a", *reversed(SPECIALS)])
    assert (elsewhere.pad_id, elsewhere.bos_id) == (5, 3)
    assert elsewhere(["a a", "a"]).numpy().tolist() == [[3, 0, 0, 2], [3, 0, 2, 5]]


def test_file_with_odd_tokens(tmp_path):
    """Only a line feed ends a token: multilingual vocabularies have tokens that are white space elsewhere."""
    words = ["\N{NO-BREAK SPACE}", "\u2028", "a"]
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join([*SPECIALS, *words, ""]).encode())
    assert WordPieceTokenizer(path).vocabulary == (*SPECIALS, *words)


def test_saved_with_a_model(tokenizer, tmp_path):
    texts = keras.Input((), dtype="string"), keras.Input((), dtype="string")
    keras.Model(texts, tokenizer(*texts)).save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    found = again((tf.constant(["a cat"]), tf.constant(["dog"])))
    assert found["token_ids"].numpy().tolist() == [[CLS, 5, 6, SEP, 8, SEP]]
    copy = WordPieceTokenizer.from_config(tokenizer.get_config())
    assert copy.get_config() == tokenizer.get_config()


def test_texts_without_second_texts(tokenizer):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="as many `second_texts` as `texts`"):
        tokenizer(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="Received: 2 texts and 1 second_texts"):
        tokenizer.encode(["a", "b"], ["a"])


@pytest.mark.parametrize("line, name, received", [
    ("", "token", "''"),
    ("a\0b", "token", r"'a\x00b'"),
    ("é" * 129, "256 bytes", f"'{'é' * 20}'..."),
    ("[CLS]", "vocabulary", "'[CLS]'"),
])  # fmt: skip
def test_damaged_vocabularies(line, name, received, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIALS, line, "a"]) + "\n", encoding="utf-8")
    with refused(name, f"{received} in {path}, line 6"):
        WordPieceTokenizer(path)


def test_vocabularies_without_a_word(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIALS, "##"]))
    with refused("vocabulary", f"6 tokens in {tmp_path / 'vocab.txt'}"):
        WordPieceTokenizer(tmp_path / "vocab.txt")
    odd = WordPieceTokenizer([*SPECIALS, "##", "###", "#", "a b", "a"])
    assert tokens(odd, "a b ## #") == "a [UNK] # # #"  # a token with a space is never found


def read(path, *columns):
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [row[column] for row in rows for column in columns if column < len(row)]


@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_of_hugging_face(shared_data, lowercase):
    """On all sentences of GLUE that there are."""
    tokenizers = pytest.importorskip("tokenizers")
    path = next(shared_data.glob("tokenizers_tftext/**/uncased_L-12_H-768_A-12/vocab.txt"))
    texts = read(shared_data / "sst2_sick" / "sentiment-test", 0)
    for file in (shared_data / "cola").rglob("raw/*.tsv"):
        texts += read(file, 3)
    texts += read(shared_data / "qnli" / "dev.tsv", 1, 2) + read(shared_data / "wnli" / "train.tsv", 1, 2)
    peer = tokenizers.BertWordPieceTokenizer(str(path), lowercase=lowercase, strip_accents=lowercase)
    found = WordPieceTokenizer(path, lowercase=lowercase).encode(texts)
    different = [t for t, a, b in zip(texts, peer.encode_batch(texts), found, strict=True) if a.ids != b.tolist()]
    assert len(texts) > 20_000 and not different
    peer.enable_truncation(10)
    ours = WordPieceTokenizer(path, lowercase=lowercase, max_length=10)
    pairs = texts[:500], texts[500:1000]
    for other, ids, segments in zip(
        peer.encode_batch(list(zip(*pairs, strict=True))), *ours.encode(*pairs).values(), strict=True
    ):
        assert (other.ids, other.type_ids) == (ids.tolist(), segments.tolist())


TURKISH = """
import os, sys

os.environ["LC_ALL"] = "tr_TR.UTF-8"
from keras_headattn.text import WordPieceTokenizer, WordTokenizer

pieces = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "i", "title"])
print(pieces(["I TITLE"]).numpy().tolist(), WordTokenizer(["title", "i"])(["TITLE I"]).numpy().tolist())
"""


def test_lower_case_in_a_locale_of_other_letters():
    process = run_python("-c", TURKISH)
    assert process.stdout.strip() == "[[2, 4, 5, 3]] [[2, 3]]", process.stderr
