"""Texts that a model has written, with their scores, and the files of both."""

import dataclasses
import json
import pathlib

from keras_headattn._files import read_json, read_lines, write_atomically


def score_texts(hypotheses, references, metrics):
    """Scores texts with several metrics: dictionary from the name of a metric to its `Score`.

    `references` are a str, or, where all metrics take several, a list of str for each hypothesis. Metrics are functions
    of hypotheses and references; two of one name are an error.

    >>> from keras_headattn.metrics import bleu, wer
    >>> scores = score_texts(["a dog runs fast"], ["a dog runs fast"], [bleu, wer])
    >>> {name: round(score.value) for name, score in scores.items()}
    {'BLEU': 100, 'WER': 0}
    """
    if all(isinstance(each, list) and len(each) == 1 for each in references):
        references = [reference for [reference] in references]
    scores = {}
    for metric in metrics:
        score = metric(hypotheses, references)
        if score.name in scores:
            raise ValueError(f"Give each metric once. Received: {scores[score.name]} and {score}")
        scores[score.name] = score
    return scores


def write_texts(folder, sources, hypotheses, references, scores):
    """Writes texts beside their scores, so that anyone can read or score them again.

    The files are `sources.txt`, `hypotheses.txt` and `references.txt`, a text a line (line breaks in a text become
    spaces), `sentences.tsv` with the scores of single texts, a column a metric, and `scores.json` with values and
    signatures of what `score_texts` returns. Each is replaced in one step, `scores.json` last: an interrupted call
    leaves no half file. Scores of the same texts by other metrics stay.
    """
    lists = {"sources": sources, "hypotheses": hypotheses, "references": references}
    single = {name: [f"{value:.4f}" for value in score.by_sentence] for name, score in scores.items()}
    scores = {name: dataclasses.asdict(dataclasses.replace(score, by_sentence=())) for name, score in scores.items()}
    for score in scores.values():
        del score["by_sentence"]
    scores_path = pathlib.Path(folder) / "scores.json"
    single_path = scores_path.with_name("sentences.tsv")
    files = {scores_path.with_name(f"{name}.txt"): _as_lines(texts) for name, texts in lists.items()}
    if scores_path.exists() and all(path.exists() and path.read_bytes() == data for path, data in files.items()):
        known = read_json(scores_path)
        if not isinstance(known, dict):
            raise ValueError(f"The scores there must be a JSON object. Received: {scores_path}")
        scores, single = known | scores, _columns(single_path) | single
    single = {name: column for name, column in single.items() if column}
    rows = [tuple(single), *zip(*single.values(), strict=True)]
    files[single_path] = "".join("\t".join(row) + "\n" for row in rows).encode("utf-8")
    text = json.dumps(scores, indent=2, ensure_ascii=False) + "\n"
    for path, data in (*files.items(), (scores_path, text.encode("utf-8"))):
        write_atomically(path, data)


def _columns(path):
    """Returns the columns of a table with tabs by their names; none if there is no table."""
    header, *rows = [line.split("\t") for line in read_lines(path)] if path.exists() else [[]]
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"The scores of sentences there must be a table. Received: {path}")
    return dict(zip(header, zip(*rows, strict=True), strict=True)) if rows else {}


def _as_lines(texts):
    return "".join(" ".join(text.splitlines()) + "\n" for text in texts).encode("utf-8")
