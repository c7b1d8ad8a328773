"""The recipe of texts of graphs from end to end."""

import dataclasses
import functools
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from matplotlib.image import imread

from keras_headattn.optimizers import Repulsive
from recipes.engine.exporting import smoke_test
from recipes.engine.recipe import named_configs
from recipes.graphs.__main__ import RECIPE, main
from recipes.graphs.corpus import Graph, GraphCorpus, graph_tensors
from recipes.graphs.data import by_category, load_corpora
from recipes.graphs.evaluation import as_triples, score_graphs
from recipes.graphs.files import graph_from_json
from recipes.graphs.graph_to_text import Description
from recipes.graphs.modelling import make_writer
from recipes.graphs.settings import GraphsConfig
from recipes.graphs.train import CATEGORIES, SMOKE_TEST, VOCABULARY, sgd_or_adam
from recipes.graphs.vocabulary import GraphVocabulary
from tests.recipes.commands import built, quick_run, run_here, run_process, train_here

ROW = {"entities": ["Anna Lee", "New York"], "types": ["person", "town"], "triples": [["Anna Lee", "born in", 1]]}
GRAPH = json.dumps(ROW)
SMALL = dict(num_layers=1, hidden_dim=16, num_encoder_layers=1)
AGENDA = "on towns\tanna ; oslo\t<task> <method>\t0 0 1\t<task_0> is in <method_1> .\tplan"
WEBNLG = """<benchmark><entries><entry category="{0}" eid="Id1" size="1">
<modifiedtripleset><mtriple>Anna | home | Oslo</mtriple></modifiedtripleset>
<lex lid="Id1"><text>Anna is in Oslo.</text><template>AGENT-1 is in PATIENT-1 .</template></lex>
<entitymap><entity>AGENT-1 | Anna</entity><entity>PATIENT-1 | Oslo</entity></entitymap></entry></entries></benchmark>"""


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A finished quick run with repulsion, and its folder."""
    arguments = ["--repulsive", "svgd", "--max-graphs", 60, "--samples", 1, "--epochs", 1, "--max-entities", 8]
    return quick_run("graphs", tmp_path_factory, *arguments)


@pytest.fixture(scope="module")
def served(quick):
    return tf.saved_model.load(quick[0] / "exported" / "1").signatures["serving_default"]


# --------------------------------------------------------------------------------------------------------- a quick run


def test_a_run_leaves_scores_and_texts(quick, recipe):
    run, process = quick[0] / "run", quick[1]
    assert process.stderr == "" and "acts on 3 kernels" in process.stdout and "    -> " in process.stdout
    scores = json.loads((run / "results" / "test" / "scores.json").read_text())
    names = {"BLEU-1", "BLEU-2", "BLEU-3", "BLEU", "METEOR", "ROUGE-1", "ROUGE-2", "ROUGE-L", "chrF2"}
    assert names | {"entities named", "repeated clauses", "facts told", "wrong facts"} == set(scores)
    assert scores["BLEU"]["signature"].endswith("split:signs|beam_size:2|alpha:1.0|max_length:64")
    logs = json.loads((run / "history.json").read_text())[-1]
    assert {"val_accuracy", "head_distance", "tokens_per_second"} <= set(logs)
    printed = recipe("evaluate", run, "--beam-size", 1, "--metrics", "bleu", "entities")
    lines = [line for line in printed.splitlines() if line.startswith("test,beam_size=1: ")]
    assert lines[0].startswith("test,beam_size=1: BLEU-1 ") and ", BLEU " in lines[0] and "(nrefs:1|" in lines[0]
    assert lines[1].startswith("test,beam_size=1: entities named ") and "wrong facts" in lines[3]
    assert lines[4:] == ["test,beam_size=1: all with split:signs|beam_size:1|alpha:1.0|max_length:64"]
    assert "test,max_graphs=5: BLEU" in recipe("evaluate", run, "--max-graphs", 5, "--metrics", "bleu")
    assert json.loads((run / "results" / "test" / "scores.json").read_text()) == scores
    sample = re.search("^  (.*)\n    -> ", process.stdout, re.MULTILINE)[1]
    assert " | " in sample and "{" not in sample and len(sample) <= 160


def test_damaged_graphs_of_a_test_set_are_named(quick, recipe, tmp_path):
    rows = [GRAPH.replace("}", ', "text": "Anna Lee is in New York."}'), '{"entities": []}', "[" * 100_000]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    printed = recipe("evaluate", quick[0] / "run", "--test", tmp_path / "mine.jsonl", "--metrics", "entities")
    assert "mine.jsonl: 1 graphs, 1 texts; 2 damaged rows are left out: line 2 has no entities; line 3 has" in printed


def test_a_share_for_validation_has_no_graphs_of_training(tmp_path):
    rows = [json.dumps({"triples": [[f"a{i // 3}", "is", "b"]], "text": f"a{i // 3} is b, {i}."}) for i in range(30)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    corpora = load_corpora(GraphsConfig(train=(str(tmp_path / "a.jsonl"),), validation=("0.2",)))
    sides = [{graph.entities for graph in part.graphs} for part in (corpora.train, corpora.validation)]
    assert list(map(len, sides)) == [8, 2] and not set.intersection(*sides)
    assert (len(corpora.train), len(corpora.validation)) == (24, 6)


def test_a_shortened_graph():
    assert as_triples(GRAPH) == "Anna Lee | born in | New York"
    assert as_triples('{"entities": ["Anna", "Oslo"], "triples": []}') == "Anna; Oslo"
    many = json.dumps({"triples": [[f"a{number}", "knows", "b"] for number in range(50)]})
    assert as_triples(many).startswith("a0 | knows | b; a1 | knows") and as_triples(many).endswith(" ...")
    assert len(as_triples(many)) <= 160


def test_names_of_which_the_first_words_are_read(tmp_path, capsys):
    row = {"triples": [["Anna Maria Lee", "is in", "Oslo"]], "text": "Anna Maria Lee is in Oslo."}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    files = (str(tmp_path / "a.jsonl"),)
    settings = dict(train=files, validation=files, vocabulary_arguments=dict(min_count=1, max_words=2))
    settings |= dict(run=str(tmp_path / "run"), model_arguments=SMALL)
    built(RECIPE, GraphsConfig().changed(settings))
    assert "of 1 of 2 names the first 2 words are read (max_words)" in capsys.readouterr().out


def test_the_saved_model_writes_what_the_run_writes(quick, recipe, tmp_path):
    """In a process with TensorFlow alone, graphs of several sizes in a batch."""
    lines = (quick[0] / "run" / "results" / "test" / "sources.txt").read_text().splitlines()[:3] + [GRAPH]
    (tmp_path / "graphs.jsonl").write_text("\n".join(["", *lines]) + "\n")
    empty, *expected = recipe("write", quick[0] / "run", tmp_path / "graphs.jsonl", "--scores").splitlines()
    assert empty == ""
    tensors = graph_tensors([graph_from_json(line) for line in lines])
    texts, scores = smoke_test(quick[0] / "exported" / "1", SMOKE_TEST, tensors)
    assert [line.split("\t")[1] for line in expected] == texts
    np.testing.assert_allclose([float(line.split("\t")[0]) for line in expected], scores, atol=2e-4)
    empty, *written = recipe("write", quick[0] / "exported", tmp_path / "graphs.jsonl", "--scores").splitlines()
    assert empty == "" and [line.split("\t")[1] for line in written] == texts
    np.testing.assert_allclose([float(line.split("\t")[0]) for line in written], scores, atol=2e-4)


def test_pictures_and_a_page(quick, recipe, tmp_path):
    lines = (quick[0] / "run" / "results" / "test" / "sources.txt").read_text().splitlines()
    (tmp_path / "graphs.jsonl").write_text("\n".join(lines[:3]) + "\n")
    command = ["explain", quick[0] / "run", tmp_path / "graphs.jsonl", "--examples", 2]
    process = run_process("graphs", *command, "--block", 1, "--heads", 1, 2)
    assert process.stderr == ""
    folder = quick[0] / "run" / "explained" / "graphs"
    for number in (1, 2):
        for kind in ("attention", "copies"):
            colors = imread(folder / f"{number}_{kind}.png")[..., :3]
            assert (colors.max(-1) - colors.min(-1) > 0.2).mean() > 0.001
    assert not (folder / "3_copies.png").exists() and process.stdout.endswith(f"{folder / 'index.html'}\n")
    page = (folder / "index.html").read_text()
    assert "copied from" in page and f"Graph 2: {', '.join(json.loads(lines[1])['entities'])}" in page
    assert "counted from 1. Received: --heads 9" in recipe(*command, "--heads", 9)
    assert "counted from 1. Received: --block 2" in recipe(*command, "--block", 2)


@pytest.mark.parametrize("changes, message", [
    ({"triples": [["Anna Lee", "born in", "Oslo"]]}, "'Oslo', which is no entity"),
    ({"triples": [["Anna Lee", "born in"]]}, "which has the triple"),
    ({"triples": [["Anna Lee", "", "New York"]]}, "which has the triple"),
    ({"entities": ["Anna Lee", " "], "triples": []}, "an entity without a name"),
    ({"types": ["person"]}, "1 types for 2 entities"),
    ({"types": ["person", "<>"]}, "an entity without a type"),
    ({"entities": list("abcdefghi"), "types": list("abcdefghi"), "triples": []}, "8"),
])  # fmt: skip
def test_lines_that_are_no_graphs(changes, message, quick, recipe, tmp_path):
    """`write` names the line, of a run and of a SavedModel."""
    (tmp_path / "graphs.jsonl").write_text(f"{GRAPH}\n{json.dumps(ROW | changes)}\n")
    for folder in ("run", "exported"):
        reported = recipe("write", quick[0] / folder, tmp_path / "graphs.jsonl").splitlines()[-1]
        assert reported.startswith("error: ") and message in reported and "Received" in reported
        assert "Line 2" in reported or "8 entities at most" in reported


@pytest.mark.parametrize("changes, message", [
    ({"tails": [[1], [2]]}, r"not there, counted from 0. Received: \[2\]"),
    ({"heads": [[0], [-1]]}, r"not there, counted from 0. Received: \[-1\]"),
    ({"tails": [[1, 1], [1, 1]]}, "must have head, relation and tail. Received"),
    ({"entities": [["Anna Lee", "New York"], ["", "New York"]]}, "padding must be last. Received"),
    ({"types": [["person", "town"], ["person", ""]]}, r'name and a type.*New York'),
    ({"types": [["person"], ["person"]]}, r"name and a type. Received shapes: \[\[2 2\], \[2 1\]\]"),
    ({"entities": [["Anna Lee"] * 9] * 2, "types": [["town"] * 9] * 2}, r"8 entities at most. Received: \[9 9\]"),
    ({"entities": [["Anna Lee", "New York"], ["", ""]]}, r"must have entities. Received numbers: \[2 0\]"),
    ({"title": ["one"]}, "a row for each graph"),
])  # fmt: skip
def test_a_saved_model_refuses_what_is_no_graph(changes, message, served):
    tensors = graph_tensors([graph_from_json(GRAPH)] * 2) | changes
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        served(**{name: tf.constant(rows) for name, rows in tensors.items()})


def test_graphs_as_tensors():
    graphs = [graph_from_json('{"entities": ["Oslo"], "title": "A town"}'), graph_from_json(GRAPH)]
    assert graph_tensors(graphs) == {
        "entities": [["Oslo", ""], ["Anna Lee", "New York"]],
        "types": [["entity", ""], ["person", "town"]],
        "heads": [[0], [0]],
        "relations": [[""], ["born in"]],
        "tails": [[0], [1]],
        "title": ["A town", ""],
    }


def test_padding_changes_nothing(served):
    """A graph is written as by itself beside a larger one."""
    lines = ['{"entities": ["Oslo"]}', '{"triples": [["Anna Lee", "born in", "Oslo"], ["Anna Lee", "home", "Rome"]]}']

    def written(lines):
        tensors = graph_tensors([graph_from_json(line) for line in lines])
        found = served(**{name: tf.constant(rows) for name, rows in tensors.items()})
        return found["texts"].numpy(), found["scores"].numpy()

    alone, together = [written([line]) for line in lines], written(lines)
    assert [texts[0] for texts, _ in alone] == together[0].tolist()
    np.testing.assert_allclose([scores[0] for _, scores in alone], together[1], rtol=1e-4)


def test_a_saved_model_has_its_own_settings(quick, recipe, tmp_path):
    (tmp_path / "graphs.jsonl").write_text(GRAPH)
    command = ["write", quick[0] / "exported", tmp_path / "graphs.jsonl"]
    assert "--beam-size is only for runs" in recipe(*command, "--beam-size", 1)


# -------------------------------------------------------------------------------------------------------- training


def small(tmp_path, **changes):
    own = dict(
        model_arguments=SMALL,
        max_graphs=24,
        validation_graphs=0,
        beam_size=1,
    )
    own |= dict(
        epochs=2,
        tokens_per_batch=120,
        bucket_arguments=dict(num_buckets=1, num_graph_buckets=1),
        callback_arguments=dict(save_steps=2),
        export=None,
    )
    own |= dict(run=str(tmp_path / "run"), quiet=True, metrics=("bleu",), max_length=40)
    return dataclasses.replace(named_configs("graphs")["people"], **own | changes)


def test_an_interrupted_run_ends_as_another(tmp_path, monkeypatch):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 11:
                raise KeyboardInterrupt

    weights, history = train_here(RECIPE, small(tmp_path, run=str(tmp_path / "whole")), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train_here(RECIPE, small(tmp_path), monkeypatch, Stop())
    again, logs = train_here(RECIPE, small(tmp_path), monkeypatch)
    assert logs == history and "val_accuracy" in history[0]
    for mine, theirs in zip(weights, again, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def files(folder, name, *texts):
    for text, path in zip(texts, ("train", "val", "test"), strict=True):
        path = folder / f"{path}{name}"
        path.write_text(text + "\n")
        yield str(path)


@pytest.mark.parametrize("name", [".tsv", ".json", ".jsonl", ".xml"])
def test_each_format_is_read(name, tmp_path):
    row = {"title": "on towns", "entities": ["anna", "oslo"], "types": "<task> <method>"}
    row |= {"relations": ["anna -- USED-FOR -- oslo"], "abstract": "<task_0> is in <method_1> ."}
    mine = {"triples": [["Anna", "home", "Oslo"]], "text": "Anna is in Oslo."}
    text = {".tsv": AGENDA, ".json": json.dumps([row]), ".jsonl": json.dumps(mine), ".xml": WEBNLG}[name]
    train, validation, test = files(tmp_path, name, *(text.format(kind) if name == ".xml" else text for kind in "aab"))
    config = GraphsConfig(
        train=(train, train),
        validation=(validation,),
        test=(test,),
        vocabulary_arguments=dict(min_count=1),
        model_arguments=SMALL,
        run=str(tmp_path),
    )
    corpora = load_corpora(config)
    assert len(corpora.train) == 2 and list(corpora.tests) == ["test"]
    assert all(graph.texts == ((0, "is", "in", 1, "."),) for graph in corpora.train.graphs)
    inputs, labels, _ = built(RECIPE, config)[0][0]
    assert labels[0, 1:3].tolist() == GraphVocabulary.load(tmp_path / VOCABULARY).encode_text(("is", "in"))[:2]
    assert ("title" in inputs) == (name in (".tsv", ".json"))
    assert json.loads((tmp_path / CATEGORIES).read_text()) == (["a"] if name == ".xml" else [""])


def test_scores_by_category():
    graphs = [Graph(("a",), ("x",), (), (("is",),), ("a is",), category=kind) for kind in "aab"]
    tests = {"test": GraphCorpus(graphs, "demo"), "other": GraphCorpus(graphs[:2], "demo")}
    parts = by_category(tests, ["a"])
    assert parts["test"] == {"test": [0, 1, 2], "test_seen": [0, 1], "test_unseen": [2]}
    assert parts["other"] == {"other": [0, 1]}


def test_texts_are_scored_without_case_and_as_they_are_split():
    graph = Graph(("Oslo, Norway",), ("town",), (), ((0, "is", "old", "."),), ("Oslo, Norway is old.",))
    written = [Description(graph.fill(graph.texts[0]), 0.0, graph.texts[0])]
    scores = score_graphs(written, GraphCorpus([graph], "demo"), ("bleu", "entities", "repeated"), "beam_size:4")
    assert [round(score.value) for score in scores.values()] == [100, 100, 100, 100, 100, 0]


@pytest.mark.parametrize("name, kernels", [("repulsive_agenda", 18), ("webnlg", 9)])
def test_repulsion_acts_on_the_graph_encoder(name, kernels, tmp_path, capsys):
    config = named_configs("graphs")[name].changed(
        {"repulsive": "svgd", "model_arguments": {"hidden_dim": 8}, "run": str(tmp_path)}
    )
    vocabulary = type("Vocabulary", (), dict(vocabulary_size=9, entity_vocabulary_size=4, num_relations=1,
                                             title_vocabulary_size=None, forbidden_ids=(0,)))  # fmt: skip
    optimizer = sgd_or_adam(config)
    assert isinstance(optimizer, Repulsive) and optimizer.step_size == 0.1 and optimizer.repulsive_weight == 0.01
    optimizer.build(make_writer(config, vocabulary).trainable_variables)
    assert f"acts on {kernels} kernels" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, message", [
    (["--train", "{tmp}/none.tsv", "--validation", "{tmp}/none.tsv"], "There is no such file. Received: --train"),
    (["--train", "{tmp}"], "--train needs --validation"),
    (["--test", "{tmp}"], "--test needs --train"),
    (["--num-heads", "7"], "--num-heads must divide"),
    (["--metrics"], "Give --metrics"),
    (["--attention-arguments", "gamma=1"], "gamma"),
    (["--max-length", "2", "--max-graphs", "5"], "more tokens than --max-length"),
    (["write", "{tmp}/nothing"], "no run"),
])  # fmt: skip
def test_mistakes_are_reported_in_one_line(arguments, message, recipe, tmp_path):
    arguments = [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]
    reported = recipe(*arguments, *([] if arguments[0] == "write" else ["--run", tmp_path / "run"]))
    assert message in reported and reported.startswith("error: ") and "\n" not in reported
