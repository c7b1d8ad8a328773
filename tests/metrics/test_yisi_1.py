import math

import numpy as np
import pytest

from keras_headattn.metrics import yisi_1

VECTORS = {
    "dog": [1.0, 0.0, 0.0],
    "hound": [0.8, 0.6, 0.0],
    "cat": [0.0, 1.0, 0.0],
    "runs": [0.0, 0.0, 2.0],
    "not": [-1.0, 0.0, 0.0],
}


def embed(tokens):
    return np.array([VECTORS.get(token, [0.0, 0.0, 0.0]) for token in tokens])


def f_score(precision, recall, alpha=0.8):
    return 100 * precision * recall / (alpha * precision + (1 - alpha) * recall)


def weight(sentences, sentences_with):
    return math.log(1 + (sentences + 1) / (sentences_with + 1))


def test_by_hand():
    # Of two sentences "runs" is in both, "dog" in one, "hound" in none.
    common, rare, unseen = weight(2, 2), weight(2, 1), weight(2, 0)
    precision = (unseen * 0.8 + common) / (unseen + common)
    recall = (rare * 0.8 + common) / (rare + common)
    score = yisi_1(["hound runs"], ["dog runs"], embed, idf_from=["dog runs", "cat runs"])
    assert score.value == pytest.approx(f_score(precision, recall))


def test_weights_come_from_the_references_by_default():
    hypotheses, references = ["hound runs", "cat"], ["dog runs", "cat runs"]
    default = yisi_1(hypotheses, references, embed)
    assert default.value == yisi_1(hypotheses, references, embed, idf_from=references).value
    assert default.value != yisi_1(hypotheses, references, embed, idf_from=["dog", "dog"]).value
    assert "idf:references" in default.signature


def test_alpha_goes_from_precision_to_recall():
    arguments = ["dog"], ["dog runs"], embed
    recall = weight(1, 1) / (2 * weight(1, 1))
    assert yisi_1(*arguments, alpha=0.0).value == pytest.approx(100)
    assert yisi_1(*arguments, alpha=1.0).value == pytest.approx(100 * recall)
    assert yisi_1(*arguments).value == pytest.approx(f_score(1, recall))


def test_bigrams_by_hand():
    # Equal weights. The bigram "dog runs" meets "runs dog" (0 and 0) and "dog cat" (1 and 0).
    value = yisi_1(["dog runs"], ["runs dog cat"], embed, ngram_size=2).value
    first, second, unseen = 0.0, 0.5, weight(1, 1)
    assert unseen > 0
    assert value == pytest.approx(f_score(second, (first + second) / 2))


def test_ngrams_longer_than_a_sentence_are_shortened():
    assert yisi_1(["dog runs"], ["dog runs"], embed, ngram_size=5).value == pytest.approx(100)


def test_word_order_counts_for_ngrams_alone():
    arguments = ["runs dog"], ["dog runs"], embed
    assert yisi_1(*arguments).value == pytest.approx(100)
    assert yisi_1(*arguments, ngram_size=2).value == 0


def test_unknown_words_match_their_equals():
    assert yisi_1(["zebra"], ["zebra"], embed).value == pytest.approx(100)
    assert yisi_1(["zebra"], ["gnu"], embed).value == 0


def test_opposite_meaning_counts_as_none():
    assert yisi_1(["not"], ["dog"], embed).value == 0


def test_own_tokenizer():
    score = yisi_1(["dog-runs"], ["dog-hound"], embed, tokenize=lambda text: text.split("-"))
    assert 0 < score.value < 100
    with_words = yisi_1(["dog-runs"], ["dog-hound"], embed)
    assert "tok:unicode-words" in with_words.signature and "tok:unicode-words" not in score.signature


def test_vectors_from_a_file(tmp_path):
    path = tmp_path / "little.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in VECTORS.items()))
    hypotheses, references = ["the hound runs", "a cat"], ["the dog runs", "a cat"]
    score = yisi_1(hypotheses, references, str(path))
    assert score.value == pytest.approx(yisi_1(hypotheses, references, embed).value)
    assert "embed:little.txt" in score.signature
    assert "embed:embed" in yisi_1(hypotheses, references, embed).signature
