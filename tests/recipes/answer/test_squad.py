"""Questions are read with errors that name them; scores against plain loops over the published definitions."""

import json
import string

import numpy as np
import pytest

from recipes.answer.squad import (
    Question,
    Questions,
    answer_f1,
    exact_match,
    normalize_answer,
    read_squad,
    score_answers,
    write_squad,
)
from tests.refusals import refused

CONTEXT = "The cat’s name is Élodie. It is a cat."


def squad(*qas, context=CONTEXT):
    return {"version": "v2.0", "data": [{"title": "Cats", "paragraphs": [{"context": context, "qas": list(qas)}]}]}


def answer(text, start):
    return {"text": text, "answer_start": start}


def test_there_and_back(tmp_path):
    rows = [
        Question("a", "Who?", CONTEXT, (("Élodie", 18), ("cat", 34))),
        Question("b", "Where?", CONTEXT),
        Question("c", "What?", "Another text.", (("text", 8),)),
    ]
    write_squad(Questions(rows), tmp_path / "dev.json")
    found = read_squad(tmp_path / "dev.json")
    assert found.rows == rows and found.name.endswith("dev.json")
    assert [row.id for row in found.sample(2, seed=1).rows] == sorted(row.id for row in found.sample(2, seed=1).rows)
    assert found.sample(3) is found


def test_fields_of_each_version(tmp_path):
    plausible = {"is_impossible": True, "answers": [], "plausible_answers": [answer("cat", 4)]}
    unlabelled, first = {"id": "1", "question": "Who?"}, {"id": "2", "question": "Who?", "answers": [answer("cat", 4)]}
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(squad(unlabelled, first, {"id": "3", "question": "Who?", **plausible})))
    assert [row.answers for row in read_squad(path).rows] == [(), (("cat", 4),), ()]


@pytest.mark.parametrize(
    "value, message",
    [
        ([], r"dev.json must have `data`, of type list. Received: \[\]"),
        ({"data": [{}]}, r"data\[0\] must have `paragraphs`"),
        ({"data": [{"paragraphs": [{"qas": []}]}]}, r"data\[0\].paragraphs\[0\] must have `context`"),
        ({"data": []}, "one question. Received: .*dev.json"),
        (squad({"question": "Who?"}), r"paragraphs\[0\] must have `id`, of type str"),
        (squad({"id": "q7"}), "dev.json, question q7 must have `question`"),
        (squad({"id": "q7", "question": "Who?", "answers": [{"text": "cat"}]}), "question q7 must have `answer_start`"),
        (
            squad({"id": "q7", "question": "Who?", "answers": [answer("cat", 5)]}),
            "q7: an answer .* 'cat' at 5, .*'at’s",
        ),
        (squad({"id": "q7", "question": "Who?", "answers": [answer("cat", -4)]}), "q7: an answer must stand"),
        (squad({"id": "q7", "question": "Who?", "answers": [answer("cat", True)]}), "q7 must have `answer_start`"),
        (squad({"id": "q7", "question": "Who?"}, {"id": "q7", "question": "Who?"}), "Received: 'q7' twice"),
        (squad({"id": "q7", "question": "Who?", "is_impossible": 1}), "question q7 must have `is_impossible`.*: 1"),
        (squad({"id": "q7", "question": "Who?", "answers": [answer(" ", 3)]}), "q7: an answer must .*: ' ' at 3"),
    ],
)
def test_faults_name_file_and_question(tmp_path, value, message):
    (tmp_path / "dev.json").write_text(json.dumps(value))
    with pytest.raises(ValueError, match=message):
        read_squad(tmp_path / "dev.json")


def slow_words(text):
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    words, word = [], ""
    for letter in kept + " ":  # articles are whole words, between anything but letters, digits and underscores
        if letter.isalnum() or letter == "_":
            word += letter
        else:
            words.append(" " if word in ("a", "an", "the") else word)
            words.append(letter)
            word = ""
    return "".join(words).split()


def slow_f1(one, other):
    one, other = slow_words(one), slow_words(other)
    if not one or not other:
        return float(one == other)
    rest, shared = list(other), 0
    for word in one:
        if word in rest:
            rest.remove(word)
            shared += 1
    if not shared:
        return 0.0
    precision, recall = shared / len(one), shared / len(other)
    return 2 * precision * recall / (precision + recall)


def random_texts(rng, number):
    words = ["the", "a", "an", "Cat", "cat", "dog.", "dog", "(the)", "“a”", "ça", "theory", "-", "", "1,000"]
    return [" ".join(rng.choice(words, rng.integers(0, 5))) for _ in range(number)]


def test_words_and_f1_as_defined():
    rng = np.random.default_rng(0)
    for one, other in zip(random_texts(rng, 300), random_texts(rng, 300), strict=True):
        assert normalize_answer(one).split() == slow_words(one)
        assert answer_f1(one, other) == pytest.approx(slow_f1(one, other))
        assert exact_match(one, other) == (slow_words(one) == slow_words(other))


def slow_scores(predictions, rows, odds, threshold, measure):
    """Scores by question, with no answer for odds above a threshold."""
    found = {}
    for row in rows:
        truths = [text for text, _ in row.answers if slow_words(text)] or [""]
        found[row.id] = max(measure(predictions[row.id], truth) for truth in truths)
        if odds[row.id] > threshold:
            found[row.id] = float(not row.answers)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_scores_and_thresholds_as_defined(seed):
    rng = np.random.default_rng(seed)
    texts = random_texts(rng, 40)
    rows = [
        Question(str(place), "?", "", tuple((text, 0) for text in rng.choice(texts, rng.integers(0, 3)) if text))
        for place in range(40)
    ]
    # An answer of no words is wrong in the search for thresholds, and right in the scores: the published definitions.
    texts = [text for text in texts if slow_words(text) or not text]
    predictions = {row.id: str(rng.choice(texts)) for row in rows}
    odds = {row.id: float(value) for row, value in zip(rows, rng.permutation(40) / 7 - 2, strict=True)}
    found = score_answers(predictions, Questions(rows), odds, threshold=0.5)
    answered = {row.id for row in rows if row.answers}
    for name, measure in (("exact", lambda one, two: float(slow_words(one) == slow_words(two))), ("f1", slow_f1)):
        scores = slow_scores(predictions, rows, odds, 0.5, measure)
        of = {"": scores, "HasAns_": answered, "NoAns_": scores.keys() - answered}
        for part, names in of.items():
            assert found[part + name] == pytest.approx(100 * np.mean([scores[each] for each in names]))
        means = [np.mean([*slow_scores(predictions, rows, odds, at, measure).values()]) for at in [-9, *odds.values()]]
        assert found[f"best_{name}"] == pytest.approx(100 * max(means))
        reached = score_answers(predictions, Questions(rows), odds, found[f"best_{name}_thresh"])
        assert reached[name] == pytest.approx(found[f"best_{name}"])


def test_one_kind_of_question_and_missing_predictions():
    rows = Questions(
        [Question("x", "?", "", (("cat", 0),)), Question("y", "?", "", (("a dog", 0), ("dogs", 0)))], "dev"
    )
    found = score_answers({"x": "the Cat", "y": "two dogs"}, rows)
    assert found == {"exact": 50.0, "f1": pytest.approx(100 * (1 + 2 / 3) / 2)}
    with refused("question of dev", "none for 'y', and for 1 of 2"):
        score_answers({"x": "cat"}, rows)
