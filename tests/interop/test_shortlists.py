"""Lexical tables of Marian."""

import gzip

import pytest

from keras_headattn.interop import read_shortlist
from tests.interop.translators import pair_of
from tests.refusals import refused


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return pair_of(tmp_path_factory.mktemp("pair"), shared=False)


def names(tokenizer, *ids):
    return [tokenizer.id_to_token(index) for index in ids]


def test_a_table(pair, tmp_path):
    (a, b), (x, y, z) = names(pair.source, 5, 7), names(pair.target, 6, 8, 9)
    lines = [f"{x} {a} 0.25", f"{y} {a} 0.5", f"{z}\t{b}\t1", f"NULL {a} 0.2", f"{x} NULL 0.2", f"elsewhere {b} 0.9"]
    with gzip.open(tmp_path / "lex.s2t.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    found = read_shortlist(tmp_path / "lex.s2t.gz", pair.source, pair.target, candidates=2, frequent=3, size=20)
    assert found.table.shape == (pair.source.vocabulary_size, 2) and found.size == 20
    assert found.table[5].tolist() == [8, 6] and found.table[7].tolist() == [9, 0] and found.table.sum() == 23
    assert list(found.always) == [4, 5, 6]


@pytest.mark.parametrize("text, name, received", [
    ("a b\n", "Line 1 of ", "'a b'"),
    ("a b much\n", "Line 1 of ", "'a b much'"),
    ("a b nan\n", "Line 1 of ", "'a b nan'"),
    ("a b inf\n", "Line 1 of ", "'a b inf'"),
    ("a b -1\n", "Line 1 of ", "'a b -1'"),
    ("a b 5\n", "Line 1 of ", "'a b 5'"),
    ("a b 0.5\n", "pieces", "lex.s2t without one"),
    ("", "pieces", "lex.s2t without one"),
])  # fmt: skip
def test_wrong_tables(pair, tmp_path, text, name, received):
    (tmp_path / "lex.s2t").write_text(text)
    with refused(name, received):
        read_shortlist(tmp_path / "lex.s2t", pair.source, pair.target)
