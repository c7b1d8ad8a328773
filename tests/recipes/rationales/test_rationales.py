"""The recipe of rationales: a quick run, its scores as the public scorer would have them, and other data."""

import dataclasses
import functools
import json
import re
import shutil
import types

import keras
import numpy as np
import pytest

from keras_headattn._files import read_lines
from recipes.engine.tables import read_scores
from recipes.rationales.__main__ import KINDS, RECIPE, main
from recipes.rationales.batches import DocumentBatches, padded_states
from recipes.rationales.data import document_of, query_of
from recipes.rationales.demo import reviews
from recipes.rationales.eraser import read_eraser, read_rationales, write_eraser
from recipes.rationales.explaining import explain
from recipes.rationales.predicting import load_predictor
from recipes.rationales.scoring import score_run
from recipes.rationales.train import encode, kept_states, score
from tests.recipes.commands import run_here, run_process, train, train_here
from tests.recipes.rationales.test_eraser import SHARED, slow_iou_f1, slow_token_f1

SMALL = dict(epochs=1, model_arguments=dict(lstm_dim=8, pooling_dim=8, hidden_dim=8), quiet=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rationales")
    for name, corpus in reviews(40, 10, 12, seed=1).items():
        write_eraser(corpus, folder / "data", name)
    given = dict(eraser=str(folder / "data"), size="bert_tiny", window=32, batch_size=8, learning_rate=1e-2)
    given |= dict(attention="evolving", vocabulary_size=200, run=str(folder / "run"), num_buckets=1)
    train(RECIPE, RECIPE.settings().changed(given | SMALL))
    return folder


def test_an_interrupted_run_ends_as_another(run, tmp_path, monkeypatch):
    """With the last block of the encoder trained, and the first frozen."""

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 7:
                raise KeyboardInterrupt

    given = dict(eraser=str(run / "data"), size="bert_tiny", window=32, batch_size=8, vocabulary_size=200)
    given |= dict(
        model_arguments=SMALL["model_arguments"] | dict(trainable_layers=1),
        epochs=2,
        callback_arguments=dict(save_steps=2),
        num_buckets=1,
        export=None,
    )

    def config(name):
        return RECIPE.settings().changed(SMALL | given | dict(run=str(tmp_path / name)))

    weights, history = train_here(RECIPE, config("whole"), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train_here(RECIPE, config("parts"), monkeypatch, Stop())
    again, logs = train_here(RECIPE, config("parts"), monkeypatch)
    assert logs == history and len(history) == 2
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def command(capsys):
    return functools.partial(run_here, main, capsys)


def test_scores_and_results(run, command):
    table = command("score", run / "run", "--documents", 5, "--samples", 10, "--output", run / "table.md")
    assert "12 annotations, words are removed from 5" in table and (run / "table.md").read_text() in table
    assert all(f"| run, {kind} |" in table for kind in KINDS) and "baseline: constant" in table
    folder, corpus = run / "run" / "results" / "test", read_eraser(run / "data", "test")
    record = json.loads((folder / "rationales.json").read_text())
    train = read_eraser(run / "data", "train")
    assert record["share"] == pytest.approx(train.rationale_share)
    lines = read_rationales(folder / "attention.jsonl")
    assert [line["annotation_id"] for line in lines] == [each.annotation_id for each in corpus.annotations]
    hard = [[tuple(span.values()) for span in line["rationales"][0]["hard_rationale_predictions"]] for line in lines]
    truth = [each.spans(each.docids[0]) for each in corpus.annotations]
    found = record["scores"]["attention"]
    assert found["iou_f1"] == pytest.approx(slow_iou_f1(hard, truth))
    assert found["token_f1"] == pytest.approx(slow_token_f1(hard, truth))
    for line, each in zip(lines, corpus.annotations, strict=True):
        soft = line["rationales"][0]["soft_rationale_predictions"]
        assert len(soft) == len(corpus.words(each.docids[0])) and sum(soft) == pytest.approx(1, abs=1e-5)
    assert not (folder / "lime.jsonl").exists()  # of a part alone
    for kind in KINDS:
        lines = read_rationales(folder / f"{kind}_part.jsonl")
        assert len(lines) == 5
        for name in ("comprehensiveness", "sufficiency"):
            drops, steps = [], []
            for line in lines:
                chosen, full = line["classification"], line["classification_scores"]
                field = f"{name}_classification_scores"
                drops.append(full[chosen] - line[field][chosen])
                steps.append([full[chosen] - step[field][chosen] for step in line["thresholded_scores"]])
            assert record["scores"][kind][name] == pytest.approx(np.mean(drops), abs=1e-6)
            assert record["scores"][kind][f"aopc_{name}"] == pytest.approx(np.mean(steps), abs=1e-6)


def test_explain_evaluate_and_mistakes(run, command, tmp_path, figures):
    (tmp_path / "texts.txt").write_text("the plot is truly great .\tgood ?\n\n<b> dull\n")
    options = "--kinds", "attention", "lime", "--samples", 10
    process = run_process("rationales", "explain", run / "run", tmp_path / "texts.txt", *options)
    assert process.stderr == ""
    first, empty, second = process.stdout.splitlines()
    assert empty == ""
    lines = [json.loads(first), json.loads(second)]
    assert [line["words"][0] for line in lines] == ["the", "<b>"]
    for line in lines:
        assert list(line["scores"]) == ["attention", "lime"]
        assert all(len(row) == len(line["words"]) for row in line["scores"].values())
        assert line["classification"] == max(line["probabilities"], key=line["probabilities"].get)
    assert [line["query"] for line in lines] == ["good ?", ""]
    page = (run / "run" / "explained" / "texts.html").read_text()
    assert "&lt;b&gt;" in page and "<h2>Document 1: good ?</h2>" in page
    assert f"<h3>{lines[0]['classification']}: {max(lines[0]['probabilities'].values()):.3f}</h3>" in page
    assert "test: accuracy" in command("evaluate", run / "run")
    counts = [int(text.get_text()) for text in figures[0].axes[0].texts]
    rows = (run / "run" / "results" / "test" / "confusion.txt").read_text().splitlines()[1:]
    assert counts == [int(count) for row in rows for count in row.split()[1:]] and sum(counts)
    assert (run / "run" / "results" / "test" / "confusion.png").exists()
    assert "--samples must be at least 1" in command("score", run / "run", "--samples", 0)
    assert "--samples is only for lime. Received" in command("score", run / "run", "--kinds", "cls", "--samples", 5)
    assert "writes no SavedModel" in command("train", "--export", tmp_path / "models")
    other = ["--eraser", run / "data", "--size", "bert_tiny", "--states", run / "run" / "states", "--epochs", 1]
    message = command("train", *other, "--encoder-seed", 5, "--run", tmp_path / "other", "--quiet")
    assert "--states has the states of another encoder" in message and "encoder_seed=0 (now 5)" in message


def test_a_quick_run_learns_and_shows_words(tmp_path):
    """Without data: reviews made by code, whose opinions it finds."""
    process = run_process("rationales", "--quick", "--run", tmp_path / "run")
    assert process.stderr == ""
    scores = json.loads((tmp_path / "run" / "results" / "test" / "scores.json").read_text())
    assert scores["accuracy"] >= 0.9
    shown = process.stdout.partition("In brackets are the words that the pooling attends to most:\n")[2].splitlines()
    assert len(shown) == 8
    corpus = reviews()["test"]
    texts = [" ".join(corpus.words(each.docids[0])) for each in corpus.annotations]
    for text, answer in zip(shown[:6:2], shown[1:6:2], strict=True):
        place = texts.index(re.sub(r"[\[\]]", "", text.strip()))
        assert re.fullmatch(r" +-> (NEG|POS) \(\d\.\d{3}\), labelled (NEG|POS)", answer)
        assert answer.endswith(f"labelled {corpus.annotations[place].classification}") and "[" in text
    command = "Next: python -m recipes.rationales"
    assert shown[6:] == [f"{command} score {tmp_path / 'run'}", f"{command} explain {tmp_path / 'run'} FILE"]


def test_samples_of_long_documents_with_queries(run, capsys):
    """Part of a document is shown, with its query where these differ; and one class for all is reported."""
    finished, config = RECIPE.open(run / "run", {"quiet": False, "samples": 2})
    train, test = (read_eraser(run / "data", name) for name in ("train", "test"))
    first, second = test.annotations[:2]  # of two classes
    long = {"long": [["nothing"] * 100, *test.documents[first.docids[0]]]}
    annotations = [dataclasses.replace(first, docids=("long",), query="good ?"), second]
    corpus = dataclasses.replace(test, annotations=annotations, documents=test.documents | long)

    class Constant:
        classes = list(read_lines(run / "run" / "labels.txt"))

        def num_words(self, documents, queries):
            return [len(words) for words in documents]

        def __call__(self, documents, queries, progress=None):
            return np.array([[0.7, 0.3]] * len(documents))

        def scores(self, documents, queries, progress=None):
            return {"attention": [np.eye(len(words))[-2] for words in documents]}

    score(finished, config, Constant(), {"made": corpus}, train)
    printed = capsys.readouterr().out
    assert f"made: every text was taken for {Constant.classes[0]}." in printed, printed
    assert re.search(r"^  \.\.\. nothing .*\[\w+\] \.\.\. \| good \?$", printed, re.MULTILINE)
    score(finished, config.changed({"samples": 0}), Constant(), {"made": corpus}, train)
    assert "brackets" not in capsys.readouterr().out


def test_documents_that_are_cut_are_counted(run, tmp_path, capsys):
    """Not only those to train on: words that are not read have no score."""
    shutil.copytree(run / "run", tmp_path / "run")
    finished = RECIPE.open(tmp_path / "run", {"max_windows": 1})
    predictor = load_predictor(*finished, finished[0].load_model())
    score(*finished, predictor, {"test": read_eraser(run / "data", "test")})
    evaluated = capsys.readouterr().out
    score_run(*finished, types.SimpleNamespace(kinds=["random"], documents=2, samples=5, seed=0))
    scored = capsys.readouterr().out
    cut = re.findall(r"test: (\d+) of 12 documents are cut, \d+% of the words are read", evaluated + scored)
    assert len(cut) == 2 and cut[0] == cut[1] and 0 < int(cut[0]) <= 12
    (tmp_path / "long.txt").write_text("dull " * 500 + "\ngreat\n")
    options = dict(file=str(tmp_path / "long.txt"), query="", kinds=["random"], seed=0, samples=5)
    explain(*finished, types.SimpleNamespace(**options))
    assert re.search("long.txt: 1 of 2 documents are cut, [1-9]% of the words", capsys.readouterr().err)


def test_states_are_those_of_the_encoder(run):
    finished, config = RECIPE.open(run / "run")
    model = finished.load_model()
    predictor = load_predictor(finished, config, model)
    corpus = read_eraser(run / "data", "val")
    sequences = encode(corpus, predictor.pieces)
    assert max(len(each.windows) for each in sequences) > 1
    kept = kept_states(finished, config, model.encoder)
    whole = predictor(*zip(*((document_of(corpus, a), query_of(a)) for a in corpus.annotations), strict=True))
    inputs = padded_states([kept[each] for each in sequences], len(sequences), 128, kept[sequences[0]].shape[1:])
    odds = model.reader(inputs).numpy()
    odds = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(odds, whole, atol=2e-3)  # float16
    batches = DocumentBatches(sequences, [0] * len(sequences), None, batch_size=len(sequences), bucket_lengths=(128,))
    inputs, _, _ = batches[0]
    logits = model(inputs).numpy()
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), whole, atol=1e-4)


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """A run of questions with two choices, one of which is in the document."""
    folder = tmp_path_factory.mktemp("questions")
    for name, corpus in reviews(24, 8, 8, seed=1).items():
        annotations = []
        for number, each in enumerate(corpus.annotations):
            own = each.evidences[0][0].text
            choices = [own, "not at all"] if number % 3 else ["not at all", own]
            annotations.append(
                dataclasses.replace(each, query=" [sep] ".join(choices), classification="AB"[number % 3 == 0])
            )
        write_eraser(dataclasses.replace(corpus, annotations=annotations), folder / "data" / "pairs", name)
    given = dict(eraser=str(folder / "data"), dataset="pairs", size="bert_tiny", window=32, batch_size=6)
    given |= dict(vocabulary_size=200, run=str(folder / "run"), num_buckets=1, learning_rate=1e-2)
    train(RECIPE, RECIPE.settings().changed(given | SMALL))
    return folder


def test_questions_with_choices(questions, command, tmp_path):
    assert (questions / "run" / "labels.txt").read_text() == "A\nB\n"
    finished, config = RECIPE.open(questions / "run")
    model, corpus = finished.load_model(), read_eraser(questions / "data" / "pairs", "test")
    documents, queries = zip(*((document_of(corpus, a), query_of(a)) for a in corpus.annotations), strict=True)
    predictor = load_predictor(finished, config, model)
    assert model.reader.num_outputs == 1 and predictor.choices == 2
    found = predictor(documents, queries)
    pairs = [predictor.pieces.of_choices(*pair, 2) for pair in zip(documents, queries, strict=True)]
    batches = DocumentBatches(sum(pairs, []), [0] * 8, batch_size=8, bucket_lengths=(128,), choices=2)
    logits = model(batches[0][0]).numpy()
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), found, atol=1e-5)
    turned = [" [sep] ".join(reversed(" ".join(query).split(" [sep] "))).split() for query in queries]
    np.testing.assert_allclose(predictor(documents, turned)[:, ::-1], found, atol=1e-5)
    for kind, rows in predictor.scores(documents, queries).items():
        for row, other, words in zip(rows, predictor.scores(documents, turned)[kind], documents, strict=True):
            assert len(row) == len(words) and row.sum() == pytest.approx(1)
            np.testing.assert_allclose(row, other, atol=1e-5)
    table = command("score", questions / "run", "--documents", 3, "--samples", 5, "--kinds", "attention", "lime")
    assert "8 annotations, words are removed from 3" in table
    (line, *_) = read_rationales(questions / "run" / "results" / "test" / "lime_part.jsonl")
    assert sum(line["classification_scores"].values()) == pytest.approx(1) and set(line["classification_scores"]) == {
        *"AB"
    }
    scores = read_scores(questions / "run")
    assert {("test", "accuracy"), ("attention", "auprc"), ("lime", "sufficiency")} <= set(scores)
    assert "test: accuracy" in command("evaluate", questions / "run")
    (tmp_path / "text.txt").write_text("the plot is truly great .\ttruly great [sep] dull\n")
    assert set(json.loads(command("explain", questions / "run", tmp_path / "text.txt"))["probabilities"]) == {*"AB"}
    page = (questions / "run" / "explained" / "text.html").read_text()
    assert "<h3>A, truly great: " in page or "<h3>B, dull: " in page
    (tmp_path / "text.txt").write_text("the plot is truly great .\tdull\n")
    message = command("explain", questions / "run", tmp_path / "text.txt")
    assert "The query must have 2 choices with [sep] between them. Received: 'dull'" in message


def test_explanations_of_no_question(command, tmp_path):
    """As CoS-E has them; explanations whose questions are not there are counted, and another version is named."""
    question = {"id": "a", "question": {"stem": "Where is it?", "choices": [{"label": "A", "text": "here"}]}}
    row = {"id": "a", "explanation": {"selected": "is it"}}
    for split in ("train", "dev"):
        (tmp_path / f"{split}_rand_split.jsonl").write_text(json.dumps(question | {"answerKey": "A"}))
        (tmp_path / f"cose_{split}_v1.0.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(row | {'id': 'b'})}\n")
    (tmp_path / "cose_dev_v1.11.jsonl").write_text("{}")
    printed = command("convert", "cos_e", tmp_path, tmp_path / "out")
    assert printed.count("1 of 2 explanations are of no question and are left out") == 2
    assert "cose_dev_v1.0.jsonl is read; left out: cose_dev_v1.11.jsonl" in printed
    for damaged in (row | {"explanation": None}, row | {"explanation": {"selected": 5}}):
        (tmp_path / "cose_train_v1.0.jsonl").write_text(json.dumps(damaged))
        printed = command("convert", "cos_e", tmp_path, tmp_path / "out")
        assert printed.startswith("error: ") and "cose_train_v1.0.jsonl, line 1" in printed


@pytest.mark.skipif(not (SHARED / "esnli").exists(), reason="needs e-SNLI and CoS-E in HEADATTN_SHARED")
def test_converted_data(command, tmp_path):
    printed = command("convert", "esnli", SHARED / "esnli" / "eSNLI", tmp_path / "esnli")
    assert "train: 8,857 annotations, 0 with evidence" in printed and "test: 9,824" in printed
    corpus = read_eraser(tmp_path / "esnli", "val")
    assert len(corpus) == 985 and len(corpus.annotations[0].docids) == 2
    printed = command("convert", "cos_e", SHARED / "cos_e" / "v1.0", tmp_path / "cos_e")
    corpus = read_eraser(tmp_path / "cos_e", "train")
    marked = [each for each in corpus.annotations if each.evidences]
    questions = (SHARED / "cos_e" / "v1.0" / "train_rand_split.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in questions.splitlines()]
    answers = {
        row["id"]: choice["text"]
        for row in rows
        for choice in row["question"]["choices"]
        if choice["label"] == row["answerKey"]
    }
    assert len(corpus) == 7610 and len(marked) > 5000
    for each in marked[:50]:
        (start, end), text = each.spans(each.annotation_id)[0], each.evidences[0][0].text
        assert " ".join(corpus.words(each.annotation_id)[start:end]) == text
        assert (place := ord(each.classification) - ord("A")) in range(3)
        assert answers[each.annotation_id] == each.query.split(" [sep] ")[place]


def test_generated_reviews_mark_their_opinions():
    corpus = reviews(50, 1, 1)["train"]
    for each in corpus.annotations:
        for (evidence,) in each.evidences:
            words = corpus.words(evidence.docid)[evidence.start_token - 1 : evidence.end_token + 1]
            assert words[0] == "is" and words[-1] == "." and " ".join(words[1:-1]) == evidence.text
