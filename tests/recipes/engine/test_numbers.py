import sys

import numpy as np
import pytest

from recipes.engine import numbers
from recipes.engine.numbers import SENTENCES, SPLITS, numbers_corpus
from tests.refusals import refused

pytest.importorskip("num2words")
SIZES = dict(train_size=600, validation_size=120, test_size=120)


@pytest.mark.parametrize("language", ["de", "fr", "cs"])
def test_sizes_and_one_target_for_every_source(language):
    corpora = numbers_corpus(language, **SIZES)
    assert {split: len(corpus) for split, corpus in corpora.items()} == dict(train=600, validation=120, test=120)
    sources = [line for corpus in corpora.values() for line in corpus.source]
    assert len(set(sources)) == len(sources)
    assert all(line and line == line.strip() for corpus in corpora.values() for line in corpus.target)


def test_depends_on_the_seed_alone():
    assert numbers_corpus("de", **SIZES) == numbers_corpus("de", **SIZES)
    assert numbers_corpus("de", **SIZES) != numbers_corpus("de", **SIZES, seed=1)


@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_of_the_splits_are_disjoint(seed):
    split_of = numbers.assign_numbers(seed)
    seen = []
    for split in range(3):
        rng = np.random.default_rng([seed, split])
        examples = numbers._draw(split, 1_000, list(SENTENCES["de"]), split_of, rng)
        seen.append({number[-1] for _, number, _ in examples})
    assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    assert min(seen[1] | seen[2]) >= 100
    assert set(range(1, 10)) <= seen[0]


def test_test_years_never_occur_in_training():
    """The same property, from outside: the words of a test year end no training sentence of any kind."""
    corpora = numbers_corpus("de", 4_000, 50, 300)
    held_out = {line.removeprefix("im Jahr ") for line in corpora["test"].target if line.startswith("im Jahr ")}
    assert len(held_out) > 10
    for line in corpora["train"].target:
        assert line.split()[-1] not in held_out


@pytest.mark.parametrize(
    "language, kind, number, frame, expected",
    [
        (
            "en",
            "cardinal",
            (123_456,),
            1,
            "the number one hundred and twenty-three thousand four hundred and fifty-six",
        ),
        ("de", "cardinal", (21,), 0, "einundzwanzig"),
        ("en", "year", (1984,), 0, "in nineteen eighty-four"),
        ("de", "year", (1984,), 0, "im Jahr neunzehnhundertvierundachtzig"),
        ("en", "date", (21, 4, 1984), 0, "the twenty-first of May nineteen eighty-four"),
        ("de", "date", (21, 4, 1984), 0, "der einundzwanzigste Mai neunzehnhundertvierundachtzig"),
        ("de", "date", (21, 4, 1984), 1, "am einundzwanzigsten Mai neunzehnhundertvierundachtzig"),
        ("fr", "date", (1, 7, 2001), 0, "le premier août deux mille un"),
        ("fr", "date", (2, 7, 2001), 1, "le deux août deux mille un"),
        ("de", "ordinal", (3,), 1, "das dritte Wort"),
        ("fr", "ordinal", (3,), 0, "le troisième jour"),
        ("en", "money", (1, 12), 0, "twelve euros and one cent"),
        ("en", "money", (2, 1), 1, "the price is one euro and two cents"),
        ("de", "money", (50, 12), 0, "zwölf Euro und fünfzig Cent"),
        ("de", "money", (5, 12), 1, "der Preis ist zwölf Euro und fünf Cent"),
        ("fr", "money", (50, 12), 1, "le prix est de douze euros et cinquante centimes"),
        ("cs", "cardinal", (21,), 1, "číslo dvacet jedna"),
        ("cs", "year", (1984,), 0, "v roce tisíc devětset osmdesát čtyři"),
    ],
)
def test_words(language, kind, number, frame, expected):
    assert numbers._sentence(language, kind, number, frame) == expected


def test_same_kinds_of_sentences_in_every_language():
    for language, kinds in SENTENCES.items():
        assert all(len(frames) == 2 for frames in kinds.values())
        assert kinds.keys() <= SENTENCES["en"].keys() == numbers._NUMBERS.keys()
        assert len(numbers.MONTHS.get(language, range(12))) == 12
    assert "date" not in SENTENCES["cs"] and "ordinal" not in SENTENCES["cs"]
    assert numbers_corpus("cs", **SIZES)["test"].name == "numbers en-cs test (cardinal, year, money)"


def test_more_sentences_than_there_are(monkeypatch):
    monkeypatch.setattr(numbers, "_NUMBERS", dict.fromkeys(SENTENCES["en"], lambda rng: (7,)))
    with refused("train split", 90):
        numbers_corpus("de", train_size=90)


def test_absent_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "num2words", None)
    with pytest.raises(ImportError, match=r"pip install num2words"):
        numbers_corpus("de", train_size=1, validation_size=0, test_size=0)


def test_split_names():
    assert list(numbers_corpus("cs", 1, 1, 1)) == list(SPLITS) == ["train", "validation", "test"]
