"""Answers to the questions of a data set, their scores and files."""

import json

from keras_headattn._files import read_json, write_atomically
from keras_headattn.serving import QuestionAnswerer
from recipes.answer.squad import score_answers, write_json
from recipes.engine.progress import progress_bar


def make_answerer(config, model, tokenizer, threshold=None, top=1):
    """Returns the `QuestionAnswerer` of a run."""
    return QuestionAnswerer(model, tokenizer, **window_arguments(config), top=top, threshold=threshold)


def window_arguments(config):
    """Returns the arguments of `QuestionAnswerer` and of its export that say how questions and contexts are read."""
    return dict(
        max_length=config.max_length,
        stride=config.stride,
        max_question_length=config.max_question_length,
        max_answer_length=config.max_answer_length,
    )


def answers_to(answerer, questions, quiet=True):
    """Returns the `Answer` of each of `Questions` by its id."""
    sides = [[getattr(row, side) for row in questions.rows] for side in ("question", "context")]
    answers = answerer(*sides, progress_bar(f"Answering {questions.name}", len(questions), quiet))
    return {row.id: answer for row, answer in zip(questions.rows, answers, strict=True)}


def score_of(answers, questions, threshold=None):
    """Returns the scores of `Answer`s by question id, as `score_answers` does, with `examples`, their number."""
    has_both = not all(row.answers for row in questions.rows)
    odds = {name: answer.no_answer_score for name, answer in answers.items()} if has_both else None
    predictions = {name: answer.texts[0] for name, answer in answers.items()}
    return score_answers(predictions, questions, odds, threshold) | {"examples": len(questions)}


def write_answers(folder, answers, scores=None):
    """Writes the files of SQuAD's evaluation: answers by question id, `""` for none, and scores of no answer.

    The files are `predictions.json`, `null_odds.json` and, with all answers and their places in the context,
    `nbest_predictions.json`; with `scores` also `scores.json`.
    """
    write_json({name: answer.text for name, answer in answers.items()}, folder / "predictions.json")
    write_json({name: answer.no_answer_score for name, answer in answers.items()}, folder / "null_odds.json")
    keys = ("text", "start", "end", "probability")
    best = {
        name: [
            dict(zip(keys, row, strict=True))
            for row in zip(answer.texts, answer.starts, answer.ends, answer.scores, strict=True)
        ]
        for name, answer in answers.items()
    }
    write_json(best, folder / "nbest_predictions.json")
    if scores is not None:
        write_json(scores, folder / "scores.json")


def fitted_threshold(path, epochs, fit):
    """Reads the score above which there is no answer, `None` if there always is one.

    It is fitted by the function `fit`, and written, if the file is missing or the model had fewer epochs then.
    """
    known = read_json(path) if path.is_file() else {}
    if known.get("epochs") != epochs or "threshold" not in known:
        known = {"threshold": fit(), "epochs": epochs}
        write_atomically(path, (json.dumps(known) + "\n").encode())
    return known["threshold"]
