import types

import pytest

from keras_headattn.metrics import meteor


def by_hand(matches, chunks, length, reference_length):
    precision, recall = matches / length, matches / reference_length
    mean = 10 * precision * recall / (recall + 9 * precision)
    return 100 * mean * (1 - 0.5 * (chunks / matches) ** 3)


def test_by_hand():
    score = meteor(["the cat sat on a mat"], ["on the mat sat the cat today"], language="xx")
    # Of six words five match, in four chunks: "the cat", "sat", "on", "mat".
    assert score.value == pytest.approx(by_hand(5, 4, 6, 7))


def test_stems_match():
    assert meteor(["two dogs running"], ["two dog runs"]).value == pytest.approx(by_hand(3, 1, 3, 3))


def test_stems_are_those_of_the_language():
    german = meteor(["die schönen Häuser"], ["die schöne Häuser"], language="de")
    assert german.value == pytest.approx(by_hand(3, 1, 3, 3))
    assert "stem:snowball-de" in german.signature


def test_language_without_a_stemmer():
    score = meteor(["dva psi"], ["dva psa"], language="cs")
    assert score.value == pytest.approx(by_hand(1, 1, 2, 2))
    assert "stem:no" in score.signature


def test_the_best_of_several_references_counts():
    score = meteor(["two dogs run", "a cat"], [["x", "two dogs sat"], ["a cat"]], language="xx")
    assert score.value == pytest.approx((by_hand(2, 1, 3, 3) + by_hand(2, 1, 2, 2)) / 2)


class LittleWordNet:
    def ensure_loaded(self):
        pass

    def synsets(self, word):
        names = {"dog": ["dog", "hound"]}.get(word, [])
        return [types.SimpleNamespace(lemmas=lambda: [types.SimpleNamespace(name=lambda n=n: n) for n in names])]


class NoWordNet:
    def ensure_loaded(self):
        raise LookupError("corpus not found")


def test_synonyms_where_wordnet_is_present(monkeypatch):
    monkeypatch.setattr("nltk.corpus.wordnet", LittleWordNet())
    score = meteor(["a dog"], ["a hound"])
    assert score.value == pytest.approx(by_hand(2, 1, 2, 2))
    assert "synonyms:wordnet" in score.signature


def test_no_synonyms_where_it_is_absent(monkeypatch):
    monkeypatch.setattr("nltk.corpus.wordnet", NoWordNet())
    score = meteor(["a dog"], ["a hound"])
    assert score.value == pytest.approx(by_hand(1, 1, 2, 2))
    assert "synonyms:no" in score.signature


def test_wordnet_is_for_english_alone(monkeypatch):
    monkeypatch.setattr("nltk.corpus.wordnet", LittleWordNet())
    assert "synonyms:no" in meteor(["a dog"], ["a hound"], language="de").signature
