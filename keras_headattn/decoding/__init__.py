"""Greedy and beam search."""

from keras_headattn.decoding._search import beam_search, greedy_search, length_penalty
from keras_headattn.decoding._searcher import Searcher

__all__ = [
    "Searcher",
    "beam_search",
    "greedy_search",
    "length_penalty",
]
