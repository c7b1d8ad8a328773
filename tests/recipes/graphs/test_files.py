"""Graphs of AGENDA, of WebNLG and of one's own."""

import gzip
import json
import os
import tarfile

import pytest

from recipes.graphs.files import read_graphs
from tests.refusals import refused

AGENDA = [
    "Of Towns .",
    "anna ; oslo ; the fjord",
    "<task> <method> <material>",
    "0 0 1 ; 1 6 2",
    "<task_0> lives in <method_1> .",
    "0 1 -1",
]
JSON = {
    "entities": ["Anna", "New York", "York"],
    "types": ["person", "town", "town"],
    "triples": [["Anna", "lives in", "New York"], [0, "left", 2]],
    "text": "Anna left York: New York's people know <person_0>.",
}
TEXT = (0, "left", 2, ":", 1, "'s", "people", "know", 0, ".")


def write(folder, name, *lines):
    path = folder / name
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def agenda(**changes):
    row = dict(zip(("title", "entities", "types", "triples", "text", "plan"), AGENDA, strict=True)) | changes
    return "\t".join(row.values())


# ------------------------------------------------------------------------------------------------------------ AGENDA


@pytest.mark.parametrize("name", ["train.tsv", "train.tsv.gz"])
def test_columns_of_agenda(tmp_path, name):
    corpus = read_graphs(write(tmp_path, name, agenda(), "", agenda(text="a_word near <material_2>")))
    graph, other = corpus.graphs
    assert graph.entities == ("anna", "oslo", "the fjord") and graph.types == ("task", "method", "material")
    assert graph.triples == ((0, "USED-FOR", 1), (1, "HYPONYM-OF", 2))
    assert graph.texts == ((0, "lives", "in", 1, "."),) and graph.references == ("anna lives in oslo .",)
    assert graph.title == "Of Towns ." and corpus.split_at == "spaces" and corpus.damaged == ()
    assert other.texts == (("a_word", "near", 2),)  # a word with an underscore is a word


@pytest.mark.parametrize("changes, fault", [
    ({"types": "<task>"}, "the tag <method_1> of no entity"),
    ({"types": "<task> <method>"}, "2 types for 3 entities"),
    ({"triples": "0 0 3"}, "a triple with entity 3 of 3"),
    ({"triples": "0 7 1"}, "the triple '0 7 1'"),
    ({"triples": "0 1"}, "the triple '0 1'"),
    ({"text": "<task_1> lives"}, "the tag <task_1> of no entity"),
    ({"text": " "}, "no text"),
    ({"entities": "a ; ; c"}, "an entity without a name"),
])  # fmt: skip
def test_damaged_rows_are_named(tmp_path, changes, fault):
    corpus = read_graphs(write(tmp_path, "a.tsv", agenda(), agenda(**changes), "one\ttwo"))
    assert len(corpus) == 1
    assert corpus.damaged == (f"line 2 has {fault}", "line 3 has 2 columns of 6")
    assert corpus.summary().endswith(f"2 damaged rows are left out: line 2 has {fault}; line 3 has 2 columns of 6")


def test_an_entity_joined_to_itself_and_no_triples(tmp_path):
    rows = agenda(triples="1 2 1"), agenda(triples="")
    assert [graph.triples for graph in read_graphs(write(tmp_path, "a.tsv", *rows)).graphs] == [
        ((1, "FEATURE-OF", 1),),
        (),
    ]


@pytest.mark.parametrize("name", ["val", "test"])
def test_the_real_agenda(shared_data, name):
    corpus = read_graphs(shared_data / "agenda" / f"preprocessed.{name}.tsv")
    assert len(corpus) == 1000 and not corpus.damaged
    sizes = [len(graph.entities) for graph in corpus.graphs]
    assert min(sizes) >= 2 and max(sizes) <= 31 and abs(sum(sizes) / 1000 - 12.3) < 0.15
    used = sum(len({t for t in graph.texts[0] if isinstance(t, int)}) for graph in corpus.graphs)
    assert abs(used / sum(sizes) - 0.987) < 0.003
    assert {kind for graph in corpus.graphs for kind in graph.types} == {
        "task", "method", "metric", "material", "otherscientificterm",
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.jsonl.gz"])
def test_json_of_ones_own(tmp_path, name):
    """An object a line, or a list of them; names in texts are found, the longest first, and tags too."""
    lines = [json.dumps(JSON)] if "jsonl" in name else json.dumps([JSON], indent=1).splitlines()
    [graph] = read_graphs(write(tmp_path, name, *lines)).graphs
    assert graph.triples == ((0, "lives in", 1), (0, "left", 2)) and graph.texts == (TEXT,)
    assert graph.references == ("Anna left York : New York 's people know Anna .",)


def test_json_of_agenda(tmp_path):
    row = {
        "title": "Of Towns",
        "entities": ["anna", "oslo"],
        "types": "<task> <method>",
        "relations": ["anna -- USED-FOR -- oslo"],
        "abstract": "<task_0> lives in <method_1> .",
    }
    [graph] = read_graphs(write(tmp_path, "train.json", json.dumps([row]))).graphs
    assert graph.types == ("task", "method") and graph.triples == ((0, "USED-FOR", 1),)
    assert graph.texts == ((0, "lives", "in", 1, "."),) and graph.title == "Of Towns"


@pytest.mark.parametrize("kind", ["Town", "home_town", "town2", "città"])
def test_tags_of_any_type(kind, tmp_path):
    row = {"entities": ["Oslo"], "types": [kind], "text": f"<{kind}_0> is old"}
    [graph] = read_graphs(write(tmp_path, "a.jsonl", json.dumps(row))).graphs
    assert graph.texts == ((0, "is", "old"),)


def test_entities_of_triples_and_several_texts(tmp_path):
    row = {"triples": [["Anna", "lives in", "Oslo"]], "text": ["Anna lives in Oslo.", "Oslo is Anna's."]}
    [graph] = read_graphs(write(tmp_path, "a.jsonl", json.dumps(row))).graphs
    assert graph.entities == ("Anna", "Oslo") and graph.types == ("entity",) * 2
    assert graph.texts == ((0, "lives", "in", 1, "."), (1, "is", 0, "'s", "."))


@pytest.mark.parametrize("row, fault", [
    ('{"triples": [["a", "b"]], "text": "x"}', "the triple ['a', 'b']"),
    ('{"entities": ["a"], "triples": [["a", "r", "c"]], "text": "x"}', "a triple with 'c', which is no entity"),
    ('{"entities": ["a"], "triples": [[0, "r", 1]], "text": "x"}', "a triple with entity 1 of 1"),
    ('{"entities": ["a"], "triples": [[0.5, "r", 0]], "text": "x"}', "the triple [0.5, 'r', 0]"),
    ('{"entities": ["a"], "triples": [[0, null, 0]], "text": "x"}', "the triple [0, None, 0]"),
    ('{"entities": ["a"], "triples": [{"head": 0, "r": 1, "tail": 0}], "text": "x"}', "the triple {'head': 0"),
    ('{"entities": ["a"], "triples": {"a": 1}, "text": "x"}', "a wrong 'triples': {'a': 1}"),
    ('{"entities": "Anna", "triples": [], "text": "x"}', "a wrong 'entities': Anna"),
    ('{"entities": ["a", null], "triples": [], "text": "x"}', "a wrong 'entities': ['a', None]"),
    ('{"entities": ["a"], "types": [1], "triples": [], "text": "x"}', "a wrong 'types': [1]"),
    ('{"entities": ["a"], "types": ["x", "y"], "triples": [], "text": "x"}', "2 types for 1 entities"),
    ('{"entities": ["a"], "triples": [], "text": {"a": 1}}', "a wrong 'text': {'a': 1}"),
    ('{"entities": ["a"], "triples": [], "text": ["x", 5]}', "a wrong 'text': ['x', 5]"),
    ('{"entities": ["a"], "triples": []}', "no text"),
    ('{"triples": [], "text": "x"}', "no entities"),
    ("[1]", "no object but '[1]'"),
    ('{"a": ', "text that is not JSON. Received: Expecting value"),
    ("[" * 100_000, "text that is not JSON that can be read. Received: lists or objects nested too deeply"),
    ("[" * 950 + "]" * 950, ""),  # text that is read, and cannot be shown
    ("1" * 5_000, "text that is not JSON. Received: Exceeds the limit"),
])  # fmt: skip
def test_damaged_objects_are_named(tmp_path, row, fault):
    corpus = read_graphs(write(tmp_path, "a.jsonl", "", json.dumps(JSON), row))
    assert len(corpus) == 1 and corpus.damaged[0].startswith(f"line 3 has {fault}")


# ------------------------------------------------------------------------------------------------------------ WebNLG

ENTRY = """<benchmark><entries><entry category="Airport" eid="Id1" size="2">
<modifiedtripleset><mtriple>Aarhus | leader | Jo_B</mtriple><mtriple>Air_port | city | Aarhus</mtriple>
</modifiedtripleset>
<lex lid="Id1"><text>The airport of Aarhus.</text><template>AGENT-1 of BRIDGE-1 (PATIENT-1).</template></lex>
<lex lid="Id2"><text>Second</text><template></template></lex>
<lex lid="Id3"><text>Third</text><template>AGENT-2 is old .</template></lex>
<lex lid="Id4"><text>Jo B leads it.</text><template>PATIENT-1 does n't lead BRIDGE-1 's .</template></lex>
<entitymap><entity>AGENT-1 | Air_port</entity><entity>BRIDGE-1 | Aarhus</entity>
<entity>PATIENT-1 | Jo_B</entity></entitymap></entry></entries></benchmark>"""


def test_an_entry_of_webnlg(tmp_path):
    (tmp_path / "2triples").mkdir()
    write(tmp_path / "2triples", "Airport.xml", ENTRY)
    corpus = read_graphs(tmp_path)
    [graph] = corpus.graphs
    assert graph.entities == ("Air port", "Aarhus", "Jo B") and graph.types == ("agent", "bridge", "patient")
    assert graph.triples == ((1, "leader", 2), (0, "city", 1)) and graph.category == "Airport"
    assert graph.texts == ((0, "of", 1, "(", 2, ")", "."), (2, "does", "n't", "lead", 1, "'s", "."))
    assert graph.references == ("The airport of Aarhus.", "Jo B leads it.")
    place = "2triples/Airport.xml, Id1"
    assert corpus.damaged == (f"{place}, Id2 has no template", f"{place}, Id3 has the tag AGENT-2 of no entity")


@pytest.mark.parametrize("old, new, fault", [
    ("<mtriple>Aarhus | leader | Jo_B</mtriple>", "<mtriple/>", "a triple without head, relation and tail"),
    ("Aarhus | leader | Jo_B", "<!-- none -->", "a triple without head, relation and tail"),
    ("Aarhus | leader | Jo_B", " | leader | Jo_B", "an entity without a name"),
    ("modifiedtripleset", "tripleset", "no modifiedtripleset of triples"),
    ("entitymap", "map", "no entitymap"),
    ("AGENT-1 | Air_port", "", "an entity without tag and name"),
    ("AGENT-1 | Air_port", "<!-- none -->", "an entity without tag and name"),
])  # fmt: skip
def test_damaged_entries_of_webnlg_are_named(tmp_path, old, new, fault):
    damaged = ENTRY.replace(old, new).replace("Id1", "Id9", 1)
    text = ENTRY.replace("</entries></benchmark>", damaged.removeprefix("<benchmark><entries>"))
    corpus = read_graphs(write(tmp_path, "a.xml.gz", text))
    assert len(corpus) == 1 and f"a.xml.gz, Id9 has {fault}" in corpus.damaged


def test_the_real_webnlg(shared_data, tmp_path):
    with tarfile.open(shared_data / "webnlg" / "webnlg-v1.6-en.tar.gz") as file:
        file.extractall(tmp_path, filter="data")
    folder = tmp_path / "v1.6" / "en"
    corpora = {name: read_graphs(folder / name) for name in ("train", "dev", "test")}
    assert [len(corpus) for corpus in corpora.values()] == [6940, 870, 1862]
    texts = [sum(len(graph.texts) for graph in corpus.graphs) for corpus in corpora.values()]
    assert texts == [18_081, 2_260, 4_928] and len(corpora["train"].damaged) == 21
    graphs = corpora["train"].graphs
    relations = {name: {r for g in corpus.graphs for _, r, _ in g.triples} for name, corpus in corpora.items()}
    assert len(relations["train"]) == 246 and len(relations["test"] - relations["train"]) == 108
    assert abs(sum(len(graph.entities) for graph in graphs) / 6940 - 3.9) < 0.1
    assert {kind for graph in graphs for kind in graph.types} == {"agent", "bridge", "patient"}
    seen = {graph.category for graph in graphs}
    assert sum(graph.category in seen for graph in corpora["test"].graphs) == 971


# ------------------------------------------------------------------------------------------------------------ errors


def test_errors(tmp_path):
    with refused("format", "a.csv, None"):
        read_graphs(tmp_path / "a.csv")
    for name in ("a.tsv", "a.xml"):
        with refused("No such file", name, FileNotFoundError):
            read_graphs(tmp_path / name)
    with refused("graphs with texts", "line 1 has 1 columns of 6"):
        read_graphs(write(tmp_path, "b.tsv", "a"))
    with pytest.raises(ValueError, match="is not JSON"):
        read_graphs(write(tmp_path, "b.json", "[", "{"))
    with pytest.raises(ValueError, match="is not XML"):
        read_graphs(write(tmp_path, "b.xml", "<a>"))
    with pytest.raises(ValueError, match="c.xml is not XML: unknown encoding"):
        read_graphs(write(tmp_path, "c.xml", '<?xml version="1.0" encoding="klingon"?><a/>'))
    with pytest.raises(ValueError, match="d.json is not JSON that can be read"):
        read_graphs(write(tmp_path, "d.json", "[" * 100_000))
    os.mkfifo(tmp_path / "pipe.xml")
    with refused("No such file", "pipe.xml", FileNotFoundError):
        read_graphs(tmp_path / "pipe.xml")
    (tmp_path / "empty").mkdir()
    with refused("graphs with texts", "empty: nothing"):
        read_graphs(tmp_path / "empty")
