"""Scores of words for the predictions of finished runs: a command, a page, a picture and lines of JSON."""

import itertools
import json
import pathlib

import numpy as np

from keras_headattn._figures import write_figure
from keras_headattn._files import write_atomically
from keras_headattn.analysis import (
    aopc,
    draw_word_scores,
    leave_one_out,
    lime,
    random_scores,
    remove_words,
    write_word_scores,
)
from keras_headattn.serving import Classifier, WordScores
from recipes.engine.command import Command, fill_in_samples, sentences_in
from recipes.engine.finished import by_title, explained
from recipes.engine.progress import progress_bar
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import check_readable
from recipes.engine.report import markdown_table
from recipes.engine.texts.predicting import load_predictor, runs_of, sides_of
from recipes.engine.texts.settings import INSIDE, METHODS

STEPS = 20  # of integrated gradients
IN_PICTURE = 5  # texts
HELP = (
    "methods: pooling, cls and received are attention (of the pooling; of the last block, what the first token looks "
)
HELP += f"at, and what a word receives); others are {', '.join(METHODS[3:])} [gradient lime]"


class Explained:
    """Predictions of a finished run for texts, and the scores of their words; `second_texts` for pairs."""

    def __init__(self, predictor, texts, second_texts=None):
        self.predictor, self.targets = predictor, predictor.targets
        sides = [texts] if second_texts is None else [texts, second_texts]
        self.sizes = [[len(text.split()) for text in side] for side in sides]
        self.inside = WordScores(self.predictor) if isinstance(self.predictor, Classifier) else None
        counts = self.inside.words_read(*sides) if self.inside else self.sizes
        # Words that the model does not read must not move up when others are removed.
        self.sides = [
            [" ".join(text.split()[:count]) for text, count in zip(side, read, strict=True)]
            for side, read in zip(sides, counts, strict=True)
        ]
        self.predicted = self.predictor(*self.sides)
        self.classes = self.predicted.argmax(axis=1)

    @property
    def cut(self):
        """Numbers, from 1, of the texts that the model does not read to their ends."""
        read = [[len(text.split()) for text in side] for side in self.sides]
        return [number for number, sizes in enumerate(zip(*self.sizes, *read, strict=True), 1) if _is_cut(sizes)]

    def answers(self):
        """Returns the answer of the run to each text: list of str."""
        cells, names = self.targets.cells(self.predicted), self.targets.names
        rows = zip(cells, self.predicted, self.classes, strict=True)
        return [f"{cell} {row[index]:.3f}" if names else cell for cell, row, index in rows]

    def scores(self, method, options, progress=None):
        """Returns the scores of the words that the model reads of each text: list of arrays `(n,)`."""
        common = dict(classes=self.classes, progress=progress)
        if method in INSIDE and self.inside is None:
            raise ValueError(f"T5 writes its answers: take lime, leave_one_out or random. Received: --methods {method}")
        if method == "random":
            scores = random_scores(*self.sides, seed=options.seed)
        elif method == "lime":
            scores = lime(self.predictor, *self.sides, samples=options.samples, seed=options.seed, **common)
        elif method == "leave_one_out":
            scores = leave_one_out(self.predictor, *self.sides, **common)
        elif method.endswith(("gradient", "gradients")):
            steps = STEPS if method == "integrated_gradients" else None
            scores = self.inside.gradients(*self.sides, steps=steps, **common)
        else:
            scores = self.inside.attention(*self.sides, kind=method, progress=progress)
        return scores

    def whole(self, scores):
        """Adds 0 for the words that are not read."""
        whole = []
        for index, row in enumerate(scores):
            start, parts = 0, []
            for side, sizes in zip(self.sides, self.sizes, strict=True):
                count = len(side[index].split())
                parts += [row[start : start + count], np.zeros(sizes[index] - count)]
                start += count
            whole.append(np.concatenate(parts))
        return whole

    def faithfulness(self, scores):
        """Comprehensiveness and sufficiency of scores, over five shares of the words."""
        full, without, only = remove_words(self.predictor, self.sides[0], scores, *self.sides[1:])
        return aopc(full, without, self.classes)[0], aopc(full, only, self.classes)[0]


def _is_cut(sizes):
    half = len(sizes) // 2
    return sizes[:half] != sizes[half:]


def explain(runs, lines, output, options):
    """Scores the words of texts, and writes them.

    Args:
        runs: dictionary of a title to a finished `Run`.
        lines: list of str, a text each, or two with a tab between; empty ones are not explained.
        output: path of the page; the picture and the lines of JSON have its name.
        options: of the command.
    """
    configs = {title: run.read_config() for title, run in runs.items()}
    if len({config.is_pair for config in configs.values()}) > 1:
        raise ValueError("The runs must all be of single texts, or all of pairs. Received: both")
    numbers, sides = sides_of(lines, next(iter(configs.values())).is_pair, options.file)
    words = [" ".join(parts).split() for parts in zip(*sides, strict=True)]
    texts = [{"words": text_words, "scores": {}, "answers": {}} for text_words in words]
    rows = []
    for title, run in runs.items():
        explained = Explained(load_predictor(run), *sides)
        if explained.cut:
            print(f"{title} does not read the ends of {len(explained.cut)} of {len(lines)} texts.")
        for text, answer in zip(texts, explained.answers(), strict=True):
            text["answers"][title] = answer
            text["scores"][title] = {}
        for method in options.methods:
            quiet = options.quiet or method == "random"
            scores = explained.scores(method, options, progress_bar(f"{title}: {method}", len(texts), quiet))
            for text, row in zip(texts, explained.whole(scores), strict=True):
                text["scores"][title][method] = row
            if configs[title].predicts == "class":
                rows.append([f"{title}: {method}", *(f"{value:.4f}" for value in explained.faithfulness(scores))])
    if rows:
        print(*markdown_table(["comprehensiveness", "sufficiency"], rows), sep="\n")
    _write(output, dict(zip(numbers, texts, strict=True)), lines)


def _write(output, by_number, lines):
    texts = list(by_number.values())
    for line_number, text in by_number.items():
        line = lines[line_number - 1]
        first, tab, second = line.partition("\t")
        text["name"] = f"Text {line_number}" + (f": {first} | {second}" if tab else "")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_word_scores(output, texts)
    write_figure(output.with_suffix(".png"), draw_word_scores(texts[:IN_PICTURE]), dpi=120)
    content = ""
    for line_number, line in enumerate(lines, 1):
        text = by_number.get(line_number, {"words": [], "answers": {}, "scores": {}})  # nothing for an empty line
        scores = {
            title: {method: [round(float(value), 6) for value in row] for method, row in by_method.items()}
            for title, by_method in text["scores"].items()
        }
        record = {"text": line, "words": text["words"], "answers": text["answers"], "scores": scores}
        content += json.dumps(record, ensure_ascii=False) + "\n"
    write_atomically(output.with_suffix(".jsonl"), content.encode("utf-8"))
    print(f"{output}, with .jsonl, and .png of the first {min(IN_PICTURE, len(texts))}")


def explain_command():
    """Returns the `Command` that scores the words of texts in a file for finished runs."""
    return Command(_explain, "which words decide what runs say of the texts in a file: a page, a picture, scores", _add)


def _add(parser):
    parser.add_argument("folders", nargs="+", metavar="folder", help="folders of finished runs, side by side")
    parser.add_argument(
        "--file", required=True, help="a text a line, two with a tab between where the runs are on pairs; .gz or - too"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["gradient", "lime"], help=HELP)
    parser.add_argument("--samples", type=int, help="of each text, for lime [100]")
    parser.add_argument("--examples", type=int, default=100, help="the first lines of the file, so many [100]")
    parser.add_argument("--seed", type=int, help="of lime and random [0]")
    parser.add_argument(
        "--output", help="the page; .png and .jsonl beside it [RUN/explained/FILE.html; the next time FILE-2.html]"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")


def _explain(options):
    check_readable(options.file)
    fill_in_samples(options, options.methods)
    for name in ("samples", "examples"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} must be at least 1. Received: {name}={getattr(options, name)}")
    if options.output and not options.output.endswith(".html"):
        raise ValueError(f"--output is a page and must end in .html. Received: output={options.output}")
    runs = {title: next(iter(seeds.values())) for title, seeds in by_title(options.folders, runs_of).items()}
    lines, more = _lines(options.file, options.examples)
    if not any(lines):
        raise ValueError(f"--file must have at least one text. Received: {options.file}, which is empty")
    if more:
        print(f"The first {len(lines):,} texts; --examples takes more.")
    quiet_tensorflow()

    output = options.output or explained(next(iter(runs.values())).folder, options.file, ".html")
    explain(runs, lines, pathlib.Path(output), options)


def _lines(file, count):
    """Returns the first lines of a file, and True if there are more."""
    lines = list(itertools.islice(sentences_in(file), count + 1))
    return lines[:count], len(lines) > count
