"""Documents with the words that people marked as evidence, in the layout of the ERASER benchmark, and its results."""

import dataclasses
import json
import math
import pathlib
import reprlib

import numpy as np

from keras_headattn._files import decode_lines, read_json_lines, read_lines, write_atomically
from recipes.engine.data import DAMAGE, open_archive

FOLDER, PACKED, LINES = "docs", "docs.tar.gz", "docs.jsonl"


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Words of a document that someone marked.

    Args:
        docid: str, name of the document.
        start_token, end_token: ints, its words from `start_token` to before `end_token`; -1 where unknown.
        start_sentence, end_sentence: ints, the same of sentences.
        text: str, the words.
    """

    docid: str
    start_token: int
    end_token: int
    start_sentence: int = -1
    end_sentence: int = -1
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Annotation:
    """Question about documents, its answer, and the evidence for it.

    Args:
        annotation_id, query: str.
        classification: str, the answer.
        evidences: tuple of groups, which are tuples of `Evidence`. Each group is enough for the answer.
        docids: tuple of str, names of the documents.
        query_type: str or `None`.
    """

    annotation_id: str
    query: str
    classification: str
    evidences: tuple = ()
    docids: tuple = ()
    query_type: str | None = None

    def spans(self, docid):
        """Returns the spans of all groups in a document: sorted list of `(start, end)` in words, end exclusive."""
        spans = {
            (evidence.start_token, evidence.end_token)
            for group in self.evidences
            for evidence in group
            if evidence.docid == docid
        }
        return sorted(span for span in spans if span[0] >= 0)


@dataclasses.dataclass(frozen=True)
class EraserCorpus:
    """Annotations, a list, with their documents, a dictionary of name to sentences, which are lists of words.

    `name` is for messages.
    """

    annotations: list
    documents: dict
    name: str = "corpus"

    def __len__(self):
        return len(self.annotations)

    def words(self, docid):
        """Returns the words of all sentences of a document."""
        return [word for sentence in self.documents[docid] for word in sentence]

    def truth(self, annotation, docid):
        """Marks the words of a document that are evidence, those of all groups together: booleans `(n,)`."""
        marked = np.zeros(sum(map(len, self.documents[docid])), bool)
        for start, end in annotation.spans(docid):
            marked[start:end] = True
        return marked

    def sample(self, number, seed=0):
        """Draws at most so many annotations (`None`: all), in their order."""
        if number is None or number >= len(self):
            return self
        chosen = sorted(np.random.default_rng(seed).permutation(len(self))[:number])
        return dataclasses.replace(self, annotations=[self.annotations[index] for index in chosen])

    @property
    def rationale_share(self):
        """Mean share of a document's words that is evidence, of documents with evidence."""
        marks = [self.truth(annotation, docid) for annotation in self.annotations for docid in annotation.docids]
        shares = [marked.mean() for marked in marks if marked.any()]
        return float(np.mean(shares)) if shares else 0.0


def read_eraser(folder, split):
    """Reads a split, by its name, of a data set in the layout of ERASER: `EraserCorpus`.

    A folder has `train.jsonl`, `val.jsonl` and `test.jsonl`, and its documents: in the folder `docs`, in `docs.tar.gz`,
    which is that folder packed, or in `docs.jsonl`. A document is a sentence a line, with words between spaces. Of
    files in `docs` empty words and lines are passed over, of `docs.jsonl` they count, as in the benchmark's scorer.

    Names of documents lead to files in `docs` alone: one that leads elsewhere, by `..` or a link, is missing.

    Documents are those that an annotation names as `docids`; without them those of its evidence; without any, the
    document that has the annotation's own name.

    Source: DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models".

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: naming file and line: for what is not JSON, lacks a field, names a document that is missing, or has
            evidence outside its document.

    >>> annotation = Annotation("a", "good ?", "yes", ((Evidence("d", 1, 2),),), ("d",))
    >>> write_eraser(EraserCorpus([annotation], {"d": [["very", "good"], ["."]]}), "reviews", "train")
    >>> corpus = read_eraser("reviews", "train")
    >>> corpus.words("d"), corpus.truth(corpus.annotations[0], "d").tolist()
    (['very', 'good', '.'], [False, True, False])
    """
    folder = pathlib.Path(folder)
    path = folder / f"{split}.jsonl"
    rows = [(location, _annotation(location, row)) for location, row in read_json_lines(path)]
    if not rows:
        raise ValueError(f"There are no annotations. Received: {path}")
    documents = _read_documents(folder, {docid for _, row in rows for docid in _candidates(row)})
    annotations = [_with_documents(location, row, documents) for location, row in rows]
    used = {docid for annotation in annotations for docid in annotation.docids}
    return EraserCorpus(annotations, {name: text for name, text in documents.items() if name in used}, str(path))


def write_eraser(corpus, folder, split):
    """Writes a split as `read_eraser` reads it: `docs.jsonl`, to which other splits may be added, and `SPLIT.jsonl`.

    A word with white space, or another document of the same name in the folder, is an error.
    """
    folder = pathlib.Path(folder)
    texts = {}
    if (folder / LINES).exists():
        texts = {row["docid"]: row["document"] for _, row in read_json_lines(folder / LINES)}
    for docid, sentences in corpus.documents.items():
        if wrong := [word for sentence in sentences for word in sentence if word.split() != [word]]:
            raise ValueError(f"A word has no white space, and is not empty. Received: {wrong[0]!r} in {docid}")
        text = "\n".join(" ".join(sentence) for sentence in sentences)
        if texts.setdefault(docid, text) != text:
            raise ValueError(f"Documents have names of their own. Received: two of the name {docid} in {folder}")
    _write_lines(folder / LINES, ({"docid": docid, "document": text} for docid, text in texts.items()))
    _write_lines(folder / f"{split}.jsonl", map(dataclasses.asdict, corpus.annotations))


def write_rationales(path, results):
    """Writes results as the benchmark's scorer reads them, a line an annotation.

    | field | |
    |---|---|
    | `annotation_id` | str |
    | `rationales` | list of a document each: `docid`; `hard_rationale_predictions`, list of `start_token` and `end_token`, exclusive; `soft_rationale_predictions`, a number a word |
    | `classification`, `classification_scores` | the predicted class, and the probability of each |
    | `comprehensiveness_classification_scores`, `sufficiency_classification_scores` | probabilities without the words of the rationale, and of them alone |
    | `thresholded_scores` | list: `threshold`, a share of the words, and the last two fields |

    Args:
        path: str or path.
        results: list of dictionaries with these fields. All but the first two are optional, but the same in all lines.

    Raises:
        ValueError: if lines differ in their fields, an annotation comes twice, or a score is not finite.
    """  # noqa: E501
    results = list(results)
    fields = {tuple(sorted(row)) for row in results}
    if len(fields) != 1 or not {"annotation_id", "rationales"} <= set(next(iter(fields))):
        raise ValueError(f"All results must have annotation_id, rationales and the same fields. Received: {fields}")
    if len({row["annotation_id"] for row in results}) < len(results):
        raise ValueError(f"Results must be of an annotation each. Received: one twice, for {path}")
    for row in results:
        _check_scores(row, f"annotation {row['annotation_id']}")
    _write_lines(pathlib.Path(path), results)


def _check_scores(value, location):
    """Checks that all numbers of a result are finite; JSON has no others."""
    if isinstance(value, dict | list | tuple):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_scores(part, f"{location}, {name}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"Scores of `results` must be finite. Received: {value}, {location}")


def read_rationales(path):
    """Reads results, a JSON object a line, that `write_rationales` or another program wrote: list of dictionaries."""
    rows = []
    for location, row in read_json_lines(path):
        _check_fields(location, row, {"annotation_id": str, "rationales": list})
        rows.append(row)
    return rows


def _write_lines(path, rows):
    text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    write_atomically(path, text.encode("utf-8"))


def _check_fields(location, row, kinds):
    for name, kind in kinds.items():
        if name not in row or not isinstance(row[name], kind) or isinstance(row[name], bool):
            raise ValueError(
                f"{location} must have {name!r}, a {kind.__name__}. Received: {reprlib.repr(row.get(name))}"
            )


def _annotation(location, row):
    """Makes the `Annotation` of an object, with the documents that it names itself."""
    if row.get("query") is None:
        row = row | {"query": ""}
    _check_fields(location, row, dict(annotation_id=str, query=str, classification=str, evidences=list))
    groups = tuple(_group(location, group) for group in row["evidences"])
    fields = {name: row[name] for name in ("annotation_id", "query", "classification")}
    docids, kind = row.get("docids") or [], row.get("query_type")
    if not isinstance(docids, list) or not all(isinstance(docid, str) for docid in docids):
        raise ValueError(f"{location} must have 'docids', a list of str. Received: {reprlib.repr(docids)}")
    if not isinstance(kind, str | None):
        raise ValueError(f"{location} must have 'query_type', a str. Received: {reprlib.repr(kind)}")
    return Annotation(**fields, evidences=groups, docids=tuple(docids), query_type=kind)


def _group(location, group):
    """Makes the `Evidence` of a group, which is a list of objects."""
    if not isinstance(group, list) or not all(isinstance(item, dict) for item in group):
        raise ValueError(
            f"{location} must have groups of 'evidences', lists of objects. Received: {reprlib.repr(group)}"
        )
    kinds = dict(docid=str, start_token=int, end_token=int, start_sentence=int, end_sentence=int, text=str)
    for item in group:
        optional = {"start_sentence", "end_sentence", "text"} - item.keys()
        _check_fields(location, item, {name: kind for name, kind in kinds.items() if name not in optional})
    return tuple(Evidence(**{name: item[name] for name in kinds if name in item}) for item in group)


def _candidates(annotation):
    """Returns the names of documents that may be the annotation's."""
    return [*annotation.docids, *_of_evidence(annotation), annotation.annotation_id]


def _of_evidence(annotation):
    return list(dict.fromkeys(evidence.docid for group in annotation.evidences for evidence in group))


def _with_documents(location, annotation, documents):
    """Adds to the annotation the names of its documents, checked."""
    docids = [*annotation.docids] or _of_evidence(annotation) or [annotation.annotation_id]
    for docid in {*docids, *_of_evidence(annotation)}:
        if docid not in documents:
            raise ValueError(f"{location} needs a document that is missing. Received: {docid!r}")
    for evidence in (item for group in annotation.evidences for item in group):
        size = sum(map(len, documents[evidence.docid]))
        start, end = evidence.start_token, evidence.end_token
        if (start, end) != (-1, -1) and not 0 <= start <= end <= size:
            raise ValueError(
                f"{location}: evidence must lie in its document, which has {size} words. "
                f"Received: words {start} to {end} of {evidence.docid!r}"
            )
    return dataclasses.replace(annotation, docids=tuple(docids))


def _read_documents(folder, wanted):
    """Reads those of the wanted documents that are there: dictionary of lists of sentences."""
    if (folder / LINES).exists():
        documents = {}
        for location, row in read_json_lines(folder / LINES):
            _check_fields(location, row, dict(docid=str, document=str))
            if row["docid"] in wanted:
                documents[row["docid"]] = [line.strip().split(" ") for line in row["document"].split("\n")]
        return documents
    if (folder / FOLDER).is_dir():
        paths = {docid: _within(folder / FOLDER, docid) for docid in sorted(wanted)}
        return {docid: _sentences(read_lines(path)) for docid, path in paths.items() if path}
    if not (folder / PACKED).is_file():
        raise FileNotFoundError(f"There must be documents: {FOLDER}, {LINES} or {PACKED}. Received: {folder}")
    documents = {}
    try:
        with open(folder / PACKED, "rb") as file, open_archive(file) as archive:
            for member in archive:
                docid = pathlib.PurePosixPath(member.name).name
                if member.isfile() and docid in wanted:
                    documents[docid] = _sentences(
                        decode_lines(archive.extractfile(member), f"{folder / PACKED}, {member.name}")
                    )
    except (*DAMAGE, OSError) as error:
        raise ValueError(f"The archive is damaged; get it again. Received: {folder / PACKED} ({error})") from error
    return documents


def _within(folder, name):
    """Returns the path of a file by a name that somebody else wrote, or `None` if there is none in the folder."""
    try:
        path = (folder / name).resolve()
        return path if path.is_relative_to(folder.resolve()) and path.is_file() else None
    except (OSError, ValueError):  # a link to itself, a name that is too long, or a NUL
        return None


def _sentences(lines):
    return [[word for word in line.split(" ") if word] for line in lines if line]
