import json
import types

import numpy as np
import pytest

from keras_headattn._sentences import cut_text
from keras_headattn.data import TokenFile, _token_files, write_tokens
from keras_headattn.text import BytePairTokenizer, ByteTokenizer, CharacterTokenizer, train_byte_pairs
from keras_headattn.text._pre_tokenizers import PRE_TOKENIZERS
from tests.refusals import refused

TEXTS = ["a cat", "", "at", "é", "tac at a cat"]
CHARACTERS = CharacterTokenizer(sorted({*"".join(TEXTS)}))
VOCABULARY = ["<b>", "<e>", *"act", "Ġ", "Ã", "©", "at", "Ġc"]
WITH_BOTH = BytePairTokenizer(VOCABULARY, ["a t", "Ġ c"], specials={"bos": "<b>", "eos": "<e>"}, add_eos=False)
WITH_END = BytePairTokenizer(VOCABULARY, ["a t", "Ġ c"], specials={"eos": "<e>"})  # adds it itself
TOKENIZERS = {"bytes": ByteTokenizer(), "characters": CHARACTERS, "begin": WITH_BOTH, "end": WITH_END}


def expected_documents(name):
    """The ids of the documents that are not empty, written down."""
    texts = [text for text in TEXTS if text]
    if name == "bytes":
        return [[*text.encode(), 256] for text in texts]
    if name == "characters":
        return [[CHARACTERS.vocabulary.index(c) for c in text] for text in texts]
    ids = [[2, 9, 8], [8], [6, 7], [4, 2, 3, 5, 8, 5, 2, 9, 8]]
    return [[0, *row] if name == "begin" else [*row, 1] for row in ids]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_files(name, tmp_path, monkeypatch):
    monkeypatch.setattr(_token_files, "DOCUMENTS", 2)
    tokenizer, documents = TOKENIZERS[name], expected_documents(name)
    expected = np.concatenate(documents)
    written = write_tokens(tmp_path / "a.b.bin", iter(TEXTS), tokenizer)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.b.bin", "a.b.json"]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "a.b.bin", "<u2"), expected)
    assert json.loads((tmp_path / "a.b.json").read_text()) == written.manifest == {
        "version": 1, "dtype": "uint16", "tokens": len(expected), "documents": 4, "empty_documents": 1,
        "bytes": len("".join(TEXTS).encode()), "vocabulary_size": tokenizer.vocabulary_size,
        "bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id, "fingerprint": tokenizer.fingerprint,
    }  # fmt: skip
    for tokens in (written, TokenFile(tmp_path / "a.b.bin")):
        assert isinstance(tokens.tokens, np.memmap) and len(tokens) == len(expected)
        np.testing.assert_array_equal(tokens.tokens, expected)
        starts = [0] if name == "characters" else np.cumsum([0, *map(len, documents[:-1])]).tolist()
        for _ in range(2):
            assert tokens.document_starts().tolist() == starts
            monkeypatch.setattr(_token_files, "CHUNK", 3)


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
def test_parts_of_a_text_have_its_words(pre_tokenizer):
    letters, rng = [*"aab12  \n\r\t'ts._-é中²", "\u0301", "\u00a0", "\u2003", "ǅ"], np.random.default_rng(0)
    texts = ["".join(letters[i] for i in rng.integers(len(letters), size=40)) for _ in range(150)]
    parts = [list(cut_text(text, 3)) for text in texts]
    assert ["".join(some) for some in parts] == texts and sum(map(len, parts)) > 300
    tokenizer = train_byte_pairs(texts, 300, pre_tokenizer)
    of_parts = iter(tokenizer.encode([part for some in parts for part in some]))
    for ids, some in zip(tokenizer.encode(texts), parts, strict=True):
        np.testing.assert_array_equal(ids, np.concatenate([next(of_parts) for _ in some]))


@pytest.mark.parametrize("specials, add_eos, added, count", [
    ({"bos": "<b>", "eos": "<e>"}, True, (), 5),
    ({"eos": "<e>"}, True, (), 5),
    ({"bos": "<b>"}, False, (), 5),
    ({"eos": "<e>"}, False, ("t a",), 2),
])  # fmt: skip
def test_long_documents(specials, add_eos, added, count, tmp_path, monkeypatch):
    """In parts, as whole; where an added token may span a cut, whole."""
    texts = ["a cat at a cat", "tac  "]
    added = [dict(content=content, special=False) for content in added]
    options = dict(specials=specials, add_eos=add_eos, added_tokens=added)
    tokenizer = BytePairTokenizer(VOCABULARY, ["a t", "Ġ c"], **options)
    monkeypatch.setattr(_token_files, "CHARACTERS", 3)
    assert sum(map(len, _token_files._portions(texts, _token_files._can_be_cut(tokenizer)))) == count
    end = [tokenizer.eos_id] if tokenizer.bos_id < 0 and not add_eos else []
    expected = np.concatenate([np.append(ids, end) for ids in tokenizer.encode(texts)])
    written = write_tokens(tmp_path / "a.bin", texts, tokenizer)
    np.testing.assert_array_equal(written.tokens, expected)
    assert written.manifest["documents"] == 2


@pytest.mark.parametrize("format", ["nanogpt", "llm.c"])
def test_formats_of_others(format, tmp_path):
    tokenizer = ByteTokenizer()
    write_tokens(tmp_path / "a.bin", ["x"], tokenizer)
    tokens = write_tokens(tmp_path / "a.bin", TEXTS, tokenizer, format)
    data, expected = (tmp_path / "a.bin").read_bytes(), np.concatenate(expected_documents("bytes"))
    if format == "llm.c":
        header, data = np.frombuffer(data[:1024], "<i4"), data[1024:]
        assert header.tolist() == [20240520, 1, len(expected), *[0] * 253]
    np.testing.assert_array_equal(np.frombuffer(data, "<u2"), expected)
    assert not (tmp_path / "a.json").exists() and tokens.eos_id == 256 and tokens.vocabulary_size == 257
    bare = TokenFile(tmp_path / "a.bin")
    np.testing.assert_array_equal(bare.tokens, expected)
    assert (bare.eos_id, bare.bos_id, bare.vocabulary_size, bare.manifest) == (-1, -1, None, {})


def large(size):
    """What is read of a tokenizer; its ids are the characters' code points."""
    encode = lambda texts: [np.array([ord(c) for c in text], "int32") for text in texts]  # noqa: E731
    names = dict(vocabulary_size=size, max_length=None, bos_id=-1, eos_id=size - 1, fingerprint="0" * 64)
    return types.SimpleNamespace(encode=encode, token_bytes=np.ones(size, "int32"), **names)


@pytest.mark.parametrize("size, dtype", [(2**16, "<u2"), (2**16 + 1, "<u4")])
def test_large_vocabularies(size, dtype, tmp_path):
    tokens = write_tokens(tmp_path / "a.bin", ["a\uffee"], large(size))
    assert tokens.tokens.dtype == dtype and tokens.tokens.tolist() == [97, 0xFFEE, size - 1]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "a.bin", dtype), tokens.tokens)


def test_interruptions(tmp_path, monkeypatch):
    """The file before is kept until the new one is complete; never are ids read with the description of others."""
    path, tokenizer = tmp_path / "a.bin", ByteTokenizer()
    before = write_tokens(path, ["before"], tokenizer).tokens.tolist()

    def texts():
        yield from ["a"] * 3000
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tokens(path, texts(), tokenizer)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin", "a.json"]
    assert TokenFile(path, tokenizer).tokens.tolist() == before
    (tmp_path / ".a.0123abcd.bin").write_bytes(b"left by a process that was killed")
    (tmp_path / ".ab.0123abcd.bin").write_bytes(b"of another file")
    for name in ("write_atomically", "atomic_path"):
        with monkeypatch.context() as patch:
            patch.setattr(_token_files, name, lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                write_tokens(path, ["after"], tokenizer)
        if name == "write_atomically":
            with refused("token file", path, FileNotFoundError):
                TokenFile(path)
            write_tokens(path, ["again"], tokenizer)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".ab.0123abcd.bin", "a.bin", "a.json"]
    assert bytes(TokenFile(path, tokenizer).tokens[:-1].tolist()) == b"again"


@pytest.mark.parametrize("sizes, share, place", [
    ([9], 0.1, 9), ([90, 9], 0.1, 91), ([50, 30, 20, 3], 0.1, 103), ([3, 3, 3, 90], 0.5, 12), ([100], 0.5, 50),
])  # fmt: skip
def test_split(sizes, share, place, tmp_path):
    """At the document nearest to the share; a single document, at the id."""
    tokens = write_tokens(tmp_path / "a.bin", ["x" * size for size in sizes], ByteTokenizer())
    first, last = tokens.split(share)
    assert len(first) == place and len(first) + len(last) == len(tokens) and last.eos_id == 256
    np.testing.assert_array_equal(np.concatenate([first.tokens, last.tokens]), tokens.tokens)
    assert isinstance(last.tokens, np.memmap) and len(tokens.split(share)[1]) == len(last)
    for wrong in (0, 1, 1.5):
        with refused("share", wrong):
            tokens.split(wrong)


def change(**values):
    def apply(path):
        manifest = json.loads(path.with_suffix(".json").read_text()) | values
        path.with_suffix(".json").write_text(json.dumps(manifest))

    return apply


def header(*numbers):
    return np.array([*numbers, *[0] * (256 - len(numbers))], "<i4").tobytes()


@pytest.mark.parametrize("spoil, name, received", [
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "9 ids of type uint16", "17 bytes"),
    (lambda path: path.write_bytes(path.read_bytes()[:-2]), "9 ids", "16 bytes"),
    (lambda path: path.write_bytes(b""), "9 ids", "0 bytes"),
    (change(tokens=8), "8 ids", "18 bytes"),
    (change(dtype="uint32"), "type uint32", "18 bytes"),
    (change(dtype="int64"), "version 1", "int64"),
    (change(version=2), "version 1", "'version': 2"),
    (change(eos_id=None), "version 1", "{"),
    (change(fingerprint="0" * 64), "tokenizer", "00000000 in"),
    (lambda path: path.with_suffix(".json").write_text("[]"), "version 1", "[]"),
    (lambda path: path.with_suffix(".json").write_text("{"), "a.json is not JSON", ""),
])  # fmt: skip
def test_damaged_files(spoil, name, received, tmp_path):
    tokenizer = ByteTokenizer()
    assert len(write_tokens(tmp_path / "a.bin", ["a cat", "at"], tokenizer)) == 9
    spoil(tmp_path / "a.bin")
    with refused(name, received):
        TokenFile(tmp_path / "a.bin", tokenizer)


@pytest.mark.parametrize("data, name, received", [
    (b"", "some ids", "0 bytes"),
    (b"abc", "some ids", "3 bytes"),
    (header(20240520, 1, 2) + b"ab", "2 ids", "2 bytes"),
    (header(20240520, 1, 0), "0 ids", "0 bytes"),
    (header(20240520, 2, 1) + b"ab", "version 1", "version 2"),
])  # fmt: skip
def test_damaged_files_of_others(data, name, received, tmp_path):
    (tmp_path / "a.bin").write_bytes(data)
    with refused(name, received):
        TokenFile(tmp_path / "a.bin")


@pytest.mark.parametrize("arguments, name, received", [
    (("a.json", ["a"], ByteTokenizer()), "path", "a.json"),
    (("a.bin", "abc", ByteTokenizer()), "texts", "'abc'"),
    (("a.bin", ["", ""], ByteTokenizer()), "texts", "none"),
    (("a.bin", ["a", 5], ByteTokenizer()), "texts", "5"),
    (("a.bin", ["ab"], CharacterTokenizer("a")), "vocabulary", "'b'"),
    (("a.bin", ["a"], ByteTokenizer(), "gpt2"), "format", "'gpt2'"),
    (("a.bin", ["a"], ByteTokenizer(max_length=9)), "tokenizer", "max_length=9"),
    (("a.bin", ["a"], large(2**16 + 1), "nanogpt"), "format", "65,537 tokens"),
])  # fmt: skip
def test_refused_texts(arguments, name, received, tmp_path):
    path, *others = arguments
    with refused(name, received):
        write_tokens(tmp_path / path, *others)
    assert not [*tmp_path.iterdir()]
