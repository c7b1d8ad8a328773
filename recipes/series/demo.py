"""The synthetic task: two steps of a long series are marked, and the target depends on the values there."""

import numpy as np

from recipes.series.files import SeriesSet

SIZES = {"train": 1000, "validation": 200, "test": 400}


def make_demo(task, seed=0):
    """Returns the splits by name. Channels are values from -1 to 1 and marks; the lengths are 32 to 48.

    The number of a series is the product of the two marked values, its class the sign of it: the first mark is
    in the first quarter, the second in the last.
    """
    rng, splits = np.random.default_rng(seed), {}
    for name, size in SIZES.items():
        series, targets = [], []
        for _ in range(size):
            length = int(rng.integers(32, 49))
            values, marks = rng.uniform(-1, 1, length), np.zeros(length)
            places = rng.integers(0, length // 4), rng.integers(length - length // 4, length)
            marks[[*places]] = 1
            first, second = values[[*places]]
            series.append(np.stack([values, marks], axis=1).astype("float32"))
            sign = "same" if first * second >= 0 else "other"
            targets.append(f"{first * second:.5f}" if task == "regression" else sign)
        splits[name] = SeriesSet(name, series, targets)
    return splits
