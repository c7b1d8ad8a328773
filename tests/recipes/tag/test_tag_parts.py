"""Parts of the recipe of tags: labels of pieces, weights, the synthetic task."""

import numpy as np
import pytest

from keras_headattn.text import WordPieceTokenizer
from recipes.tag.batches import TokenLabelBatches
from recipes.tag.conll import TaggedText, entities_of
from recipes.tag.demo import names_in_sentences
from recipes.tag.train import encode, measure

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "ada", "##m", "s", "##leep", "."]


@pytest.mark.parametrize("max_length", [6, 64])
def test_the_first_piece_of_a_word_has_its_label(max_length):
    words, tags = [["Adam", "\u200b", "sleep", "."], ["Ada"]], [["B-PER", "O", "O", "O"], ["B-PER"]]
    corpus, names = TaggedText(words * 2, tags * 2, "x"), ["O", "B-PER", "I-PER"]
    rows, labels = encode(corpus, names, WordPieceTokenizer(TOKENS), max_length)
    if max_length == 64:
        assert [row.tolist() for row in rows] == [[2, 4, 5, 6, 7, 8, 3], [2, 4, 3]] * 2
        assert [row.tolist() for row in labels] == [[-1, 1, -1, 0, -1, 0, -1], [-1, 1, -1]] * 2
        return
    # Two windows that overlap: each word has its label once.
    assert [row.tolist() for row in rows[:2]] == [[2, 4, 5, 6, 7, 3], [2, 5, 6, 7, 8, 3]]
    found = [sorted(label for row in labels[:2] for label in row if label >= 0)]
    assert found == [[0, 0, 1]] and len(rows) == len(labels) == 6


def test_losses_of_batches_are_means_over_labels():
    rows = [np.arange(4, 4 + size) for size in (3, 5, 2)]
    labels = [np.array([-1, 2, -1]), np.array([-1, 0, 1, 1, -1]), np.array([-1, -1])]
    common = dict(batch_size=2, bucket_lengths=(3, 5), seed=0, pad_id=0)
    losses = [rows[0][1], *rows[1][1:4]]  # of each label, say its id
    training, evaluation = (TokenLabelBatches(rows, labels, training=kind, **common) for kind in (True, False))
    for batches, expected in ((training, None), (evaluation, np.mean(losses))):
        means = []
        for inputs, targets, weights in (batches[index] for index in range(len(batches))):
            assert targets.min() >= 0 and inputs["text"][:, 0].all()
            means.append((inputs["text"] * weights).mean())
        if expected is None:
            assert sorted(means) == pytest.approx(sorted([rows[0][1], np.mean(rows[1][1:4])]))
        else:
            assert np.mean(means) == pytest.approx(expected)
    summed = TokenLabelBatches(rows, labels, training=True, is_sum=True, **common)
    sums = [(inputs["text"] * weights).sum() for inputs, _, weights in (summed[0], summed[1])]
    assert sum(sums) == sum(losses)


def test_the_synthetic_task():
    made, again = names_in_sentences(50, 5, 40, seed=1), names_in_sentences(50, 5, 40, seed=1)
    assert made == again and [len(part) for part in made.values()] == [50, 5, 40]
    kinds = {kind for tags in made["train"].tags for kind, _, _ in entities_of(tags)}
    assert kinds == {"PER", "LOC", "ORG"}
    known, new = (
        {" ".join(words[first:end]) for words, tags in zip(part.words, part.tags, strict=True)
         for _, first, end in entities_of(tags)} for part in (made["train"], made["test"])
    )  # fmt: skip
    assert len(new - known) > len(new) / 2


@pytest.mark.parametrize(
    "predicted, score", [(["B-PER", "O"], 200 / 3), (["O", "O"], 0.0), (["B-PER", "B-LOC"], 100.0)]
)
def test_the_score_of_names_is_f1_in_percent(predicted, score):
    assert measure([["B-PER", "B-LOC"]], [predicted])["score"] == pytest.approx(score)


def test_the_score_of_other_tags_is_their_accuracy_in_percent():
    assert measure([["NOUN", "VERB"]], [["NOUN", "NOUN"]]) == {"score": 50.0, "accuracy": 0.5}
