"""Greedy search, beam search and sampling."""

from keras_headattn.decoding._constraints import Constraints
from keras_headattn.decoding._search import beam_search, greedy_search, length_penalty, sample_search
from keras_headattn.decoding._searcher import Searcher

__all__ = [
    "Constraints",
    "Searcher",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "sample_search",
]
