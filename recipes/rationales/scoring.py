"""Agreement of scores of words with the evidence that people marked, and the model's need of the words."""

import json
import math
import pathlib

import numpy as np

from keras_headattn._files import write_atomically
from keras_headattn.analysis import aopc, lime, random_scores, remove_words, top_words
from recipes.engine.finished import by_title, folders_of_seeds
from recipes.engine.progress import progress_bar
from recipes.engine.report import markdown_table, mean_text
from recipes.rationales.data import document_of, labels_of, query_of, read_split
from recipes.rationales.eraser import write_rationales
from recipes.rationales.metrics import (
    as_spans,
    degenerate_baselines,
    iou_f1,
    performance,
    rationale_auprc,
    rationale_average_precision,
    token_f1,
)
from recipes.rationales.predicting import load_predictor
from recipes.rationales.words import report_cut

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of words that are removed, as in the scorer of ERASER
COLUMNS = {
    "accuracy": "accuracy",
    "f1_macro": "macro F1",
    "iou_f1": "IOU F1",
    "token_f1": "token F1",
    "auprc": "AUPRC",
    "average_precision": "avg. precision",
    "comprehensiveness": "Comp",
    "sufficiency": "Suff",
    "aopc_comprehensiveness": "AOPC Comp",
    "aopc_sufficiency": "AOPC Suff",
}


class Scored:
    """Corpus as a model reads it, with the scores of its words.

    Args:
        predictor: `Predictor`.
        corpus: `EraserCorpus`.
        share: float, share of the words that are a hard rationale.
        quiet: True to show no progress.
    """

    def __init__(self, predictor, corpus, share, quiet=False):
        self.predictor, self.quiet = predictor, quiet
        self.corpus = corpus
        self.share = share
        whole = [document_of(corpus, annotation) for annotation in corpus.annotations]
        self.queries = [query_of(annotation) for annotation in corpus.annotations]
        # Words that are not read must not move up when others are removed.
        read = predictor.num_words(whole, self.queries)
        self.documents = [words[:count] for words, count in zip(whole, read, strict=True)]
        self.sizes = [len(words) for words in whole]

    def scores(self, kinds, options):
        """Returns the scores of the words that are read: dictionary of kinds to a list of arrays."""
        scores = {}
        count, quiet = len(self.documents), self.quiet
        inside = [kind for kind in kinds if kind not in ("lime", "random")]
        if inside:
            progress = progress_bar(f"Scores of words: {', '.join(inside)}", count, quiet)
            every = self.predictor.scores(self.documents, self.queries, progress)
            scores |= {kind: every[kind] for kind in inside}
        if "random" in kinds:
            scores["random"] = random_scores(self.documents, seed=options.seed)
        if "lime" in kinds:
            progress = progress_bar(f"LIME, {options.samples} samples of a document", count, quiet)
            scores["lime"] = self._lime(options, progress)
        return {kind: scores[kind] for kind in kinds}

    def _lime(self, options, progress):
        """Coefficients above 0 of twice as many words as a rationale has, which sum to 1."""
        scores = []
        for index, (words, query) in enumerate(zip(self.documents, self.queries, strict=True)):
            if words:
                most = min(len(words), 2 * math.ceil(self.share * len(words)))
                arguments = dict(
                    samples=options.samples, num_features=most, seed=options.seed + index, keep_second=True
                )
                row = np.maximum(lime(self.predictor, [words], [query], **arguments)[0], 0)
            else:
                row = np.zeros(0)
            scores.append(row / (row.sum() or 1.0))
            progress(index + 1)
        return scores

    def by_document(self, scores):
        """Pairs `(scores, truth)` of single documents; words that are not read have the score 0."""
        pairs = []
        for annotation, row, size in zip(self.corpus.annotations, scores, self.sizes, strict=True):
            row = np.concatenate([row, np.zeros(size - len(row))])
            for docid in annotation.docids:
                truth = self.corpus.truth(annotation, docid)
                pairs.append((row[: len(truth)], truth))
                row = row[len(truth) :]
        return pairs

    def plausibility(self, scores):
        """Measures against human evidence: dictionary; empty where nobody marked words."""
        pairs = [pair for pair in self.by_document(scores) if len(pair[0])]
        if not any(truth.any() for _, truth in pairs):
            return {}
        rows, truth = zip(*pairs, strict=True)
        hard = [as_spans(top_words(row, self.share)) for row in rows]
        named = [(annotation, docid) for annotation in self.corpus.annotations for docid in annotation.docids]
        spans = [annotation.spans(docid) for annotation, docid in named if self.corpus.words(docid)]
        return {
            "iou_f1": iou_f1(hard, spans),
            "token_f1": token_f1(hard, spans),
            "auprc": rationale_auprc(rows, truth),
            "average_precision": rationale_average_precision(rows, truth),
        }

    def faithfulness(self, scores, kind):
        """Measures of the model's need of words, and the three probabilities they are made of; `kind` is printed."""
        shares = [*SHARES, self.share]
        progress = progress_bar(f"Removing words by their scores: {kind}", len(scores), self.quiet)
        full, without, only = remove_words(
            self.predictor, self.documents, scores, self.queries, shares, keep_second=True, progress=progress
        )
        measures = {}
        for name, parts in (("comprehensiveness", without), ("sufficiency", only)):
            measures[name] = aopc(full, parts[-1:])[0]
            measures[f"aopc_{name}"] = aopc(full, parts[:-1])[0]
        return measures, (full, without, only)

    def results(self, scores, predicted, classes, parts=None):
        """Returns the lines of results, as `write_rationales` takes them."""
        pairs, lines = iter(self.by_document(scores)), []
        for index, annotation in enumerate(self.corpus.annotations):
            line = {"annotation_id": annotation.annotation_id, "rationales": []}
            for docid in annotation.docids:
                row, _ = next(pairs)
                spans = as_spans(top_words(row, self.share)) if len(row) else []
                hard = [{"start_token": start, "end_token": end} for start, end in spans]
                soft = row.tolist()
                line["rationales"].append(
                    {"docid": docid, "hard_rationale_predictions": hard, "soft_rationale_predictions": soft}
                )
            line["classification"] = classes[predicted[index].argmax()]
            line["classification_scores"] = _named(classes, predicted[index])
            lines.append(line | (_removed(classes, index, *parts[1:]) if parts else {}))
        return lines


def _removed(classes, index, without, only):
    """Returns the fields of a line that are about removed words; the last share is that of a rationale."""
    names = "comprehensiveness_classification_scores", "sufficiency_classification_scores"
    both = [[_named(classes, part[index]) for part in parts] for parts in (without, only)]
    steps = [
        {"threshold": share, **dict(zip(names, probabilities, strict=True))}
        for share, *probabilities in zip(SHARES, *(parts[:-1] for parts in both), strict=True)
    ]
    return {**dict(zip(names, (parts[-1] for parts in both), strict=True)), "thresholded_scores": steps}


def _named(classes, row):
    return {name: float(value) for name, value in zip(classes, row, strict=True)}


def score_run(run, config, options):
    """Scores the words of the test set of a finished run, writes results, and returns measures by kind.

    `results/KIND/scores.json` has the measures, and `results/test/KIND.jsonl` all annotations. Where words are removed
    of a part of them alone, `KIND_part.jsonl` has those, with the fields about removed words.
    """
    corpus, quiet = read_split(config, "test"), config.quiet
    predictor = load_predictor(run, config, run.load_model())
    classes, share = predictor.classes, read_split(config, "train").rationale_share or 0.2
    whole, part = (
        Scored(predictor, selection, share, quiet) for selection in (corpus, corpus.sample(options.documents))
    )
    report_cut("test", whole.sizes, list(map(len, whole.documents)))
    predicted = predictor(whole.documents, whole.queries, progress_bar("Reading test", len(corpus), quiet))
    perf = performance(labels_of(corpus, classes), predicted)
    is_part = len(part.corpus) < len(corpus)
    scores = whole.scores([kind for kind in options.kinds if not (is_part and kind == "lime")], options)
    folder, measures_by_kind = run.results / "test", {}
    places = {annotation.annotation_id: index for index, annotation in enumerate(corpus.annotations)}
    chosen = [places[annotation.annotation_id] for annotation in part.corpus.annotations]
    of_part = {kind: [rows[index] for index in chosen] for kind, rows in scores.items()}
    of_part |= part.scores(["lime"], options) if is_part and "lime" in options.kinds else {}
    for kind in options.kinds:
        measures, parts = part.faithfulness(of_part[kind], kind)
        plausible = whole.plausibility(scores[kind]) if kind in scores else part.plausibility(of_part[kind])
        measures_by_kind[kind] = perf | plausible | measures
        text = json.dumps(plausible | measures | {"examples": len(part.corpus)}, indent=1) + "\n"
        write_atomically(run.results / kind / "scores.json", text.encode("utf-8"))
        if is_part:
            lines = part.results(of_part[kind], predicted[chosen], classes, parts)
            write_rationales(folder / f"{kind}_part.jsonl", lines)
        if kind in scores:
            lines = whole.results(scores[kind], predicted, classes, None if is_part else parts)
            write_rationales(folder / f"{kind}.jsonl", lines)
    record = {"annotations": len(corpus), "removed_from": len(part.corpus), "share": share, "scores": measures_by_kind}
    record["baselines"] = _baselines(whole)
    write_atomically(folder / "rationales.json", (json.dumps(record, indent=1) + "\n").encode("utf-8"))
    return record


def _baselines(scored):
    """Random baselines; empty without annotations."""
    truth = [truth for _, truth in scored.by_document([[] for _ in scored.documents]) if len(truth)]
    return degenerate_baselines(truth) if any(marks.any() for marks in truth) else {}


def score_runs(recipe, options):
    """Scores runs, and prints a table for each data set: means and deviations over the seeds of a folder."""
    records_by_title = {}
    for title, folders in by_title(options.folders, folders_of_seeds).items():
        if not folders:
            raise ValueError(f"There is no run. Received: {title}")
        records_by_title[title] = []
        for folder in folders:
            print(f"{folder}:", flush=True)
            records_by_title[title].append(score_run(*recipe.open(folder), options))
    text = markdown(records_by_title)
    print(f"\n{text}", end="")
    if options.output:
        write_atomically(pathlib.Path(options.output), text.encode("utf-8"))


def markdown(records_by_title):
    """A table for each data set: from title of a run to a list of what `score_run` returns, one a seed."""
    rows, baselines = {}, {}
    for title, records in records_by_title.items():
        first = records[0]
        note = (
            f"{first['annotations']} annotations, words are removed from {first['removed_from']} of them, which LIME "
            f"explains; rationales have {first['share']:.2%} of the words. Lower Suff is better."
        )
        for kind in first["scores"]:
            values = [[record["scores"][kind].get(name) for record in records] for name in COLUMNS]
            cells = [f"{title}, {kind}", *(mean_text(figures, "{:.3f}".format) for figures in values)]
            rows.setdefault(note, []).append(cells)
        baselines[note] = [
            [f"baseline: {name}", *(_cell(measures.get(column)) for column in COLUMNS)]
            for name, measures in first["baselines"].items()
        ]
    tables = ([note, "", *markdown_table(list(COLUMNS.values()), rows[note] + baselines[note]), ""] for note in rows)
    return "\n".join(line for lines in tables for line in lines)


def _cell(value):
    return "–" if value is None else f"{value:.3f}"
