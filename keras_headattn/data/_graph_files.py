"""Reads graphs with their texts: AGENDA, WebNLG, and JSON of one's own."""

import dataclasses
import itertools
import json
import pathlib
import xml.etree.ElementTree

from keras_headattn._files import read_lines
from keras_headattn.data._graphs import SPLITS, Graph, GraphCorpus, fault_of, find_names, find_tags

AGENDA_RELATIONS = ("USED-FOR", "CONJUNCTION", "FEATURE-OF", "PART-OF", "COMPARE", "EVALUATE-FOR", "HYPONYM-OF")
AGENDA_TAG = r"<([a-z]+)_(\d+)>"
WEBNLG_TAG = r"(?:AGENT|PATIENT|BRIDGE)-\d+"


def read_graphs(path, format=None, encoding="utf-8"):
    """Reads graphs with their texts from a file, plain or `.gz`, or from a folder. Damaged rows are left out and named.

    | format | |
    |---|---|
    | agenda | GraphWriter's files of AGENDA, six columns with tabs: title, entities, types, triples, abstract, plan |
    | json | a list of objects, or one object a line |
    | webnlg | WebNLG 1.6: an XML file, or a folder of them; entities by its entity map, texts by its templates |

    An object of JSON has `"entities"`, names, and `"triples"`, lists of head, relation and tail, by names or numbers;
    or `"relations"`, strings `"head -- relation -- tail"`, as the original of AGENDA has them. Without `"entities"`
    they are those of the triples. It has `"text"` or `"abstract"`, a string or a list of several, and may have
    `"types"`, `"title"` and `"category"`. In a text an entity is its name, or a tag such as `<town_1>`, of its type and
    number from 0.

    Texts are lower-cased. Those of AGENDA's columns are tokenised already, others are split at signs.

    Args:
        path: str or path.
        format: str. Default `None`: by the ending, `.tsv`, `.json`, `.jsonl` or `.xml`; a folder is WebNLG.
        encoding: str, of the file. Default "utf-8".

    Returns:
        `GraphCorpus`.

    Raises:
        FileNotFoundError: if there is no such file or folder.
        ValueError: for another format, a file that is not of its format, or if no row is whole.
    """
    path = pathlib.Path(path)
    readers = {"agenda": _agenda, "json": _json, "webnlg": _webnlg}
    endings = {".tsv": "agenda", ".json": "json", ".jsonl": "json", ".xml": "webnlg"}
    name = format or ("webnlg" if path.is_dir() else endings.get(pathlib.Path(path.name.removesuffix(".gz")).suffix))
    if name not in readers:
        raise ValueError(
            "Graphs are read from .tsv, .json, .jsonl and .xml, .gz too, and from folders, or `format` must be one of "
            f"{', '.join(readers)}. Received: {path}, {format!r}"
        )
    graphs, damaged = [], []
    for place, made in readers[name](path, encoding):
        fault = made if isinstance(made, str) else fault_of(made)
        if fault:
            damaged.append(f"{place} has {fault}")
        else:
            graphs.append(made)
    if not graphs:
        raise ValueError(f"There must be graphs with texts. Received: {path}: {'; '.join(damaged[:1]) or 'nothing'}")
    split = "spaces" if name == "agenda" else "signs"
    return GraphCorpus(graphs, str(path), split, tuple(damaged))


# AGENDA


def _agenda(path, encoding):
    for number, line in enumerate(read_lines(path, strip=False, encoding=encoding), 1):
        columns = line.rstrip("\r\n").split("\t")
        if columns != [""]:
            yield f"line {number}", _or_fault(_agenda_row, columns)


def _or_fault(make, *arguments):
    """A graph, or what is wrong with it."""
    try:
        return make(*arguments)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _agenda_row(columns):
    if len(columns) < 5:
        raise ValueError(f"{len(columns)} columns of 6")
    title, entities, types, triples, abstract = columns[:5]
    entities = tuple(name.strip() for name in entities.split(";"))
    types = tuple(kind.strip("<>") for kind in types.split())
    found = []
    for triple in filter(None, map(str.strip, triples.split(";"))):
        ends = triple.split()
        if len(ends) != 3 or not all(end.isdigit() for end in ends) or int(ends[1]) >= len(AGENDA_RELATIONS):
            raise ValueError(f"the triple {triple!r}")
        found.append((int(ends[0]), AGENDA_RELATIONS[int(ends[1])], int(ends[2])))
    text = _tagged(abstract, types, SPLITS["spaces"])
    return _referring(Graph(entities, types, tuple(found), (text,), title=title.strip()))


def _tagged(text, types, split):
    """The tokens of a text with tags of a type and a number."""

    def number_of(match):
        number = int(match[2])
        return number if number < len(types) and types[number] == match[1] else None

    return find_tags(text, AGENDA_TAG, number_of, split)


def _referring(graph):
    """The graph with its texts in full as references."""
    return dataclasses.replace(graph, references=tuple(map(graph.fill, graph.texts)))


# JSON


def graph_from_json(text):
    """The graph of a JSON object, as `read_graphs` describes it, which need have no texts.

    Args:
        text: str.

    Returns:
        `Graph`.

    Raises:
        ValueError: for what is no JSON, or no graph: without entities, or with a triple that names an entity that is
            not there, say.

    >>> graph_from_json('{"entities": ["Anna", "Oslo"], "triples": [["Anna", "home", 1]]}').triples
    ((0, 'home', 1),)
    """
    try:
        graph = _json_row(json.loads(text))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"A graph is a JSON object. Received: {text[:60]} ({type(error).__name__}: {error})"
        ) from error
    except ValueError as error:
        raise ValueError(f"A graph is a JSON object. Received: {error}") from error
    if fault := fault_of(graph, needs_text=False):
        raise ValueError(f"A graph is a JSON object. Received: {fault}")
    return graph


def _json(path, encoding):
    lines = enumerate(read_lines(path, encoding=encoding), 1)
    first = next(((number, line) for number, line in lines if line), (1, ""))
    lines = itertools.chain([first], lines)
    if first[1].startswith("["):
        try:
            rows = json.loads("\n".join(line for _, line in lines))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        yield from ((f"object {number}", _or_fault(_json_row, row)) for number, row in enumerate(rows, 1))
    else:
        places = ((f"line {number}", line) for number, line in lines if line)
        yield from ((place, _or_fault(lambda line: _json_row(json.loads(line)), line)) for place, line in places)


def _json_row(row):
    if not isinstance(row, dict):
        raise ValueError(f"no object but {str(row)[:40]!r}")
    triples = [_json_triple(triple) for triple in row.get("triples", row.get("relations", ()))]
    ends = dict.fromkeys(end for head, _, tail in triples for end in (head, tail) if isinstance(end, str))
    entities = tuple(str(name).strip() for name in row.get("entities", ends))
    numbers = {name: number for number, name in reversed([*enumerate(entities)])}
    unknown = [end for end in ends if end not in numbers]
    if unknown:
        raise ValueError(f"a triple with {unknown[0]!r}, which is no entity")
    triples = tuple((numbers.get(head, head), relation, numbers.get(tail, tail)) for head, relation, tail in triples)
    types = row.get("types", ["entity"] * len(entities))
    types = tuple(kind.strip("<>") for kind in (types.split() if isinstance(types, str) else types))
    texts = row.get("text", row.get("abstract", ()))
    texts = [texts] if isinstance(texts, str) else list(texts)
    names = list(map(SPLITS["signs"], entities))
    tokens = [find_names(_tagged(text, types, SPLITS["signs"]), names) for text in texts]
    more = {name: str(row.get(name, "")) for name in ("title", "category")}
    return _referring(Graph(entities, types, triples, tuple(tokens), **more))


def _json_triple(triple):
    parts = triple.split(" -- ") if isinstance(triple, str) else list(triple)
    if len(parts) != 3 or any(isinstance(part, bool) for part in parts):
        raise ValueError(f"the triple {triple!r}")
    head, relation, tail = (part.strip() if isinstance(part, str) else part for part in parts)
    return head, str(relation), tail


# WebNLG


def _webnlg(path, encoding):
    files = sorted(path.rglob("*.xml")) if path.is_dir() else [path]
    if not path.exists():
        raise FileNotFoundError(f"No such file or folder. Received: {path}")
    for file in files:
        try:
            entries = xml.etree.ElementTree.parse(file).getroot().iter("entry")
        except xml.etree.ElementTree.ParseError as error:
            raise ValueError(f"{file} is not XML: {error}") from error
        within = file.relative_to(path) if path.is_dir() else file.name
        for entry in entries:
            place = f"{within}, {entry.get('eid')}"
            yield from ((f"{place}{text}", made) for text, made in _webnlg_entry(entry))


def _webnlg_entry(entry):
    """Yields the graph of an entry with its whole texts, and a fault for each other text."""
    triples = [tuple(map(str.strip, triple.text.split("|"))) for triple in entry.find("modifiedtripleset")]
    if not triples or not all(len(triple) == 3 for triple in triples):
        yield "", "a triple without head, relation and tail"
        return
    tags = [tuple(map(str.strip, entity.text.split("|"))) for entity in entry.find("entitymap")]
    heads, tails = ([triple[end] for triple in triples] for end in (0, 2))
    names = list(dict.fromkeys([name for _, name in tags] + [end for triple in triples for end in triple[::2]]))
    number_of = {name: number for number, name in enumerate(names)}
    kinds = {tag: number_of[name] for tag, name in tags}

    def kind(name):
        return "bridge" if name in heads and name in tails else "agent" if name in heads else "patient"

    texts, references, faults = _webnlg_texts(entry, kinds)
    yield from faults
    if texts:
        yield (
            "",
            Graph(
                tuple(name.replace("_", " ").strip('"') for name in names),
                tuple(map(kind, names)),
                tuple((number_of[head], relation, number_of[tail]) for head, relation, tail in triples),
                texts,
                references,
                category=entry.get("category", ""),
            ),
        )


def _webnlg_texts(entry, kinds):
    """Templates as tokens, the texts in full, and a place and a fault for each text that is not whole."""
    texts, references, faults = [], [], []
    for text in entry.iter("lex"):
        full, template = ((text.findtext(name) or "").strip() for name in ("text", "template"))
        if not full or not template:
            faults.append((f", {text.get('lid')}", "no text" if not full else "no template"))
            continue
        try:
            texts.append(find_tags(template, WEBNLG_TAG, lambda match: kinds.get(match[0]), SPLITS["signs"]))
            references.append(full)
        except ValueError as error:
            faults.append((f", {text.get('lid')}", str(error)))
    return tuple(texts), tuple(references), faults
