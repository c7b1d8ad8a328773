"""What metrics refuse."""

import functools

import numpy as np
import pytest

from keras_headattn import metrics
from tests.metrics.test_translation_metrics import HYPOTHESES, METRICS, REFERENCES, every_metric
from tests.refusals import refusals, refused, values


@every_metric
def test_wrong_lists(name):
    with refused("", "0 hypotheses, 0 references"):
        METRICS[name]([], [])
    with refused("", "2 hypotheses, 4 references"):
        METRICS[name](HYPOTHESES[:2], REFERENCES)
    with refused("list of sentences", "'ein Hund'"):
        METRICS[name]("ein Hund", "ein Hund")


bleu = functools.partial(metrics.bleu, ["a", "b"])
yisi = functools.partial(metrics.yisi_1, ["dog runs"], ["dog runs"])
matthews = metrics.MatthewsCorrelationCoefficient


def embed(tokens):
    return np.ones((len(tokens), 3))


test_arguments = refusals(
    *values(functools.partial(metrics.bleu, ["a"], ["a"]), max_ngram_order=(0,), tokenize=("moses",)),
    (lambda: bleu([["a"], []]), "`references`", None),
    *((lambda value=value: bleu([["a"], ["b", value]]), "`references`", value) for value in (3, b"bytes")),
    (lambda: metrics.wer(["a", 3], ["a", "b"]), "`hypotheses`", 3),
    (lambda: bleu([["a"]]), "equally long", "2 hypotheses, 1 references"),
    (lambda: bleu("ab"), "`references`", "'ab'"),
    *values(functools.partial(metrics.rouge_n, ["a"], ["a"]), n=(0,)),
    (lambda: metrics.wer(["a", "b"], ["", " "]), "`references`", "2 empty references"),
    (lambda: metrics.ter(["a", "b"], ["", " "]), "`references`", "2 empty references"),
    *values(matthews, num_classes=(1, 0)),
    *(
        (functools.partial(matthews(3).update_state, [0, 1, 2, 0], np.zeros(shape)), "`y_pred`", "y_pred of shape (4, ")
        for shape in ((4, 2), (4, 5, 3), (4, 3, 1))
    ),
    *(
        (functools.partial(yisi, lambda tokens, wrong=wrong: wrong), "2 finite vectors", received)
        for wrong, received in (
            (np.zeros((1, 3)), "shape (1, 3)"),
            (np.zeros(2), "shape (2,)"),
            (np.full((2, 3), np.nan), "finite: False"),
        )
    ),
    (lambda: yisi(embed, ngram_size=0), "`ngram_size`", "ngram_size=0"),
    (lambda: yisi(embed, alpha=1.5), "`alpha`", "alpha=1.5"),
    (lambda: yisi(embed, alpha=-0.1), "`alpha`", "alpha=-0.1"),
    (lambda: yisi(embed, idf_from="a dog"), "`idf_from`", "'a dog'"),
    (lambda: yisi(embed, idf_from=[]), "idf_from", "0 idf_from"),
)

GLOVE = "the 1 2\ndog 5 6\n"


@pytest.mark.parametrize(
    "text, name, received",
    [
        (GLOVE + "dog 7\n", "Line 3", "'dog 7"),
        (GLOVE + "cat x y\n", "Line 3", "'cat x y"),
        *((GLOVE + f"cat 1 {value}\n", "Line 3", f"'cat 1 {value}") for value in ("nan", "inf", "1e39", "1_0")),
        (GLOVE + "\n", "Line 3", "'"),
        (GLOVE, "none of the words", "vectors.txt"),
        ("", "none of the words", "vectors.txt"),
    ],
)
def test_word_vectors(text, name, received, tmp_path):
    (tmp_path / "vectors.txt").write_text(text, encoding="utf-8")
    with refused(name, received):
        metrics.read_word_vectors(tmp_path / "vectors.txt", {"cat"})
