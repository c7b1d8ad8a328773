"""Documents with evidence: read, written, and damaged; and the scores of results, against the spec in plain loops."""

import json
import os
import pathlib
import tarfile

import numpy as np
import pytest

from keras_headattn.analysis import top_words
from recipes.rationales.data import classes_of, document_of, query_of
from recipes.rationales.eraser import (
    Annotation,
    EraserCorpus,
    Evidence,
    read_eraser,
    read_rationales,
    write_eraser,
    write_rationales,
)
from recipes.rationales.metrics import as_spans, iou_f1, rationale_auprc, rationale_average_precision, token_f1
from tests.refusals import refused

SHARED = pathlib.Path(os.environ.get("HEADATTN_SHARED", "../shared")) / "data"
MOVIES = SHARED / "eraser_movies"


@pytest.fixture
def corpus():
    groups = (Evidence("d1", 0, 2, 0, 1, "a b"), Evidence("d2", 1, 2)), (Evidence("d1", 1, 4),)
    rows = [
        Annotation("x", "what ?", "yes", groups, ("d1", "d2"), "kind"),
        Annotation("d2", "", "no", (), ("d2",)),
    ]
    return EraserCorpus(rows, {"d1": [["a", "b"], ["c", "d", "é"]], "d2": [["e", "f"]]})


def test_there_and_back(corpus, tmp_path):
    write_eraser(corpus, tmp_path, "train")
    write_eraser(EraserCorpus(corpus.annotations[1:], {"d2": corpus.documents["d2"]}), tmp_path, "val")
    again = read_eraser(tmp_path, "train")
    assert again.annotations == corpus.annotations and again.documents == corpus.documents
    assert read_eraser(tmp_path, "val").documents == {"d2": [["e", "f"]]}
    assert again.truth(again.annotations[0], "d1").tolist() == [True] * 4 + [False]
    assert again.annotations[0].spans("d1") == [(0, 2), (1, 4)]
    assert again.rationale_share == pytest.approx((0.8 + 0.5) / 2)
    assert len(again.sample(1)) == 1 and again.sample(5) is again


def test_the_three_places_of_documents(corpus, tmp_path):
    write_eraser(corpus, tmp_path, "train")
    (tmp_path / "docs.jsonl").unlink()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "d1").write_text("a  b\n\nc d é\n", encoding="utf-8")
    (tmp_path / "docs" / "d2").write_text("e f", encoding="utf-8")
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    for row in rows:
        del row["docids"]  # those of the evidence, or the document of the annotation's name
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_eraser(tmp_path, "train")
    assert found.documents == corpus.documents
    assert [each.docids for each in found.annotations] == [("d1", "d2"), ("d2",)]
    with tarfile.open(tmp_path / "docs.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "docs", "docs")
    for path in (tmp_path / "docs").iterdir():
        path.unlink()
    (tmp_path / "docs").rmdir()
    assert read_eraser(tmp_path, "train").documents == corpus.documents
    (tmp_path / "docs.jsonl").write_text(
        '{"docid": "d1", "document": "a  b\\n\\nc"}\n{"docid": "d2", "document": "e f"}\n'
    )
    assert read_eraser(tmp_path, "train").words("d1") == ["a", "", "b", "", "c"]  # as the scorer has it


def test_data_sets_of_the_benchmark(tmp_path):
    """As FEVER, MultiRC, e-SNLI and CoS-E have their fields."""
    documents = {
        "Ireland": "Ireland is an island .\nIt has low mountains .\n",
        "W-2.txt": "Tom woke late .\nHe ran .\n",
    }
    documents |= {"7_premise": "A man sleeps .\n", "7_hypothesis": "He is awake .\n", "q9": "Where is a lantern ?\n"}
    (tmp_path / "docs").mkdir()
    for name, text in documents.items():
        (tmp_path / "docs" / name).write_text(text)

    def evidence(docid, tokens, sentences=(-1, -1)):
        places = dict(
            zip(("start_token", "end_token", "start_sentence", "end_sentence"), (*tokens, *sentences), strict=True)
        )
        return {"docid": docid, "text": "", **places}

    both = [evidence("7_premise", (2, 3)), evidence("7_hypothesis", (2, 3))]
    several = [evidence("W-2.txt", (0, 4), (0, 1)), evidence("W-2.txt", (4, 7), (1, 2))]
    rows = [
        ("10", "Ireland is flat .", "REFUTES", ["Ireland"], [[evidence("Ireland", (5, 10), (1, 2))]]),
        ("W:0:1", "Who ran ? || Tom", "True", None, [several]),
        ("7", None, "contradiction", None, [both]),
        ("q9", "shop [sep] dark place", "B", ["q9"], [[evidence("q9", (3, 4))]]),
    ]  # fmt: skip
    fields = "annotation_id", "query", "classification", "docids", "evidences"
    lines = [json.dumps(dict(zip(fields, row, strict=True)) | {"query_type": None}) for row in rows]
    (tmp_path / "val.jsonl").write_text("\n".join(lines))
    corpus = read_eraser(tmp_path, "val")
    read = [(len(document_of(corpus, each)), query_of(each)[-1:]) for each in corpus.annotations]
    assert read == [(10, ["."]), (7, ["Tom"]), (8, []), (5, ["place"])]
    shares = [corpus.truth(each, docid).mean() for each in corpus.annotations for docid in each.docids]
    assert shares == [0.5, 1.0, 0.25, 0.25, 0.2]
    assert "||" in query_of(corpus.annotations[1]) and corpus.annotations[2].docids == ("7_premise", "7_hypothesis")
    with refused("choices", [1, 2]):
        classes_of(corpus)
    assert classes_of(EraserCorpus(corpus.annotations[3:], {})) == (["A", "B"], 2)
    assert classes_of(EraserCorpus(corpus.annotations[:3], {})) == (["REFUTES", "True", "contradiction"], 1)


GOOD = {"annotation_id": "d", "query": "", "classification": "yes", "evidences": []}


def evidence_at(start, end, docid="d", **more):
    return {"evidences": [[{"docid": docid, "start_token": start, "end_token": end} | more]]}


def read_second_line(folder, line):
    (folder / "test.jsonl").write_text(f"{json.dumps(GOOD)}\n{line}\n")
    (folder / "docs.jsonl").write_text('{"docid": "d", "document": "a b"}\n')
    read_eraser(folder, "test")


@pytest.mark.parametrize("change, name, received", [
    (evidence_at(1, 3), "2 words", "words 1 to 3 of 'd'"),
    (evidence_at(-2, 1), "2 words", "words -2 to 1"),
    (evidence_at(1, 0), "2 words", "words 1 to 0"),
    (evidence_at(0, 1, docid="e"), "missing", "'e'"),
    (evidence_at("0", 1), "'start_token'", "'0'"),
    (evidence_at(True, 1), "'start_token'", True),
    (evidence_at(0, 1, start_sentence="x"), "'start_sentence'", "'x'"),
    ({"evidences": [None]}, "'evidences'", None),
    ({"evidences": [5]}, "'evidences'", 5),
    ({"evidences": [[5]]}, "'evidences'", [5]),
    ({"evidences": [{"docid": "d"}]}, "'evidences'", {"docid": "d"}),
    ({"classification": None}, "'classification'", None),
    ({"docids": ["d", "f"]}, "missing", "'f'"),
    ({"docids": 5}, "'docids'", 5),
    ({"docids": "abc"}, "'docids'", "'abc'"),
    ({"docids": [["x"]]}, "'docids'", [["x"]]),
    ({"query_type": {}}, "'query_type'", {}),
])  # fmt: skip
def test_mistakes_are_named_with_their_line(tmp_path, change, name, received):
    with refused(name, received) as caught:
        read_second_line(tmp_path, json.dumps(GOOD | change))
    assert "test.jsonl, line 2" in str(caught.value) and "\n" not in str(caught.value)


def test_a_line_cut_short(tmp_path):
    with pytest.raises(ValueError, match="test.jsonl, line 2 is not JSON"):
        read_second_line(tmp_path, '{"annotation_id": ')


@pytest.mark.parametrize(
    "docid",
    ["{folder}/secret", "../secret", "../../{name}/secret", "link", "a/../../secret", "\0", "x" * 5_000],
    ids=range(7),
)
def test_documents_lie_in_their_folder(tmp_path, docid):
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("of this machine")
    (tmp_path / "docs" / "sub" / "d").write_text("a b")
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "secret")
    docid = docid.format(folder=tmp_path, name=tmp_path.name)
    for name in ("sub/d", docid):
        row = {"annotation_id": "x", "query": "", "classification": "yes", "evidences": [], "docids": [name]}
        (tmp_path / "test.jsonl").write_text(json.dumps(row))
        if name == docid:
            with pytest.raises(ValueError, match="a document that is missing"):
                read_eraser(tmp_path, "test")
        else:
            assert read_eraser(tmp_path, "test").documents == {"sub/d": [["a", "b"]]}


def test_missing_files_and_results(corpus, tmp_path):
    with refused("No such file", "train.jsonl", FileNotFoundError):
        read_eraser(tmp_path, "train")
    write_eraser(corpus, tmp_path, "train")
    (tmp_path / "docs.jsonl").unlink()
    with refused("docs, docs.jsonl or docs.tar.gz", tmp_path, FileNotFoundError):
        read_eraser(tmp_path, "train")
    line = {"annotation_id": "x", "rationales": [{"docid": "d1", "soft_rationale_predictions": [0.5, 0.5]}]}
    write_rationales(tmp_path / "results.jsonl", [line])
    assert read_rationales(tmp_path / "results.jsonl") == [line]
    with refused("annotation", "one twice"):
        write_rationales(tmp_path / "results.jsonl", [line, line])
    with refused("same fields", "'classification'"):
        write_rationales(tmp_path / "results.jsonl", [line, line | {"classification": "yes"}])
    with pytest.raises(ValueError):
        write_rationales(tmp_path / "results.jsonl", [line | {"classification_scores": {"yes": float("nan")}}])
    assert read_rationales(tmp_path / "results.jsonl") == [line]


@pytest.mark.skipif(not MOVIES.exists(), reason="needs the movie reviews in HEADATTN_SHARED")
def test_movies_and_their_scores():
    corpus = read_eraser(MOVIES, "test")
    assert len(corpus) == 199 and corpus.rationale_share == pytest.approx(0.314, abs=5e-4)
    rng = np.random.default_rng(0)
    part = corpus.annotations[:12]
    truth = [corpus.truth(each, each.docids[0]) for each in part]
    scores = [np.round(rng.random(len(words)) + 0.3 * words, 2) for words in truth]  # with ties
    hard = [as_spans(top_words(row, 0.2)) for row in scores]
    spans = [each.spans(each.docids[0]) for each in part]
    assert iou_f1(hard, spans) == pytest.approx(slow_iou_f1(hard, spans))
    assert token_f1(hard, spans) == pytest.approx(slow_token_f1(hard, spans))
    curves = [slow_curve(*pair) for pair in zip(scores, truth, strict=True)]
    areas = [sum((r - s) * (p + q) / 2 for (r, p), (s, q) in zip(c, [(0, 1), *c], strict=False)) for c in curves]
    steps = [sum((r - s) * p for (r, p), (s, _) in zip(c, [(0, 1), *c], strict=False)) for c in curves]
    assert rationale_auprc(scores, truth) == pytest.approx(np.mean(areas))
    assert rationale_average_precision(scores, truth) == pytest.approx(np.mean(steps))


def slow_iou_f1(predicted, truth):
    precisions, recalls = [], []
    for found, true in zip(predicted, truth, strict=True):
        hits = 0
        for span in found:
            best = 0
            for other in true:
                a, b = set(range(*span)), set(range(*other))
                best = max(best, len(a & b) / len(a | b))
            hits += best >= 0.5
        precisions.append(hits / len(found))
        recalls.append(hits / len(true))
    p, r = np.mean(precisions), np.mean(recalls)
    return 2 * p * r / (p + r) if p and r else 0


def slow_token_f1(predicted, truth):
    values = []
    for found, true in zip(predicted, truth, strict=True):
        a, b = ({word for span in spans for word in range(*span)} for spans in (found, true))
        p, r = len(a & b) / len(a), len(a & b) / len(b)
        values.append(2 * p * r / (p + r) if p and r else 0)
    return np.mean(values)


def slow_curve(scores, truth):
    """Recall and precision at each threshold, the highest first."""
    points = []
    for threshold in sorted(set(scores), reverse=True):
        chosen = scores >= threshold
        hits = (chosen & truth).sum()
        points.append((hits / truth.sum(), hits / chosen.sum()))
    return points
