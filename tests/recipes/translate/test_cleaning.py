from hypothesis import given
from hypothesis import strategies as st

from keras_headattn.data import ParallelCorpus, read_text
from recipes.translate.cleaning import CleaningReport, clean, clean_pairs, count_words, empty_pairs


def test_drops_and_says_why():
    source = ["a b", "", "c d", "", "e f g h", "i", "j"]
    target = ["A", "B", "", "", "E", "I I I", "J J"]
    corpus, report = clean(ParallelCorpus(source, target, "a.de and a.en"), max_words=3, max_ratio=2)
    assert (corpus.source, corpus.target, corpus.name) == (["a b", "j"], ["A", "J J"], "a.de and a.en")
    assert report.first == {"empty_source": [2, 4], "empty_target": [3, 4], "too_long": [5], "out_of_ratio": [6]}
    assert report.counts == {"empty_source": 2, "empty_target": 2, "too_long": 1, "out_of_ratio": 1}
    assert (report.total, report.dropped) == (7, 5)
    assert str(report).splitlines() == [
        "a.de and a.en: kept 2 of 7 pairs",
        "  empty source: 2 (pair 2, 4)",
        "  empty target: 2 (pair 3, 4)",
        "  too long: 1 (pair 5)",
        "  out of ratio: 1 (pair 6)",
    ]


def test_long_lists_are_shortened():
    _, report = clean(ParallelCorpus([""] * 6 + ["a"], ["b"] * 7, "demo"))
    assert "empty source: 6 (pair 1, 2, 3, 4, 5, ...)" in str(report)


def test_streams_hold_one_pair():
    """Each pair is given on before the next one is read."""
    read = []
    pairs = ((read.append(i), ("a", "b" if i % 2 else ""))[1] for i in range(10))
    report = CleaningReport("demo")
    for number, pair in enumerate(clean_pairs(pairs, report), 1):
        assert pair == ("a", "b") and len(read) == report.total == 2 * number
    assert report.dropped == 5


def test_empty_pairs_of_a_test_set():
    assert empty_pairs(ParallelCorpus(["a"], ["b"], "good")) == ""
    one = empty_pairs(ParallelCorpus(["a", " "], ["b", "c"], "one"))
    assert one == "one: 1 pair with an empty side is kept (pair 2)"
    many = empty_pairs(ParallelCorpus([""] * 2000, ["b"] * 2000, "many"))
    assert many == "many: 2,000 pairs with an empty side are kept (pair 1, 2, 3, 4, 5, ...)"


def test_limits():
    corpus = ParallelCorpus(["a " * 80, "b " * 81], ["c"] * 2, "demo")
    assert clean(corpus)[0].source == ["a " * 80]
    assert len(clean(corpus, max_words=None)[0]) == 2
    assert len(clean(corpus, max_words=160, count=len)[0]) == 1


def test_characters_of_languages_without_spaces_are_words():
    assert count_words("我有两只猫") == 5 and count_words("ねこ が 2 匹") == 5 and count_words("zwölf Katzen") == 2
    corpus = ParallelCorpus(["我" * 81, "我有两只猫"], ["me " * 80, "I have two cats"], "demo")
    assert len(clean(corpus, max_words=80, max_ratio=2)[0]) == 1


@given(st.lists(st.tuples(st.sampled_from(["", "a", "a b", "a b c"]), st.sampled_from(["", "x", "x y"]))))
def test_kept_and_dropped_make_the_whole(pairs):
    corpus = ParallelCorpus([s for s, _ in pairs] + ["k"], [t for _, t in pairs] + ["k"], "demo")
    cleaned, report = clean(corpus, max_words=2)
    assert len(cleaned) + report.dropped == len(corpus)
    assert list(zip(cleaned.source, cleaned.target, strict=True)) == [
        (s, t) for s, t in zip(corpus.source, corpus.target, strict=True) if s and t and len(s.split()) <= 2
    ]


def test_iwslt14_validation_data(shared_data):
    folder = shared_data / "iwslt14_de_en" / "tmp"
    corpus = read_text(folder / "valid.de", folder / "valid.en")
    cleaned, report = clean(corpus, max_words=80)
    assert len(cleaned) + report.counts["too_long"] == len(corpus) and report.counts["too_long"]
    assert max(len(line.split()) for line in cleaned.source + cleaned.target) <= 80
