"""Graphs of entities and relations, with their texts."""

import dataclasses
import numbers
import re

from keras_headattn.data._labelled_text import Examples

SHOWN = 3  # damaged rows that are named
# As `text.WordTokenizer` splits: words, numbers with their points, English endings, other signs.
WORDS = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\d+(?:[.,]\d+)+|\w+|[^\w\s]")


def split_at_signs(text):
    """Splits a text at signs, lower-cased: words, numbers, English endings and other signs.

    >>> split_at_signs("It isn't Anna's.")
    ['it', 'is', "n't", 'anna', "'s", '.']
    """
    return WORDS.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))


def split_at_spaces(text):
    """Splits a tokenised text at spaces, lower-cased."""
    return text.lower().split()


SPLITS = {"signs": split_at_signs, "spaces": split_at_spaces}


class GraphFault(ValueError):
    """Error of what is no graph; `fault` says why in a few words."""

    def __init__(self, fault):
        super().__init__(
            f"A graph must have entities with names, a type for each, and triples and texts of these. Received: {fault}"
        )
        self.fault = fault


@dataclasses.dataclass(frozen=True)
class Graph:
    """Graph of entities and relations, and the texts that say the same.

    Args:
        entities: tuple of str, their names. There is at least one.
        types: tuple of str, the type of each entity.
        triples: tuple of `(head, relation, tail)`: numbers of entities and the name of a relation.
        texts: tuple of texts, each a tuple of words, str, and of the numbers of entities, int.
        references: tuple of str, the texts in full that a written one is scored against.
        title, category: str.

    >>> graph = Graph(("Anna", "Oslo"), ("person", "town"), ((0, "lives in", 1),), ((0, "lives", "in", 1, "."),))
    >>> graph.fill(graph.texts[0])
    'Anna lives in Oslo .'
    """

    entities: tuple
    types: tuple
    triples: tuple
    texts: tuple = ()
    references: tuple = ()
    title: str = ""
    category: str = ""

    def __post_init__(self):
        if fault := _fault_of(self):
            raise GraphFault(fault)

    def fill(self, tokens):
        """Returns a text in full, with the names of entities in place of their numbers, and spaces between tokens."""
        return " ".join(self.entities[token] if isinstance(token, int) else token for token in tokens)


@dataclasses.dataclass(frozen=True)
class GraphCorpus(Examples):
    """Graphs in the order in which they were read.

    Args:
        graphs: list of `Graph`.
        name: str, the source, for messages.
        split_at: str, where titles, names and texts are split: `"signs"`, or `"spaces"` if they are tokenised already.
        damaged: tuple of str, the faults of rows that were left out.
    """

    graphs: list
    name: str
    split_at: str = "signs"
    damaged: tuple = ()

    def __len__(self):
        return len(self.graphs)

    def take(self, indices):
        """Returns the graphs of these indices, in their order."""
        return dataclasses.replace(self, graphs=[self.graphs[index] for index in indices])

    def _keys(self):
        return ((graph.entities, graph.triples) for graph in self.graphs)

    def summary(self):
        """Returns a line of text: the number of graphs, and the rows that were left out."""
        texts = sum(len(graph.texts) for graph in self.graphs)
        line = f"{self.name}: {len(self):,} graphs, {texts:,} texts"
        if not self.damaged:
            return line
        more = "" if len(self.damaged) <= SHOWN else "; ..."
        named = "; ".join(self.damaged[:SHOWN]) + more
        return f"{line}; {len(self.damaged):,} damaged rows are left out: {named}"


def find_names(words, names):
    """Replaces names in a text by the numbers of entities, the longest name first.

    `words` are str, and int for entities that are known already; `names` are lists of words.

    >>> find_names(["new", "york", "city", "is", "old"], [["york"], ["new", "york", "city"]])
    (1, 'is', 'old')
    """
    order = sorted((entity for entity, name in enumerate(names) if name), key=lambda entity: -len(names[entity]))
    tokens, position = [], 0
    while position < len(words):
        entity = next((n for n in order if [*words[position : position + len(names[n])]] == names[n]), None)
        tokens.append(words[position] if entity is None else entity)
        position += 1 if entity is None else len(names[entity])
    return tuple(tokens)


def find_tags(text, tag, number_of, split):
    """Replaces tags in a text by the numbers of entities: tuple of str and int. A tag of no entity is an error.

    `tag` is a pattern, and `number_of` gives the number of a match, or `None`; `split` makes words of a str.
    """
    tokens, begin = [], 0
    for match in re.finditer(tag, text):
        entity = number_of(match)
        if entity is None:
            raise ValueError(f"the tag {match[0]} of no entity")
        tokens += [*split(text[begin : match.start()]), entity]
        begin = match.end()
    return (*tokens, *split(text[begin:]))


def graph_tensors(graphs):
    """Makes the inputs of a SavedModel of `export_graph_to_text`, padded with empty names and zeros.

    Nested lists: `"entities"` and `"types"` `(B, E)`, str; `"heads"`, `"relations"` and `"tails"` `(B, T)`, int, str
    and int; and `"title"` `(B,)`, str.

    >>> graph_tensors([Graph(("Anna", "Oslo"), ("person", "town"), ((0, "home", 1),))])["heads"]
    [[0]]
    """

    def padded(rows, padding):
        length = max(1, *map(len, rows), 1)
        return [[*row, *[padding] * (length - len(row))] for row in rows]

    return {
        "entities": padded([graph.entities for graph in graphs], ""),
        "types": padded([graph.types for graph in graphs], ""),
        "heads": padded([[head for head, _, _ in graph.triples] for graph in graphs], 0),
        "relations": padded([[relation for _, relation, _ in graph.triples] for graph in graphs], ""),
        "tails": padded([[tail for _, _, tail in graph.triples] for graph in graphs], 0),
        "title": [graph.title for graph in graphs],
    }


def _fault_of(graph):
    """Describes the fault of a graph; `None` without one."""
    count = len(graph.entities)
    if not count:
        return "no entities"
    if len(graph.types) != count:
        return f"{len(graph.types)} types for {count} entities"
    if not all(isinstance(name, str) and name.strip() for name in graph.entities):
        return "an entity without a name"
    if not all(graph.types):
        return "an entity without a type"
    for triple in graph.triples:
        head, relation, tail = triple if len(triple) == 3 else (None, None, None)
        if not (_is_number(head) and isinstance(relation, str) and relation and _is_number(tail)):
            return f"the triple {triple!r}"
    ends = (("triple", end) for head, _, tail in graph.triples for end in (head, tail))
    copied = (("text", token) for text in graph.texts for token in text if not isinstance(token, str))
    for field, entity in (*ends, *copied):
        if not (_is_number(entity) and 0 <= entity < count):
            return f"a {field} with entity {entity} of {count}"
    return None


def _is_number(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
