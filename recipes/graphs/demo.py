"""A task made by code: graphs of invented people, towns, dates and sums, and texts that say the same.

It needs no download, and a small model learns it in minutes. The names of the three splits are disjoint, though made of
the same words: a text can be written only by copying the entities of its graph, and by telling their relations apart.
"""

import itertools

import numpy as np

from recipes.engine.numbers import MONTHS, SPLITS, number_in_words
from recipes.graphs.corpus import Graph, GraphCorpus

# The facts of a sentence: relation, place of the head among its entities, place of the tail.
SENTENCES = {
    "{} was born in {} .": [("born in", 0, 1)],
    "{} was born on {} .": [("born on", 0, 1)],
    "{} was born in {} on {} .": [("born in", 0, 1), ("born on", 0, 2)],
    "{} was born on {} in {} .": [("born on", 0, 1), ("born in", 0, 2)],
    "{} lives in {} .": [("lives in", 0, 1)],
    "{} is the home of {} .": [("lives in", 1, 0)],
    "{} earns {} a year .": [("earns", 0, 1)],
    "{} lives in {} and earns {} a year .": [("lives in", 0, 1), ("earns", 0, 2)],
    "{} is married to {} .": [("married to", 0, 1)],
}
RELATIONS = {"born in": "town", "born on": "date", "lives in": "town", "earns": "sum", "married to": "person"}
# The relations of the sentences on a person, in order.
GROUPS = (("born in", "born on"), ("lives in", "earns"))

# Parts of names; all combinations occur.
FIRST_NAMES = "A Be Do Fa Ki Lo Mi Ra", "la nor mi sa"
SURNAMES = "Bar Hel Kor Lind Tor Vis", "berg by dal man"
QUARTERS = "Lower Upper North South East West Old New Great Little Long Fair"
TOWNS = "Ash Bram Cor Dun Elm Fen", "bridge ford ham wick"


def people(train_size=6_000, validation_size=300, test_size=300, seed=0):
    """Makes the splits "train", "validation" and "test" of the task: `GraphCorpus`. It needs num2words.

    A graph has a person with one to four facts, or two who are married and share up to four. A name belongs to one
    split alone.

    >>> task = people(20, 2, 2)
    >>> graph = task["train"].graphs[0]
    >>> told = facts_told(graph.texts[0])
    >>> told == {*graph.triples}
    True
    """
    corpora = {}
    for split, size in enumerate((train_size, validation_size, test_size)):
        rng = np.random.default_rng([seed, split])
        graphs = [_graph(rng, split, seed) for _ in range(size)]
        corpora[SPLITS[split]] = GraphCorpus(graphs, f"people, {SPLITS[split]}")
    return corpora


def facts_told(tokens):
    """The facts, as in `Graph.triples`, that a text tells by the sentences of this task. Other sentences tell nothing.

    >>> facts_told((0, "lives", "in", 1, ".", 1, "was", "a", "town", "."))
    {(0, 'lives in', 1)}
    """
    facts, sentence = set(), []
    for token in tokens:
        sentence.append(token)
        if token == ".":
            entities = [part for part in sentence if isinstance(part, int)]
            pattern = " ".join("{}" if isinstance(part, int) else part for part in sentence)
            facts |= {(entities[a], relation, entities[b]) for relation, a, b in SENTENCES.get(pattern, ())}
            sentence = []
    return facts


def _graph(rng, split, seed):
    """Makes a graph with its text, whose entities and triples are in any order."""
    married = rng.random() < 0.4
    names = _names(rng, split, seed, married)
    entities = [(name, "person") for name in names["person"]]
    facts = []
    relations = [relation for group in GROUPS for relation in group]
    drawn = rng.permutation(len(relations))
    first = rng.integers(0 if married else 1, len(drawn) + 1)
    last = rng.integers(first, len(drawn) + 1) if married else first
    for person, numbers in enumerate((drawn[:first], drawn[first:last])):
        for relation in (relations[index] for index in sorted(numbers)):
            kind = RELATIONS[relation]
            facts.append((person, relation, len(entities)))
            entities.append((names[kind].pop(), kind))
    text = [*_about(rng, 0, facts)]
    if married:
        facts.append((0, "married to", 1))
        text += [*_sentence(rng, [(0, "married to", 1)]), *_about(rng, 1, facts)]
    order = rng.permutation(len(entities))
    place_of = {int(old): new for new, old in enumerate(order)}
    facts = [(place_of[head], relation, place_of[tail]) for head, relation, tail in facts]
    text = tuple(place_of[token] if isinstance(token, int) else token for token in text)
    names, types = zip(*(entities[old] for old in order), strict=True)
    graph = Graph(names, types, tuple(facts[index] for index in rng.permutation(len(facts))), (text,))
    return Graph(names, types, graph.triples, (text,), (graph.fill(text),))


def _about(rng, person, facts):
    """Yields the sentences on a person."""
    for group in GROUPS:
        some = [fact for fact in facts if fact[0] == person and fact[1] in group]
        if some:
            yield from _sentence(rng, some)


def _sentence(rng, facts):
    """Draws one of the sentences that say these facts."""
    wanted = {relation: (head, tail) for head, relation, tail in facts}
    patterns = [pattern for pattern, said in SENTENCES.items() if {name for name, _, _ in said} == {*wanted}]
    pattern = patterns[rng.integers(len(patterns))]
    entities = {}
    for relation, head, tail in SENTENCES[pattern]:
        entities[head], entities[tail] = wanted[relation]
    order = iter(range(len(entities)))
    return [entities[next(order)] if word == "{}" else word for word in pattern.split()]


def _names(rng, split, seed, married):
    """Draws different names of each kind that are of this split."""
    makers = {"person": (_person, 1 + married), "town": (_town, 2), "date": (_date, 1), "sum": (_sum, 1)}
    by_kind = {}
    for kind, (make, count) in makers.items():
        names = {}
        while len(names) < count:
            numbers, name = make(rng)
            if _split_of(numbers, seed) == split:
                names[name] = None
        by_kind[kind] = list(names)
    return by_kind


def _split_of(numbers, seed):
    """Returns the split of a name: 80, 10 and 10 percent."""
    share = np.random.default_rng([seed, *numbers]).random()
    return int(share >= 0.8) + int(share >= 0.9)


def _person(rng):
    (first, name), (last, surname) = _word(rng, *FIRST_NAMES), _word(rng, *SURNAMES)
    return (0, first, last), f"{name} {surname}"


def _town(rng):
    (quarter, name), (town, of) = _word(rng, QUARTERS), _word(rng, *TOWNS)
    return (1, quarter, town), f"{name} {of}"


def _word(rng, *parts):
    """Draws a word made of one of each of these parts, and its number."""
    words = ["".join(combination) for combination in itertools.product(*map(str.split, parts))]
    index = int(rng.integers(len(words)))
    return index, words[index]


def _date(rng):
    day, month, year = int(rng.integers(1, 29)), int(rng.integers(12)), int(rng.integers(1950, 2000))
    return (2, day, month, year), f"{day} {MONTHS['en'][month]} {year}"


def _sum(rng):
    hundreds = int(rng.integers(10, 1000))
    return (3, hundreds), f"{number_in_words(100 * hundreds, 'en')} euros"
