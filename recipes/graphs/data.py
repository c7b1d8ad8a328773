"""The graphs that a configuration names."""

import dataclasses
import functools
import itertools

from recipes.engine.task import Corpora, named_files
from recipes.graphs.files import read_graphs

ENDINGS = r"[.](?:tsv|jsonl?|xml)"


def load_corpora(config):
    """Reads what the settings name. Prints how many graphs there are, and which rows are damaged.

    Returns:
        `Corpora`.
    """
    if config.embedded:
        parts = _people()
        corpora = Corpora(_some(config, parts["train"]), _some(config, parts["validation"]), load_tests(config))
    else:
        corpora = Corpora(_read(config, config.train), _read(config, config.validation), load_tests(config))
    for corpus in (corpora.train, corpora.validation, *corpora.tests.values()):
        print(corpus.summary())
    return corpora


def load_tests(config, files=None):
    """Test sets by name: those of the files, or for `None` those of the settings."""
    if files is None and config.embedded:
        return {"test": _some(config, _people()["test"])}
    files = config.test if files is None else files
    return {name: _read(config, paths) for name, paths in named_files(files, ENDINGS).items()}


def names_of_tests(config):
    """Names of the test sets, which are the names of their folders in `results/`."""
    return ["test"] if config.embedded else list(named_files(config.test, ENDINGS))


def by_category(tests, categories):
    """Test sets with those of their parts whose categories are, and are not, among those trained on.

    Args:
        tests: dictionary of `GraphCorpus` by name.
        categories: collection of str, those of the training set.

    Returns:
        Dictionary of name to a list of indices, by the name of the test set: `{"test": {"test": [0, 1, 2], "test_seen":
        [0], "test_unseen": [1, 2]}}`. A set all of whose categories are new, or are not, has no such parts.
    """
    found = {}
    for name, corpus in tests.items():
        seen = [graph.category in categories for graph in corpus.graphs]
        parts = {name: list(range(len(seen)))}
        if any(seen) and not all(seen):
            parts |= {
                f"{name}_{part}": [place for place, each in enumerate(seen) if each == is_seen]
                for part, is_seen in (("seen", True), ("unseen", False))
            }
        found[name] = parts
    return found


@functools.cache
def _people():
    from recipes.graphs.demo import people

    return people()


def _read(config, paths):
    """One corpus of several files."""
    corpora = [read_graphs(path, config.format, config.encoding) for path in paths]
    if len({corpus.split for corpus in corpora}) > 1:
        raise ValueError(f"The files of a set must be of one format. Received: {' '.join(map(str, paths))}")
    graphs, damaged = (
        list(itertools.chain.from_iterable(getattr(corpus, name) for corpus in corpora))
        for name in ("graphs", "damaged")
    )
    name = ", ".join(corpus.name for corpus in corpora)
    return _some(config, dataclasses.replace(corpora[0], graphs=graphs, damaged=tuple(damaged), name=name))


def _some(config, corpus):
    return corpus.sample(config.max_graphs)
