"""The graphs that a configuration names."""

import dataclasses
import functools
import itertools

from recipes.engine.data import Corpora, named_files
from recipes.graphs.demo import people
from recipes.graphs.files import read_graphs
from recipes.graphs.settings import ENDINGS


def load_corpora(config):
    """Reads the graphs that the settings name as `Corpora`. Prints their numbers, and which rows are damaged."""
    if config.built_in:
        parts = _people()
        train, validation = (parts[name].sample(config.max_graphs) for name in ("train", "validation"))
    else:
        how = config.format, config.encoding, config.max_graphs
        train, share = _read(config.train, *how), config.validation_share
        if share:
            train, validation = train.split([share])
        else:
            validation = _read(config.validation, *how)
    corpora = Corpora(train, validation, load_tests(config))
    for corpus in (corpora.train, corpora.validation, *corpora.tests.values()):
        print(corpus.summary())
    return corpora


def load_tests(config, files=None):
    """Reads test sets by name: those of the files, or for `None` those of the settings."""
    if files is None and config.built_in:
        return {"test": _people()["test"].sample(config.max_graphs)}
    files = config.test if files is None else files
    how = config.format, config.encoding, config.max_graphs
    return {name: _read(paths, *how) for name, paths in named_files(files, ENDINGS).items()}


def by_category(tests, categories):
    """Splits test sets into parts with categories that are known from training, and new ones: lists of indices.

    `{"test": {"test": [0, 1, 2], "test_seen": [0], "test_unseen": [1, 2]}}`. A set whose categories are all new, or all
    known, has no such parts.
    """
    splits = {}
    for name, corpus in tests.items():
        seen = [graph.category in categories for graph in corpus.graphs]
        parts = {name: list(range(len(seen)))}
        if any(seen) and not all(seen):
            parts |= {
                f"{name}_{part}": [index for index, value in enumerate(seen) if value == is_seen]
                for part, is_seen in (("seen", True), ("unseen", False))
            }
        splits[name] = parts
    return splits


@functools.cache
def _people():
    return people()


def _read(paths, format, encoding, max_graphs):
    """Reads one corpus of several files, at most so many graphs of it."""
    corpora = [read_graphs(path, format, encoding) for path in paths]
    if len({corpus.split_at for corpus in corpora}) > 1:
        raise ValueError(f"The files of a set must be of one format. Received: {' '.join(map(str, paths))}")
    graphs, damaged = (
        list(itertools.chain.from_iterable(getattr(corpus, name) for corpus in corpora))
        for name in ("graphs", "damaged")
    )
    name = ", ".join(corpus.name for corpus in corpora)
    return dataclasses.replace(corpora[0], graphs=graphs, damaged=tuple(damaged), name=name).sample(max_graphs)
