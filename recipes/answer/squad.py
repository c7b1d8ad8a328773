"""Questions about texts in the layout of SQuAD 1.1 and 2.0, and the scores of answers."""

import collections
import dataclasses
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from keras_headattn._files import Path, read_json, write_atomically
from keras_headattn.data._labelled_text import Examples

_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclasses.dataclass(frozen=True)
class Question:
    """Question about a text.

    Args:
        id, question, context: str.
        answers: tuple of `(text, start)`: answers as they stand in the context, and their first character's index. None
            for a question that the context does not answer.
    """

    id: str
    question: str
    context: str
    answers: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Questions(Examples):
    """Questions of a data set, a list of `Question`; `name` is for messages."""

    rows: list[Question]
    name: str = "questions"

    def __len__(self):
        return len(self.rows)

    def take(self, indices: Iterable[int]) -> Self:
        """Returns the questions at some indices.

        Args:
            indices: sequence of ints.
        """
        return dataclasses.replace(self, rows=[self.rows[index] for index in indices])

    def _keys(self):
        return [row.context for row in self.rows]


def read_squad(path: Path) -> Questions:
    """Reads questions of a JSON file of SQuAD 1.1 or 2.0.

    A question with `"is_impossible": true` has no answers. Answers and `"is_impossible"` may be missing, as in test
    sets.

    Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ questions for machine comprehension of text"; Rajpurkar et al. 2018,
    "Know what you don't know: unanswerable questions for SQuAD".

    Args:
        path: path of the file.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: naming file and question: for another layout, an id given twice, or an answer that is not in the
            context where it should be.
    """
    rows, known = [], set()
    for row in _rows(read_json(path), str(path)):
        if row.id in known:
            raise ValueError(f"{path}: each question needs an id of its own. Received: {row.id!r} twice")
        known.add(row.id)
        rows.append(row)
    if not rows:
        raise ValueError(f"There must be at least one question. Received: {path}, without any")
    return Questions(rows, str(path))


def _rows(value: Any, location: str) -> Iterator[Question]:
    for article_index, article in enumerate(_get(value, "data", list, location)):
        where = f"{location}, data[{article_index}]"
        for index, paragraph in enumerate(_get(article, "paragraphs", list, where)):
            there = f"{where}.paragraphs[{index}]"
            context = _get(paragraph, "context", str, there)
            for row in _get(paragraph, "qas", list, there):
                name = _get(row, "id", str, there)
                here = f"{location}, question {name}"
                question = _get(row, "question", str, here)
                is_impossible = _get({"is_impossible": False, **row}, "is_impossible", bool, here)
                answers = () if is_impossible else _answers(row, context, here)
                yield Question(name, question, context, answers)


def _answers(row, context, location):
    answers = []
    for answer in _get({"answers": [], **row}, "answers", list, location):
        text, start = _get(answer, "text", str, location), _get(answer, "answer_start", int, location)
        if not text.strip() or start < 0 or context[start : start + len(text)] != text:
            there = context[max(start, 0) : max(start, 0) + max(len(text), 20)]
            raise ValueError(
                f"{location}: an answer must stand in the context at its `answer_start`. "
                f"Received: {text!r} at {start}, where there is {there!r}"
            )
        answers.append((text, start))
    return tuple(answers)


def _get(value, name, kind, location):
    """Returns a field of a JSON object, of this type."""
    if not isinstance(value, dict) or type(value.get(name)) is not kind:
        received = value.get(name) if isinstance(value, dict) else value
        raise ValueError(f"{location} must have `{name}`, of type {kind.__name__}. Received: {received!r:.80}")
    return value[name]


def write_squad(questions: Questions, path: Path) -> None:
    """Writes questions as a JSON file of SQuAD 2.0, which `read_squad` reads.

    Args:
        questions: `Questions`.
        path: path of the file, replaced if it exists.
    """
    paragraphs: dict[str, list[dict[str, Any]]] = {}
    for row in questions.rows:
        answers = [{"text": text, "answer_start": start} for text, start in row.answers]
        entry = {"id": row.id, "question": row.question, "answers": answers, "is_impossible": not answers}
        paragraphs.setdefault(row.context, []).append(entry)
    article = {"title": "", "paragraphs": [{"context": context, "qas": qas} for context, qas in paragraphs.items()]}
    write_json({"version": "v2.0", "data": [article]}, path)


def write_json(value: Any, path: Path) -> None:
    """Writes JSON, such as a dictionary of predictions by question id, with characters as they are."""
    write_atomically(path, (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))


def normalize_answer(text: str) -> str:
    """Returns a text in lower case, without punctuation and articles, and with single spaces.

    >>> normalize_answer("The  Cat's, a pet!")
    'cats pet'
    """
    text = re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION))
    return " ".join(text.split())


def exact_match(answer: str, truth: str) -> float:
    """Returns 1 if two answers are the same once normalised, else 0.

    >>> exact_match("The cat.", "cat"), exact_match("a cat", "cats")
    (1.0, 0.0)
    """
    return float(normalize_answer(answer) == normalize_answer(truth))


def answer_f1(answer: str, truth: str) -> float:
    """Returns the F1 of the words that two answers share once normalised; of two without words it is 1.

    >>> round(answer_f1("the black cat", "a cat"), 3), answer_f1("", "cat"), answer_f1("", "")
    (0.667, 0.0, 1.0)
    """
    words, true = normalize_answer(answer).split(), normalize_answer(truth).split()
    if not words or not true:
        return float(words == true)
    shared = sum((collections.Counter(words) & collections.Counter(true)).values())
    return 2 * shared / (len(words) + len(true))


def score_answers(
    predictions: Mapping[str, str],
    questions: Questions,
    no_answer_scores: Mapping[str, float] | None = None,
    threshold: float | None = None,
) -> dict[str, float]:
    """Returns the scores of SQuAD's evaluation, in percent.

    The score of an answer is the best over the question's answers. No answer, `""`, is right for a question without.

    Source: Rajpurkar et al. 2016, section 6.1; Rajpurkar et al. 2018, section 4 and the evaluation of version 2.0.

    Args:
        predictions: dict of question id to answer, `""` for none.
        questions: `Questions`.
        no_answer_scores: dict of question id to a number, higher the less likely there is an answer. Default `None`:
            the best thresholds are not looked for.
        threshold: questions whose number is above count as not answered. Default `None`: predictions as they are.

    Returns:
        Dictionary of `exact` and `f1`, with `HasAns_` and `NoAns_` before these names for questions with and without
        answers, if there are both kinds. With `no_answer_scores`, also `best_exact` and `best_f1`, the highest scores
        over all thresholds, and these thresholds, `best_exact_thresh` and `best_f1_thresh`.

    Raises:
        ValueError: if a question has no prediction or no number.

    >>> rows = [Question("1", "Who?", "Ann runs", (("Ann", 0),)), Question("2", "Where?", "Ann runs")]
    >>> scores = score_answers({"1": "Ann", "2": "runs"}, Questions(rows), {"1": -2.0, "2": 1.5})
    >>> scores["exact"], scores["HasAns_exact"], scores["best_exact"], scores["best_exact_thresh"]
    (50.0, 100.0, 100.0, -2.0)
    """
    for name, values in (("predictions", predictions), ("no_answer_scores", no_answer_scores)):
        missing = [row.id for row in questions.rows if values is not None and row.id not in values]
        if missing:
            raise ValueError(
                f"`{name}` must have each question of {questions.name}. Received: none for {missing[0]!r}, and for "
                f"{len(missing):,} of {len(questions):,}"
            )
    has_answer = np.array([bool(row.answers) for row in questions.rows])
    raw = {
        name: np.array([_best(score, predictions[row.id], row) for row in questions.rows])
        for name, score in (("exact", exact_match), ("f1", answer_f1))
    }
    odds = None if no_answer_scores is None else np.array([no_answer_scores[row.id] for row in questions.rows])
    scores = {}
    for name, values in raw.items():
        if threshold is not None and odds is not None:
            values = np.where(odds > threshold, ~has_answer, values)
        scores[name] = 100 * float(np.mean(values))
        if 0 < has_answer.sum() < len(questions):
            scores[f"HasAns_{name}"] = 100 * float(np.mean(values[has_answer]))
            scores[f"NoAns_{name}"] = 100 * float(np.mean(values[~has_answer]))
    if odds is not None:
        empty = np.array([not predictions[row.id] for row in questions.rows])
        for name, values in raw.items():
            best, best_threshold = _best_threshold(values, has_answer, empty, odds)
            scores |= {f"best_{name}": 100 * best, f"best_{name}_thresh": best_threshold}
    return scores


def _best(score, answer, row):
    """Returns the best score over a question's answers that have words."""
    truths = [text for text, _ in row.answers if normalize_answer(text)] or [""]
    return max(score(answer, truth) for truth in truths)


def _best_threshold(
    values: np.ndarray, has_answer: np.ndarray, empty: np.ndarray, odds: np.ndarray
) -> tuple[float, float]:
    """Returns the highest mean score over thresholds, and its threshold.

    It starts with no question answered, and adds one after the other by rising odds of no answer.
    """
    order: Sequence[int] = np.argsort(odds, kind="stable").tolist()
    total = best = float(np.sum(~has_answer))
    threshold = float(np.nextafter(odds.min(), -np.inf))
    for index in order:
        total += float(values[index]) if has_answer[index] else 0.0 if empty[index] else -1.0
        if total > best:
            best, threshold = total, float(odds[index])
    return best / len(values), threshold
