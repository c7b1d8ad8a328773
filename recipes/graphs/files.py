"""Readers of graphs with their texts: AGENDA, WebNLG, and JSON of one's own."""

import dataclasses
import functools
import gzip
import itertools
import math
import pathlib
import xml.etree.ElementTree
import zlib

from keras_headattn._files import parse_json, read_lines
from recipes.graphs.corpus import SPLITS, Graph, GraphCorpus, GraphFault, find_names, find_tags

AGENDA_RELATIONS = ("USED-FOR", "CONJUNCTION", "FEATURE-OF", "PART-OF", "COMPARE", "EVALUATE-FOR", "HYPONYM-OF")
TAG = r"<([^<>\s]+)_(\d+)>"
WEBNLG_TAG = r"(?:AGENT|PATIENT|BRIDGE)-\d+"


def read_graphs(path, format=None, encoding="utf-8"):
    """Reads a `GraphCorpus` from a file, plain or `.gz`, or a folder. Damaged rows are left out and named.

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

    Texts are lower-cased. Those of AGENDA's columns are tokenised already, others are split at signs. Without `format`
    the ending counts, `.tsv`, `.json`, `.jsonl` or `.xml`; a folder is WebNLG.
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
    for location, made in readers[name](path, encoding):
        if isinstance(made, str):
            damaged.append(f"{location} has {made}")
        elif not (made.texts and all(made.texts)):
            damaged.append(f"{location} has no text")
        else:
            graphs.append(made)
    if not graphs:
        raise ValueError(f"There must be graphs with texts. Received: {path}: {'; '.join(damaged[:1]) or 'nothing'}")
    split = "spaces" if name == "agenda" else "signs"
    return GraphCorpus(graphs, str(path), split, tuple(damaged))


# AGENDA


def _agenda(path, encoding):
    for line_number, line in enumerate(read_lines(path, strip=False, encoding=encoding), 1):
        columns = line.rstrip("\r\n").split("\t")
        if columns != [""]:
            yield f"line {line_number}", _or_fault(_agenda_row, columns)


def _or_fault(make, *arguments):
    """Makes a graph, or describes its fault."""
    try:
        return make(*arguments)
    except GraphFault as error:
        return error.fault
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "values that are nested too deeply"


def _agenda_row(columns):
    if len(columns) < 5:
        raise ValueError(f"{len(columns)} columns of 6")
    title, entities, types, triples, abstract = columns[:5]
    entities = tuple(name.strip() for name in entities.split(";"))
    types = tuple(kind.strip("<>") for kind in types.split())
    parsed_triples = []
    for triple in filter(None, map(str.strip, triples.split(";"))):
        ends = triple.split()
        if len(ends) != 3 or not all(end.isdigit() for end in ends) or int(ends[1]) >= len(AGENDA_RELATIONS):
            raise ValueError(f"the triple {triple!r}")
        parsed_triples.append((int(ends[0]), AGENDA_RELATIONS[int(ends[1])], int(ends[2])))
    text = _tagged(abstract, types, SPLITS["spaces"])
    return _referring(Graph(entities, types, tuple(parsed_triples), (text,), title=title.strip()))


def _tagged(text, types, split):
    """Tokenises a text with tags of a type and a number."""

    def number_of(match):
        number = int(match[2])
        return number if number < len(types) and types[number] == match[1] else None

    return find_tags(text, TAG, number_of, split)


def _referring(graph):
    """Takes the texts in full as references."""
    return dataclasses.replace(graph, references=tuple(map(graph.fill, graph.texts)))


# JSON


def graph_from_json(text):
    """Reads the `Graph` of a JSON object, a str, as `read_graphs` describes it; it need have no texts.

    >>> graph_from_json('{"entities": ["Anna", "Oslo"], "triples": [["Anna", "home", 1]]}').triples
    ((0, 'home', 1),)
    """
    if not isinstance(text, str):
        raise ValueError(f"A graph is a JSON object in a str. Received: {type(text).__name__}")
    made = _or_fault(_json_line, text)
    if isinstance(made, str):
        raise ValueError(f"A graph is a JSON object. Received: {text[:60]}, which has {made}")
    return made


def graph_of_line(line, number, max_entities=math.inf):
    """Reads the graph of a line of JSON, whose number errors name; one with too many entities is a `ValueError`."""
    try:
        graph = graph_from_json(line)
    except ValueError as error:
        raise ValueError(f"Line {number}: {error}") from error
    if len(graph.entities) > max_entities:
        raise ValueError(
            f"Line {number}: a graph may have --max-entities {max_entities}. Received: {len(graph.entities)} entities"
        )
    return graph


def _json(path, encoding):
    lines = enumerate(read_lines(path, encoding=encoding), 1)
    first = next(((line_number, line) for line_number, line in lines if line), (1, ""))
    lines = itertools.chain([first], lines)
    if first[1].startswith("["):
        rows = parse_json("\n".join(line for _, line in lines), path)
        yield from ((f"object {index}", _or_fault(_json_row, row)) for index, row in enumerate(rows, 1))
    else:
        yield from ((f"line {line_number}", _or_fault(_json_line, line)) for line_number, line in lines if line)


def _json_line(line):
    return _json_row(parse_json(line, "text that"))


def _json_row(row):
    if not isinstance(row, dict):
        raise ValueError(f"no object but {str(row)[:40]!r}")
    triples = [_json_triple(triple) for triple in _list_of(row, "triples", "relations")]
    ends = dict.fromkeys(end for head, _, tail in triples for end in (head, tail) if isinstance(end, str))
    names = _list_of(row, "entities", kind=(str, int, float)) if "entities" in row else ends
    entities = tuple(str(name).strip() for name in names)
    numbers = {name: index for index, name in reversed([*enumerate(entities)])}
    unknown = [end for end in ends if end not in numbers]
    if unknown:
        raise ValueError(f"a triple with {unknown[0]!r}, which is no entity")
    triples = tuple((numbers.get(head, head), relation, numbers.get(tail, tail)) for head, relation, tail in triples)
    types = row.get("types", ["entity"] * len(entities))
    types = types.split() if isinstance(types, str) else _list_of({"types": types}, "types", kind=str)
    types = tuple(kind.strip("<>") for kind in types)
    texts = row.get("text", row.get("abstract", []))
    texts = [texts] if isinstance(texts, str) else _list_of({"text": texts}, "text", kind=str)
    names = list(map(SPLITS["signs"], entities))
    tokens = [find_names(_tagged(text, types, SPLITS["signs"]), names) for text in texts]
    more = {name: str(row.get(name) or "") for name in ("title", "category")}
    return _referring(Graph(entities, types, triples, tuple(tokens), **more))


def _list_of(row, *names, kind=object):
    """Returns the list under the first of some names that a row has, whose items are of a kind; none without any."""
    name = next((name for name in names if name in row), None)
    values = [] if name is None else row[name]
    if not isinstance(values, list) or any(not isinstance(item, kind) or isinstance(item, bool) for item in values):
        raise ValueError(f"a wrong {name!r}: {str(values)[:40]}")
    return values


def _json_triple(triple):
    parts = triple.split(" -- ") if isinstance(triple, str) else triple
    if not isinstance(parts, list) or len(parts) != 3 or not all(map(_is_name_or_number, parts)):
        raise ValueError(f"the triple {str(triple)[:60]}")
    head, relation, tail = (part.strip() if isinstance(part, str) else part for part in parts)
    return head, str(relation), tail


def _is_name_or_number(value):
    return isinstance(value, (str, int)) and not isinstance(value, bool)


# WebNLG


def _webnlg(path, encoding):
    if not path.is_dir() and not path.is_file():
        raise FileNotFoundError(f"No such file or folder. Received: {path}")
    files = sorted(path.rglob("*.xml")) if path.is_dir() else [path]
    for file in filter(pathlib.Path.is_file, files):
        within = file.relative_to(path) if path.is_dir() else file.name
        for index, entry in enumerate(_read_xml(file).iter("entry"), 1):
            location = f"{within}, {entry.get('eid', f'entry {index}')}"
            yield from ((f"{location}{text}", made) for text, made in _webnlg_entry(entry))


def _read_xml(path):
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            return xml.etree.ElementTree.parse(file).getroot()
    except (xml.etree.ElementTree.ParseError, LookupError, ValueError) as error:  # an unknown encoding is a LookupError
        raise ValueError(f"{path} is not XML: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"The gzip file is damaged; get it again. Received: {path} ({error})") from error


def _webnlg_entry(entry):
    """Yields the graph of an entry with its whole texts, and a fault for each other text."""
    triples, tags = _fields_of(entry, "modifiedtripleset"), _fields_of(entry, "entitymap")
    if not triples or not all(len(triple) == 3 for triple in triples):
        yield "", "a triple without head, relation and tail" if triples else "no modifiedtripleset of triples"
        return
    if tags is None or not all(len(tag) == 2 for tag in tags):
        yield "", "no entitymap" if tags is None else "an entity without tag and name"
        return
    heads, tails = ([triple[end] for triple in triples] for end in (0, 2))
    names = list(dict.fromkeys([name for _, name in tags] + [end for triple in triples for end in triple[::2]]))
    number_of = {name: index for index, name in enumerate(names)}
    kinds = {tag: number_of[name] for tag, name in tags}

    def kind(name):
        return "bridge" if name in heads and name in tails else "agent" if name in heads else "patient"

    texts, references, faults = _webnlg_texts(entry, kinds)
    yield from faults
    if texts:
        entities = tuple(name.replace("_", " ").strip('"') for name in names)
        triples = tuple((number_of[head], relation, number_of[tail]) for head, relation, tail in triples)
        more = dict(texts=texts, references=references, category=entry.get("category", ""))
        yield "", _or_fault(functools.partial(Graph, entities, tuple(map(kind, names)), triples, **more))


def _fields_of(entry, name):
    """The fields of each child of an element of an entry, which stand between bars; `None` without that element."""
    element = entry.find(name)
    if element is None:
        return None
    return [tuple(map(str.strip, (child.text or "").split("|"))) for child in element]


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
