"""LIME against the package of its authors, and scores by removal of words against models that are known."""

import json
import pathlib

import numpy as np
import pytest

from keras_headattn.analysis import (
    aopc,
    comprehensiveness,
    fit_lime,
    leave_one_out,
    lime,
    lime_samples,
    random_scores,
    remove_words,
    sufficiency,
)

# What the package lime 0.2.0.1 with scikit-learn 1.7 made of the samples that it drew (`LimeTextExplainer(bow=False)`).
GOLDEN = json.loads(pathlib.Path(__file__).with_name("lime.json").read_text(encoding="utf-8"))
EFFECTS = {"good": 0.3, "bad": -0.4, "not": -0.1, "so": 0.01}


class Linear:
    """Two classes, whose probabilities are sums of what words do; it counts what it reads."""

    def __init__(self):
        self.read = []

    def __call__(self, texts, second_texts=None):
        self.read.append(len(texts))
        words = [text.split() if isinstance(text, str) else text for text in texts]
        if second_texts is not None:
            words = [[*first, *second.split()] for first, second in zip(words, second_texts, strict=True)]
        positive = np.array([0.5 + sum(EFFECTS.get(word, 0) for word in each) for each in words])
        return np.stack([1 - positive, positive], axis=1)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{len(case['scores'])}-{case['num_features']}")
def test_lime_of_its_package(case):
    kept = [[sign == "1" for sign in row] for row in case["kept"]]
    np.testing.assert_allclose(fit_lime(kept, case["targets"], case["num_features"]), case["scores"], atol=1e-6)


def test_samples():
    kept = lime_samples(20, 4000)
    assert kept[0].all() and not kept[1:].all(axis=1).any()
    counts = 20 - kept[1:].sum(axis=1)  # as often one word as all
    np.testing.assert_allclose(np.bincount(counts, minlength=21)[1:] / 3999, 1 / 20, atol=0.02)
    np.testing.assert_allclose(kept[1:].mean(axis=0), 9.5 / 20, atol=0.03)  # wherever they stand
    assert (kept == lime_samples(20, 4000)).all() and (kept != lime_samples(20, 4000, seed=1)).any()


TEXTS = ["a good film", "a film that is not bad , but not good", "", "bad", "so " * 30]


def test_removal_of_a_linear_model():
    predict, done = Linear(), []
    expected = [[EFFECTS.get(word, 0) for word in text.split()] for text in TEXTS]
    ones = [1] * len(TEXTS)
    found = leave_one_out(predict, TEXTS, classes=ones, progress=done.append)
    for row, effects in zip(found, expected, strict=True):
        np.testing.assert_allclose(row, effects, atol=1e-12)
    assert done == [len(TEXTS)]
    assert predict.read == [sum(1 + len(text.split()) for text in TEXTS)]
    lime(predict, ["a film"], samples=100)
    assert predict.read[-1] == 4  # ways to keep of two words
    for row, effects in zip(lime(predict, TEXTS, classes=ones, samples=300), expected, strict=True):
        if len(row) > 2:  # what few words are left of counts for little beside the penalty
            np.testing.assert_allclose(row, effects, atol=0.06)
    # The likeliest class, and a few words.
    assert leave_one_out(predict, ["a bad film"])[0] == pytest.approx([0, 0.4, 0])
    assert np.flatnonzero(lime(predict, ["a bad film , not good"], num_features=2)[0]).tolist() == [1, 5]
    features = lime(predict, ["a bad film", "a bad film"], num_features=[1, 2], samples=20)
    assert [np.count_nonzero(row) <= most for row, most in zip(features, (1, 2), strict=True)] == [True, True]


def test_pairs_and_lists_of_words():
    predict = Linear()
    pair = leave_one_out(predict, ["not a film"], ["too bad"], classes=[1])[0]
    assert pair == pytest.approx([-0.1, 0, 0, 0, -0.4])
    kept = leave_one_out(predict, [["not", "a film"]], ["too bad"], classes=[1], keep_second=True)[0]
    assert kept == pytest.approx([-0.1, 0])
    assert [row.shape for row in random_scores(["a b"], ["c"])] == [(3,)]
    assert [row.shape for row in random_scores(["a b"], ["c"], keep_second=True)] == [(2,)]


def test_portions_do_not_matter(monkeypatch):
    """The scores of a text depend on its place and the seed, not on how many are read at once."""
    whole = lime(Linear(), TEXTS, samples=50)
    monkeypatch.setattr("keras_headattn.analysis._word_removal.PORTION", 40)
    predict, done = Linear(), []
    portions = lime(predict, TEXTS, samples=50, progress=done.append)
    assert len(predict.read) > 1 and done == sorted(set(done)) and done[-1] == len(TEXTS)
    for row, other in zip(whole, portions, strict=True):
        np.testing.assert_array_equal(row, other)


def test_removed_words():
    """Slowly, a text and a share at a time, with scores that are the true effects: nothing else is as comprehensive."""
    texts, shares = [text for text in TEXTS if text], (0.1, 0.5)
    best, worst = (leave_one_out(Linear(), texts), random_scores(texts))
    drops = {}
    for name, scores in {"best": best, "worst": worst}.items():
        full, without, only = remove_words(Linear(), texts, scores, shares=shares)
        for place, (text, row) in enumerate(zip(texts, scores, strict=True)):
            words = np.array(text.split())
            for number, share in enumerate(shares):
                count = int(np.ceil(share * len(words)))
                top = sorted(np.argsort(-row, kind="stable")[:count])
                rest = sorted(set(range(len(words))) - set(top))
                for found, places in ((without, rest), (only, top)):
                    expected = Linear()([" ".join(words[places])])[0]
                    np.testing.assert_allclose(found[number, place], expected, atol=1e-12)
        drops[name] = aopc(full, without)[0]
        assert aopc(full, without)[1] == pytest.approx([comprehensiveness(full, part) for part in without])
        assert aopc(full, only)[0] == pytest.approx(np.mean([sufficiency(full, part) for part in only]))
    assert drops["best"] > drops["worst"]
