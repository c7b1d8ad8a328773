"""Greedy search, beam search and sampling."""

from keras_headattn.decoding._beam_search import beam_search
from keras_headattn.decoding._constraints import Constraints
from keras_headattn.decoding._generator import Generator
from keras_headattn.decoding._row_search import greedy_search, sample_search
from keras_headattn.decoding._search import length_penalty
from keras_headattn.decoding._searcher import Searcher
from keras_headattn.decoding._shortlist import Shortlist

__all__ = [
    "Constraints",
    "Generator",
    "Searcher",
    "Shortlist",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "sample_search",
]
