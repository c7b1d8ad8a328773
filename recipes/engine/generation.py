"""Texts that a model writes: the settings of the search for them, their scores and their files."""

import dataclasses
import json
import pathlib

from keras_headattn._files import read_json, read_lines, write_atomically
from recipes.engine.config import option, settings

CONSTRAINTS = {"min_length": 0, "no_repeat_ngram_size": 0, "repetition_penalty": 1.0}
BEAM = {"coverage_penalty": 0.0}
SAMPLING = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 0}
SEARCH = {**CONSTRAINTS, **BEAM, "num_samples": None, **SAMPLING}
DECODING = ("beam_size", "alpha", "max_length", "search_arguments")  # settings of the search; may change after training


@settings()
class Search:
    """Search for texts."""

    title = "decoding"

    beam_size: int = option(4, "number of hypotheses of the beam search; 1: greedy search", changeable=True, at_least=1)
    alpha: float = option(0.6, "exponent of the length penalty", changeable=True, at_least=0)
    max_length: int = option(100, "largest number of tokens of a text", at_least=1)
    search_arguments: dict = option(
        SEARCH,
        "options of the search; min_length=5: smallest number of tokens; no_repeat_ngram_size=3: no three tokens "
        "twice; repetition_penalty=1.2: "
        "earlier tokens are less likely; coverage_penalty=0.2: source tokens left unread cost score; num_samples=4: so "
        "many samples in place of the best, with temperature, top_k, top_p and seed",
        changeable=True,
    )

    def check(self):
        given = {name: value for name, value in self.search_arguments.items() if value != SAMPLING.get(name, value)}
        if given and self.search_arguments["num_samples"] is None:
            raise ValueError(f"--search-arguments: {', '.join(given)} needs `num_samples`. Received: num_samples=None")
        is_beam = self.beam_size > 1 and self.search_arguments["num_samples"] is None
        if self.search_arguments["coverage_penalty"] and not is_beam:
            raise ValueError(
                "--search-arguments: `coverage_penalty` needs a beam search. Received: "
                f"beam_size={self.beam_size}, num_samples={self.search_arguments['num_samples']}"
            )
        if self.search_arguments["min_length"] >= self.max_length:
            raise ValueError(
                "--search-arguments: `min_length` must be below --max-length. "
                f"Received: min_length={self.search_arguments['min_length']}, max_length={self.max_length}"
            )

    @property
    def decoding(self):
        """The arguments of the search: dictionary."""
        return {name: getattr(self, name) for name in DECODING[:3]} | self.search_arguments

    @property
    def greedy_decoding(self):
        """The arguments of a greedy search with the same constraints."""
        return self.decoding | {"beam_size": 1, "num_samples": None, **BEAM, **SAMPLING}

    @property
    def decoding_signature(self):
        """The settings of the search that change its results, as the end of a metric's signature."""
        return "|".join(f"{name}:{value}" for name, value in self.decoding.items() if value != SEARCH.get(name, ...))


def score_texts(hypotheses, references, metrics):
    """Scores texts with several metrics: dictionary from the name of a metric to its `Score`.

    `references` are a str, or, where all metrics take several, a list of str for each hypothesis. Metrics are functions
    of hypotheses and references; two of one name are an error.

    >>> from keras_headattn.metrics import bleu, wer
    >>> scores = score_texts(["a dog runs fast"], ["a dog runs fast"], [bleu, wer])
    >>> {name: round(score.value) for name, score in scores.items()}
    {'BLEU': 100, 'WER': 0}
    """
    if all(isinstance(reference, list) and len(reference) == 1 for reference in references):
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
