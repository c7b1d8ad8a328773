"""Scores of the words of documents by a finished run, as lines of JSON and a page."""

import json
import sys

import numpy as np

from keras_headattn.analysis import write_word_scores
from recipes.engine.command import portions
from recipes.engine.finished import explained
from recipes.rationales.data import choices_of
from recipes.rationales.eraser import Annotation, EraserCorpus
from recipes.rationales.predicting import load_predictor
from recipes.rationales.scoring import Scored
from recipes.rationales.words import report_cut

SHARE = 0.1  # of the words: half as many as get a coefficient from LIME


def explain(run, config, options):
    """Prints a line for each document: its words, its class and the scores of each kind. Writes a page of all.

    It is `explained/FILE.html` in the folder of the run, which has finished.
    """
    predictor = load_predictor(run, config, run.load_model())
    pages = []
    for lines in portions(options.file):
        documents, annotations = {}, []
        for line_index, line in enumerate(lines):
            text, _, query = line.partition("\t")
            if line:
                documents[str(line_index)] = [text.split()]
                annotations.append(Annotation(str(line_index), query or options.query, "", (), (str(line_index),)))
        if not documents:
            print("\n" * len(lines), end="", flush=True)
            continue
        scored = Scored(predictor, EraserCorpus(annotations, documents), SHARE, quiet=True)  # JSON alone is printed
        report_cut(options.file, scored.sizes, list(map(len, scored.documents)), sys.stderr)
        predicted = predictor(scored.documents, scored.queries)
        scores = scored.scores(options.kinds, options)
        answers = {}
        for index, (words, row) in enumerate(zip(scored.documents, predicted, strict=True)):
            by_kind = {kind: np.round(rows[index], 6).tolist() for kind, rows in scores.items()}
            answer = dict(zip(predictor.classes, np.round(row, 6).tolist(), strict=True))
            query, chosen = annotations[index].query, predictor.classes[row.argmax()]
            entry = {
                "words": words,
                "query": query,
                "classification": chosen,
                "probabilities": answer,
                "scores": by_kind,
            }
            answers[annotations[index].annotation_id] = json.dumps(entry, ensure_ascii=False)
            name = f"Document {len(pages) + 1}" + (f": {query}" if query else "")
            title = chosen
            if predictor.choices > 1:
                title += f", {' '.join(choices_of(scored.queries[index])[row.argmax()])}"
            shown = {title: f"{row.max():.3f}"}
            pages.append({"name": name, "words": words, "scores": {title: by_kind}, "answers": shown})
        for line_index in range(len(lines)):
            print(answers.get(str(line_index), ""), flush=True)  # an empty line for an empty one
    write_word_scores(explained(run.folder, options.file, ".html"), pages)
