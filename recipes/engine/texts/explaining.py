"""Scores of words for the predictions of finished runs, as a page, a picture and lines of JSON."""

import io
import json

import numpy as np

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
from recipes.engine.progress import progress_bar
from recipes.engine.tables import table
from recipes.engine.texts.lines import sides_of
from recipes.engine.texts.runs import load_predictor
from recipes.engine.texts.settings import INSIDE

STEPS = 20  # of integrated gradients
IN_PICTURE = 5  # texts


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
        return [place for place, sizes in enumerate(zip(*self.sizes, *read, strict=True), 1) if _is_cut(sizes)]

    def answers(self):
        """Returns the answer of the run to each text: list of str."""
        cells, names = self.targets.cells(self.predicted), self.targets.names
        rows = zip(cells, self.predicted, self.classes, strict=True)
        return [f"{cell} {row[number]:.3f}" if names else cell for cell, row, number in rows]

    def scores(self, method, options, progress=None):
        """Returns the scores of the words that the model reads of each text: list of arrays `(n,)`."""
        common = dict(classes=self.classes, progress=progress)
        if method in INSIDE and self.inside is None:
            raise ValueError(f"T5 writes its answers: take lime, leave_one_out or random. Received: --methods {method}")
        if method == "random":
            found = random_scores(*self.sides, seed=options.seed)
        elif method == "lime":
            found = lime(self.predictor, *self.sides, samples=options.samples, seed=options.seed, **common)
        elif method == "leave_one_out":
            found = leave_one_out(self.predictor, *self.sides, **common)
        elif method.endswith(("gradient", "gradients")):
            steps = STEPS if method == "integrated_gradients" else None
            found = self.inside.gradients(*self.sides, steps=steps, **common)
        else:
            found = self.inside.attention(*self.sides, kind=method, progress=progress)
        return found

    def whole(self, scores):
        """Adds 0 for the words that are not read."""
        whole = []
        for number, row in enumerate(scores):
            start, parts = 0, []
            for side, sizes in zip(self.sides, self.sizes, strict=True):
                count = len(side[number].split())
                parts += [row[start : start + count], np.zeros(sizes[number] - count)]
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
    texts = [{"words": each, "scores": {}, "answers": {}} for each in words]
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
        print(*table(["comprehensiveness", "sufficiency"], rows), sep="\n")
    _write(output, dict(zip(numbers, texts, strict=True)), lines)


def _write(output, by_number, lines):
    texts = list(by_number.values())
    for number, text in by_number.items():
        line = lines[number - 1]
        first, tab, second = line.partition("\t")
        text["name"] = f"Text {number}" + (f": {first} | {second}" if tab else "")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_word_scores(output, texts)
    picture = io.BytesIO()
    draw_word_scores(texts[:IN_PICTURE]).savefig(picture, dpi=120, format="png")
    write_atomically(output.with_suffix(".png"), picture.getvalue())
    content = ""
    for number, line in enumerate(lines, 1):
        text = by_number.get(number, {"words": [], "answers": {}, "scores": {}})  # nothing for an empty line
        scores = {
            title: {method: [round(float(value), 6) for value in row] for method, row in by_method.items()}
            for title, by_method in text["scores"].items()
        }
        found = {"text": line, "words": text["words"], "answers": text["answers"], "scores": scores}
        content += json.dumps(found, ensure_ascii=False) + "\n"
    write_atomically(output.with_suffix(".jsonl"), content.encode("utf-8"))
    print(f"{output}, with .jsonl, and .png of the first {min(IN_PICTURE, len(texts))}")
