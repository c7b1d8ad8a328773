"""Greedy and beam search."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__, {"_search": ["beam_search", "greedy_search", "length_penalty"], "_searcher": ["Searcher"]}
)
