"""Scores of the texts that finished runs write."""

import dataclasses
import functools
import itertools
import textwrap

from keras_headattn import metrics
from keras_headattn.metrics import Score
from recipes.engine.generation import score_texts
from recipes.graphs.corpus import SPLITS
from recipes.graphs.demo import facts_told
from recipes.graphs.files import graph_from_json
from recipes.graphs.metrics import entities_named, repeated_clauses

bleu = functools.partial(metrics.bleu, tokenize="none", lowercase=True)
# Functions of texts and references, tokens joined by spaces.
BY_REFERENCES = {
    "bleu": [functools.partial(bleu, max_ngram_order=order) for order in (1, 2, 3, 4)],
    "meteor": [metrics.meteor],
    "rouge": [metrics.rouge_n, functools.partial(metrics.rouge_n, n=2), metrics.rouge_l],
    "chrf": [metrics.chrf],
}


def check_metrics(names):
    """Scores a text with each measure, so that a missing package is reported before training, not after it."""
    for name in names:
        for function in BY_REFERENCES.get(name, ()):
            function(["one text of words"], ["one text of words"])


def score_graphs(written, corpus, metrics, settings):
    """Scores texts by some measures: dictionary from measure to `Score`.

    Args:
        written: list of `Description`.
        corpus: `GraphCorpus`, as many graphs, with references.
        metrics: names of measures, as in the settings; "facts" of the synthetic task.
        settings: str, how texts were split and written: the end of all signatures.
    """
    tokens = functools.partial(as_tokens, split=corpus.split_at)
    hypotheses = [tokens(description.text) for description in written]
    references = [list(map(tokens, graph.references)) for graph in corpus.graphs]
    functions = [function for name in metrics for function in BY_REFERENCES.get(name, ())]
    scores = score_texts(hypotheses, references, functions)
    graph_scores = []
    if "entities" in metrics:
        graph_scores.append(entities_named(hypotheses, [graph.entities for graph in corpus.graphs]))
    if "repeated" in metrics:
        graph_scores.append(repeated_clauses(hypotheses))
    if "facts" in metrics:
        graph_scores += facts(written, corpus)
    scores |= {score.name: score for score in graph_scores}
    return {
        name: dataclasses.replace(score, signature=f"{score.signature}|{settings}") for name, score in scores.items()
    }


def score_lines(scores, settings):
    """Returns lines of scores, those of one signature together, and one of the settings at the end of all signatures.

    >>> scores = [Score("ROUGE-1", 50.0, "f:1|beam_size:2"), Score("ROUGE-2", 40.0, "f:1|beam_size:2")]
    >>> score_lines(scores, "beam_size:2")
    ['ROUGE-1 50.00, ROUGE-2 40.00 (f:1)', 'all with beam_size:2']
    """
    lines = []
    for signature, some in itertools.groupby(scores, lambda score: score.signature.removesuffix(f"|{settings}")):
        lines.append(", ".join(f"{score.name} {score.value:.2f}" for score in some) + f" ({signature})")
    return [*lines, f"all with {settings}"]


def facts(written, corpus):
    """Scores the synthetic task: the share of facts that texts tell, and of what they tell that is wrong."""
    told = [facts_told(description.tokens) for description in written]
    wanted = [set(graph.triples) for graph in corpus.graphs]
    right = sum(len(some & facts) for some, facts in zip(told, wanted, strict=True))
    num_wanted, all_told = sum(map(len, wanted)), sum(map(len, told))
    return [
        Score("facts told", 100 * right / max(1, num_wanted), f"facts:{num_wanted}"),
        Score("wrong facts", 100 * (all_told - right) / max(1, all_told), f"facts:{all_told}"),
    ]


def as_tokens(text, split):
    """Tokenises a text, lower-cased, with spaces between tokens."""
    return " ".join(SPLITS[split](text))


def as_triples(line, width=160):
    """Returns the triples of a graph, a JSON object, or without any its entities, shortened.

    >>> as_triples('{"entities": ["Anna", "Oslo"], "triples": [[0, "lives in", 1]]}')
    'Anna | lives in | Oslo'
    """
    graph = graph_from_json(line)
    triples = [f"{graph.entities[head]} | {name} | {graph.entities[tail]}" for head, name, tail in graph.triples]
    return textwrap.shorten("; ".join(triples or graph.entities), width, placeholder=" ...")


def as_object(graph):
    """Returns a graph without its texts, as in JSON."""
    fields = {"entities": graph.entities, "types": graph.types, "triples": graph.triples}
    return fields | {name: getattr(graph, name) for name in ("title", "category") if getattr(graph, name)}
