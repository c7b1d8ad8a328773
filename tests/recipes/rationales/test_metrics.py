"""Measures of rationales against slow code of what the public scorer computes, scikit-learn, and known cases."""

import json
import tarfile

import numpy as np
import pytest
from sklearn import metrics

from keras_headattn.analysis import aopc, comprehensiveness, sufficiency, top_words
from recipes.rationales.metrics import (
    as_spans,
    degenerate_baselines,
    iou_f1,
    rationale_auprc,
    rationale_average_precision,
    token_f1,
)


def f1(precision, recall):
    return 0 if precision * recall == 0 else 2 / (1 / precision + 1 / recall)


def slow_iou_f1(predicted, truth, threshold):
    """A word at a time."""
    precisions, recalls = [], []
    for found, true in zip(map(set, predicted), map(set, truth), strict=True):
        hits = 0
        for span in found:
            words, best = set(range(*span)), 0
            for other in true:
                others = set(range(*other))
                best = max(best, len(words & others) / len(words | others) if words | others else 0)
            hits += best >= threshold
        precisions += [hits / len(found)] if found else []
        recalls += [hits / len(true)] if true else []
    return f1(*(sum(values) / len(values) if values else 0 for values in (precisions, recalls)))


def slow_token_f1(predicted, truth):
    values = []
    for found, true in zip(predicted, truth, strict=True):
        found = [word for word in range(99) if any(start <= word < end for start, end in found)]
        true = [word for word in range(99) if any(start <= word < end for start, end in true)]
        if found + true:
            both = sum(word in true for word in found)
            values.append(f1(both / len(found) if found else 0, both / len(true) if true else 0))
    return sum(values) / len(values) if values else 0


def slow_auprc(scores, truth):
    precision, recall, _ = metrics.precision_recall_curve(truth, scores)
    return metrics.auc(recall, precision)


def test_spans_against_slow_code():
    rng = np.random.default_rng(0)
    for _ in range(200):
        sides = []
        for _ in range(2):
            starts = [rng.integers(0, 20, rng.integers(0, 4)) for _ in range(3)]
            sides.append([[(s, s + rng.integers(0, 5)) for s in document] for document in starts])
        for threshold in (0.1, 0.5, 1):
            assert iou_f1(*sides, threshold) == pytest.approx(slow_iou_f1(*sides, threshold))
        assert token_f1(*sides) == pytest.approx(slow_token_f1(*sides))
    # Two predictions are half of the same true span: recall is 2.
    assert iou_f1([[(0, 2), (2, 4)]], [[(0, 4)]]) == pytest.approx(f1(1, 2))
    assert iou_f1([[]], [[]]) == token_f1([[]], [[]]) == 0


@pytest.mark.filterwarnings("ignore:No positive class")
def test_scores_against_sklearn():
    rng = np.random.default_rng(0)
    truth = [rng.random(rng.integers(1, 40)) < rng.choice([0.0, 0.2, 0.5, 1]) for _ in range(100)]
    # Many ties, and few.
    for scores in ([rng.integers(0, high, len(words)) for words in truth] for high in (1, 3, 10**6)):
        pairs = list(zip(truth, scores, strict=True))
        assert rationale_auprc(scores, truth) == pytest.approx(np.mean([slow_auprc(s, t) for t, s in pairs]))
        mixed = [pair for pair in pairs if len(set(pair[0])) == 2]
        expected = np.mean([metrics.average_precision_score(*pair) for pair in mixed])
        assert rationale_average_precision(scores, truth) == pytest.approx(expected)
    assert np.isnan(rationale_average_precision([[1, 2]], [[False, False]]))
    assert rationale_auprc([[1, 2]], [[False, False]]) == 0.5


def test_baselines():
    rng = np.random.default_rng(0)
    truth = [rng.random(300) < share for share in (0.1, 0.3, 0.5)]
    found = degenerate_baselines(truth, draws=30)
    assert found == degenerate_baselines(truth, draws=30)
    shares = np.array([words.mean() for words in truth])
    assert found["constant"]["auprc"] == pytest.approx(np.mean((1 + shares) / 2))
    assert found["constant"]["average_precision"] == pytest.approx(shares.mean())
    assert found["random"]["auprc"] == pytest.approx(shares.mean(), abs=0.02)
    assert found["position"]["auprc"] == rationale_auprc([range(300)] * 3, truth)


def test_baselines_of_movies(shared_data):
    """Those of section 6 of the specification: 0.657, 0.315, 0.511, and average precision 0.314, 0.318."""
    folder = shared_data / "eraser_movies"
    rows = [json.loads(line) for line in (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    names = {row["annotation_id"] for row in rows}
    with tarfile.open(folder / "docs.tar.gz") as archive:
        documents = ((member.name.split("/")[-1], member) for member in archive)  # in their order, unpacked once
        sizes = {name: len(archive.extractfile(member).read().split()) for name, member in documents if name in names}
    truth = []
    for row in rows:
        words = np.zeros(sizes[row["annotation_id"]], bool)
        for group in row["evidences"]:
            for evidence in group:
                words[evidence["start_token"] : evidence["end_token"]] = True
        truth.append(words)
    found = degenerate_baselines(truth, draws=3)
    areas = [round(values["auprc"], 3) for values in found.values()]
    assert areas == pytest.approx([0.657, 0.315, 0.511], abs=0.002)
    precisions = [found[name]["average_precision"] for name in ("constant", "random")]
    assert precisions == pytest.approx([0.314, 0.318], abs=0.002)


def test_faithfulness():
    rng = np.random.default_rng(0)
    full, *parts = rng.dirichlet(np.ones(3), size=(6, 10))
    by_hand = []
    for part in parts:
        drops = [max(row) - other[list(row).index(max(row))] for row, other in zip(full, part, strict=True)]
        by_hand.append(sum(drops) / 10)
    mean, values = aopc(full, parts)
    assert values == pytest.approx(by_hand) and mean == pytest.approx(sum(by_hand) / 5)
    assert comprehensiveness(full, parts[0]) == sufficiency(full, parts[0]) == pytest.approx(by_hand[0])
    assert comprehensiveness(full, full, np.zeros(10, int)) == 0


def test_top_words_and_spans():
    assert top_words([3, 1, 3, 2], 0.25).tolist() == [True, False, False, False]
    assert top_words([0] * 5, 0.5).tolist() == [True, True, True, False, False]
    assert top_words(np.arange(100), 0.07).sum() == 7  # although 0.07 * 100 is above it
    assert top_words([], 0.5).tolist() == as_spans([]) == []
    words = np.random.default_rng(0).random(50) < 0.5
    again = np.zeros(50, bool)
    for start, end in as_spans(words):
        again[start:end] = True
    assert (again == words).all()
