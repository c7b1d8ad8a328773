"""Measures of texts that say what a graph says."""

import re

from keras_headattn.metrics import Score, words

CLAUSE_ENDS = re.compile(r"[.,;:!?]+(?=\s|$)")


def entities_named(hypotheses, entities):
    """Returns the share of the entities of graphs that their texts name, in percent of all graphs: `Score`.

    An entity is named where all words of its name stand in the text, one after the other, without regard to case and
    punctuation. One without words does not count; without entities the score is 0.

    Source: An et al. 2020, "Repulsive attention", section 5.4, which counts what graphs and texts have in common.

    >>> entities_named(["Anna lives in New York ."], [["Anna", "New York", "York City", "Oslo"]]).value
    50.0
    """
    entities = [list(names) for names in entities]
    _check(hypotheses)
    if len(entities) != len(hypotheses):
        raise ValueError(f"There must be a text for each graph. Received: {len(hypotheses)} of {len(entities)}")
    named = [
        f" {' '.join(words(name))} " in f" {' '.join(words(text))} "
        for text, names in zip(hypotheses, entities, strict=True)
        for name in names
        if words(name)
    ]
    return Score("entities named", 100 * sum(named) / max(1, len(named)), "case:lc|tok:unicode-words|of:all")


def repeated_clauses(hypotheses, min_words=3):
    """Returns the share of the clauses that the same text has said before, word by word, in percent: `Score`.

    Clauses end with a full stop, a comma, a semicolon, a colon, or a question or exclamation mark. Those of fewer than
    `min_words` do not count; without any the score is 0.

    >>> repeated_clauses(["we show results , we show results , and a new method ."]).value
    33.333333333333336
    """
    _check(hypotheses)
    total = repeated = 0
    for text in hypotheses:
        clauses = [tuple(words(clause)) for clause in CLAUSE_ENDS.split(text)]
        clauses = [clause for clause in clauses if len(clause) >= min_words]
        total += len(clauses)
        repeated += len(clauses) - len(set(clauses))
    return Score("repeated clauses", 100 * repeated / max(1, total), f"case:lc|words:{min_words}+|ends:.,;:!?")


def _check(hypotheses):
    if not hypotheses:
        raise ValueError("There must be at least one text. Received: none")
