"""Attention and copies of a model while it writes the text of a graph."""

import dataclasses

import numpy as np
from keras import ops

START = 2
GRAPH, TITLE = "cross_graph", "cross_title"


@dataclasses.dataclass
class GraphMaps:
    """Attention and copies of a `GraphWriter` for one graph and one text.

    Attributes:
        graph: the graph, such as `Graph`.
        tokens: tuple of the text's words, str, and of the numbers of entities, int.
        weights: dictionary of the name of each attention in the model, `"block_0/attention"`, ..., to float32 NumPy
            arrays `(h, N, N)`; `"cross_graph"` to `(h, m, N)` for the m tokens, and, with titles, `"cross_title"` to
            `(h, m, n)`. Vertices are in the order of `ops.graph_adjacency`.
        copies: `(m, E)`, the probability that the model copies this entity in the place of this token; the rest is that
            of all words.
        title: list of str, the title's words as the model reads them. Empty without titles.
    """

    graph: object
    tokens: tuple
    weights: dict
    copies: np.ndarray
    title: list

    @property
    def written(self):
        """List of str: the tokens, with the names of entities."""
        return [self.graph.entities[token] if isinstance(token, int) else token for token in self.tokens]

    @property
    def vertices(self):
        """List of str: entities, the global vertex, relations and their inverses."""
        names = self.graph.entities
        relations = [(names[head], relation, names[tail]) for head, relation, tail in self.graph.triples]
        ways = [
            f"{head} \N{RIGHTWARDS ARROW} {relation} \N{RIGHTWARDS ARROW} {tail}" for head, relation, tail in relations
        ]
        back = [
            f"{tail} \N{LEFTWARDS ARROW} {relation} \N{LEFTWARDS ARROW} {head}" for head, relation, tail in relations
        ]
        return [*names, "<global>", *ways, *back]

    def example(self, name=None):
        """Makes of all maps an example of `write_attention_page`, with its name there."""
        maps, tokens = {}, {}
        for layer, weights in self.weights.items():
            shown = _title_of(layer)
            maps[shown] = weights
            keys = self.title if layer == TITLE else self.vertices
            tokens[shown] = [self.written, keys] if layer in (GRAPH, TITLE) else self.vertices
        maps["copied from"], tokens["copied from"] = self.copies[None], [self.written, list(self.graph.entities)]
        named = {} if name is None else {"name": name}
        return {"maps": maps, "tokens": tokens, "answer": " ".join(self.written), **named}


def _title_of(layer):
    """Returns the name of an attention on the page."""
    known = {GRAPH: "text to graph", TITLE: "text to title"}
    block = layer.split("/")[0]
    return known.get(layer) or f"graph block {int(block.removeprefix('block_')) + 1}"


def graph_maps(model, vocabulary, graph, tokens=None):
    """Runs a `GraphWriter` once on a graph and a text of it, by default the first: `GraphMaps`.

    `tokens` are words and numbers of entities, such as a model has written.

    >>> from recipes.graphs.corpus import Graph
    >>> from recipes.graphs.vocabulary import GraphVocabulary
    >>> from keras_headattn.models import GraphWriter
    >>> vocabulary = GraphVocabulary(["lives", "in"], ["person", "town"], ["anna", "oslo"], [], ["home"])
    >>> graph = Graph(("Anna", "Oslo"), ("person", "town"), ((0, "home", 1),), ((0, "lives", "in", 1),))
    >>> maps = graph_maps(GraphWriter(8, 4, 1, num_layers=1, hidden_dim=16), vocabulary, graph)
    >>> maps.weights["block_0/attention"].shape, maps.copies.shape, maps.written
    ((4, 5, 5), (4, 2), ['Anna', 'lives', 'in', 'Oslo'])
    """
    texts = getattr(graph, "texts", ())
    tokens = tuple(tokens if tokens is not None else texts[0] if texts else ())
    count = len(graph.entities)
    if not tokens or not all(isinstance(token, str) or 0 <= token < count for token in tokens):
        raise ValueError(
            f"`tokens` must be words and numbers of entities from 0 to {count - 1}, at least one. "
            f"Received: tokens={tokens}"
        )
    encoded = vocabulary.encode(graph)
    target = [START, *vocabulary.encode_text(tokens)[:-2]]  # shifted; without the last token and the end
    length = max(map(len, encoded["entities"]))
    columns = {
        "entities": [[*words, *[0] * (length - len(words))] for words in encoded["entities"]],
        "types": encoded["types"],
        "triples": encoded["triples"] or [[0, 0, 0]],
        "target": target,
        **({"title": encoded["title"] or [1]} if "title" in encoded else {}),
    }
    inputs = {name: np.array([ids], "int32") for name, ids in columns.items()}
    log_probabilities, out = model(inputs, training=False, return_intermediates=True)
    weights = {name: ops.convert_to_numpy(ops.cast(x["weights"][0], "float32")) for name, x in out.items()}
    vertices = count + 1 + 2 * len(graph.triples)  # the model has two more for a graph without triples
    weights = {name: x if name == TITLE else x[..., :vertices] for name, x in weights.items()}
    weights = {name: x if name in (GRAPH, TITLE) else x[..., :vertices, :] for name, x in weights.items()}
    copies = ops.convert_to_numpy(ops.exp(ops.cast(log_probabilities[0, :, -count:], "float32")))
    title = ["<unk>" if index < 2 else vocabulary.title_words[index - 2] for index in columns.get("title", ())]
    return GraphMaps(graph, tokens, weights, copies, title)
