"""Texts of lists of graphs, by a trained model."""

import dataclasses

import tensorflow as tf

from keras_headattn.decoding import Searcher
from recipes.graphs.batches import graph_batches
from recipes.graphs.vocabulary import END, SPECIAL

START = SPECIAL.index("<start>")


@dataclasses.dataclass(frozen=True)
class Description:
    """Text of a graph.

    Args:
        text: str, with the names of entities.
        score: float, the log probability divided by the length penalty.
        tokens: tuple of words, str, and of the numbers of entities, int, as of `Graph.texts`.
    """

    text: str
    score: float
    tokens: tuple


class GraphToText:
    """Writer of the texts of graphs: a list of `Graph` in, a list of `Description` out.

    Graphs are sorted by size and searched in batches of few shapes, each compiled once. `progress` is called with the
    number of graphs done.

    Args:
        model: a trained `GraphWriter`.
        vocabulary: `GraphVocabulary`, that it was trained with.
        beam_size: int, 1 for greedy search. Default 4.
        alpha: float, exponent of the length penalty. Default 1.0.
        max_length: int, most tokens of a text, its end symbol included. Default 200.
        max_entities: int, most entities of a graph. Default 100.
        batch_size: int, graphs that are searched together; a single one is searched by itself. Default 32.
        jit_compile: True to compile the search by XLA. Default False: a graph has sizes of its own, and each
            batch of another shape takes seconds to compile.
        **search_arguments: other arguments of `Searcher`, such as `min_length`.

    Attributes:
        searcher: the `Searcher`, which the function that writes a SavedModel takes.

    Example:

    >>> from recipes.graphs.corpus import Graph
    >>> from recipes.graphs.vocabulary import GraphVocabulary
    >>> from keras_headattn.models import GraphWriter
    >>> vocabulary = GraphVocabulary(["lives", "in"], ["person", "town"], ["anna", "oslo"], [], ["home"])
    >>> model = GraphWriter(8, 4, 1, num_layers=1, hidden_dim=16, forbidden_ids=vocabulary.forbidden_ids)
    >>> graph_to_text = GraphToText(model, vocabulary, beam_size=1, max_length=4)
    >>> [description] = graph_to_text([Graph(("Anna", "Oslo"), ("person", "town"), ((0, "home", 1),))])
    >>> len(description.tokens) <= 4
    True
    """

    def __init__(
        self,
        model,
        vocabulary,
        beam_size=4,
        alpha=1.0,
        max_length=200,
        max_entities=100,
        batch_size=32,
        jit_compile=False,
        **search_arguments,
    ):
        self.vocabulary = vocabulary
        self.max_entities = max_entities
        self.batch_size = batch_size
        self.searcher = Searcher(model, beam_size, alpha, max_length, START, END, **search_arguments)
        self._search = tf.function(self.searcher, jit_compile=jit_compile, autograph=False, reduce_retracing=True)

    def __call__(self, graphs, progress=None):
        for position, graph in enumerate(graphs, 1):
            if len(graph.entities) > self.max_entities:
                raise ValueError(
                    f"A graph may have {self.max_entities} entities at most. "
                    f"Received: graph {position} with {len(graph.entities)}"
                )
        descriptions, done = [None] * len(graphs), 0
        encoded = list(map(self.vocabulary.encode, graphs))
        for indices, inputs in graph_batches(encoded, self.batch_size if len(graphs) > 1 else 1):
            outputs = self._search({name: tf.constant(ids) for name, ids in inputs.items()})
            rows = outputs["tokens"][: len(indices), 0].numpy()
            for index, row, score in zip(indices, rows, outputs["scores"][:, 0].numpy(), strict=False):
                tokens = tuple(self.vocabulary.decode(row))
                descriptions[index] = Description(graphs[index].fill(tokens), float(score), tokens)
            done += len(indices)
            if progress:
                progress(done)
        return descriptions
