"""Names of layers by their paths, which two layers of a model may share."""

import itertools


def numbered(path):
    """Yields a path, and then the same with `_1`, `_2`, ..."""
    yield path
    yield from (f"{path}_{times}" for times in itertools.count(1))


def by_path(items):
    """Makes a dictionary of pairs of a path and a value; repeated paths end in `_1`, `_2`, ..."""
    found = {}
    for path, value in items:
        found[next(name for name in numbered(path) if name not in found)] = value
    return found
