"""What holds for every metric of translations."""

import functools
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn import metrics


def embed(tokens):
    """A fixed vector for each word, with no two of different words alike."""
    seeds = [int.from_bytes(token.encode(), "big") for token in tokens]
    return np.stack([np.random.default_rng(seed).normal(size=64) for seed in seeds])


METRICS = {
    "bleu": metrics.bleu,
    "tokenized_bleu": metrics.tokenized_bleu,
    "chrf": metrics.chrf,
    "wer": metrics.wer,
    "ter": metrics.ter,
    "rouge_l": metrics.rouge_l,
    "meteor": metrics.meteor,
    "cider": metrics.cider,
    "yisi_1": functools.partial(metrics.yisi_1, embed=embed),
}
ERRORS = "wer", "ter"  # lower is better
BEST = dict.fromkeys(METRICS, 100.0) | {"wer": 0.0, "ter": 0.0, "cider": 10.0}
WORST = dict.fromkeys(METRICS, 0.0) | dict.fromkeys(ERRORS, math.inf)

REFERENCES = [
    "Zwei schwarze Hunde laufen über eine grüne Wiese.",
    "Ein Mann fährt mit dem Fahrrad auf der Straße.",
    "Die Kinder spielen am Strand, und es regnet nicht.",
    "Eine Frau liest ein Buch im Café.",
]
HYPOTHESES = [
    "Zwei Hunde laufen über eine Wiese.",
    "Ein Mann fährt Fahrrad auf einer Straße.",
    "Die Kinder spielen nicht am Strand.",
    "Eine Frau schreibt ein Buch im Garten.",
]

every_metric = pytest.mark.parametrize("name", METRICS)


@every_metric
def test_equal_texts_score_best(name):
    score = METRICS[name](REFERENCES, REFERENCES)
    if name == "meteor":  # whose penalty leaves 1 - 0.5 / n**3 of n words in one chunk
        lengths = [len(metrics.words(reference)) for reference in REFERENCES]
        assert score.value == pytest.approx(np.mean([100 * (1 - 0.5 / n**3) for n in lengths]))
    else:
        assert score.value == pytest.approx(BEST[name])


@every_metric
def test_real_differences_score_between(name):
    low, high = sorted((WORST[name], BEST[name]))
    assert low < METRICS[name](HYPOTHESES, REFERENCES).value < high


@every_metric
def test_order_of_sentences_does_not_matter(name):
    score = METRICS[name](HYPOTHESES, REFERENCES)
    assert METRICS[name](HYPOTHESES[::-1], REFERENCES[::-1]).value == pytest.approx(score.value)


@every_metric
def test_order_of_words_matters_except_to_metrics_of_single_words(name):
    scrambled = [" ".join(sentence.split()[::-1]) for sentence in REFERENCES]
    score, best = METRICS[name](scrambled, REFERENCES).value, METRICS[name](REFERENCES, REFERENCES).value
    assert score == pytest.approx(best) if name == "yisi_1" else abs(score - best) > 1


@every_metric
def test_mixing_up_the_pairs_makes_it_worse(name):
    right = METRICS[name](HYPOTHESES, REFERENCES).value
    wrong = METRICS[name](HYPOTHESES[1:] + HYPOTHESES[:1], REFERENCES).value
    assert wrong > right if name in ERRORS else wrong < right


@every_metric
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_text_gives_a_score_within_bounds(name, data):
    sentence = st.one_of(
        st.text(max_size=30),
        st.lists(st.sampled_from(["der", "Hund", "läuft", "über", "."]), max_size=8).map(" ".join),
    )
    pairs = data.draw(st.lists(st.tuples(sentence, sentence), min_size=1, max_size=4))
    hypotheses, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs] + ["ein Wort"]
    score = METRICS[name](hypotheses + ["ein Wort"], references).value
    low, high = sorted((WORST[name], BEST[name]))
    assert low <= score <= high + 1e-9


@every_metric
def test_empty_hypotheses_score_worst(name):
    worst = 100.0 if name in ERRORS else 0.0  # each word of the references was left out
    assert METRICS[name]([""] * 4, REFERENCES).value == pytest.approx(worst)


@every_metric
def test_one_empty_hypothesis_among_others_lowers_the_score(name):
    full = METRICS[name](HYPOTHESES, REFERENCES).value
    holed = METRICS[name](["", *HYPOTHESES[1:]], REFERENCES).value
    assert holed > full if name in ERRORS else holed < full


@every_metric
def test_score_carries_a_signature_and_prints_it(name):
    score = METRICS[name](HYPOTHESES, REFERENCES)
    assert isinstance(score.value, float)
    assert all(field.count(":") == 1 for field in score.signature.split("|"))
    assert str(score) == f"{score.name}|{score.signature} = {score.value:.2f}"


PACKAGES = {
    "bleu": "sacrebleu.metrics",
    "tokenized_bleu": "sacremoses",
    "chrf": "sacrebleu.metrics",
    "wer": "jiwer",
    "ter": "sacrebleu.metrics",
    "rouge_l": "rouge_score.rouge_scorer",
    "meteor": "nltk.translate.meteor_score",
    "yisi_1": "tqdm",
}


@pytest.mark.parametrize("name", PACKAGES)
def test_missing_package_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[name], None)
    with pytest.raises(ImportError, match=r'Install .*: pip install .*pip install -e "\.\[metrics\]"'):
        METRICS[name](HYPOTHESES, REFERENCES)


def test_importing_the_metrics_imports_no_optional_package():
    code = (
        "import sys, keras_headattn.metrics\n"
        "optional = {'sacrebleu', 'sacremoses', 'jiwer', 'rouge_score', 'nltk', 'tqdm'}\n"
        "print(sorted(optional & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
