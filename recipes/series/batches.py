"""Batches of time series."""

import numpy as np

from keras_headattn.data import MemoryBatches, choose_buckets

BUCKETS = 3


class SeriesBatches(MemoryBatches):
    """Batches `(series, targets, weights)` of a `SeriesSet`, by length; weights scale losses to standard targets."""

    def __init__(self, part, notes, batch_size, training, seed):
        self.notes, self.width = notes, len(notes["mean"])
        series = [values[: notes["max_length"]] for values in part.series]
        classes = notes.get("classes")
        numbers = [classes.index(target) if classes else float(target) for target in part.targets]
        self.targets = np.array(numbers, "int32" if classes else "float32")
        self.scale = 1 if classes else notes["target_deviation"] ** -2
        buckets = choose_buckets([len(values) for values in series], BUCKETS)
        super().__init__({"series": series}, [batch_size] * len(buckets), buckets, training, seed)

    def make_batch(self, bucket, members):
        rows, members = self.rows[bucket], list(members)
        targets, weights = np.zeros(rows, self.targets.dtype), np.zeros(rows, "float32")
        targets[: len(members)] = self.targets[members]
        real = len(members) if self.shuffle else self.num_examples / len(self)
        weights[: len(members)] = self.scale * rows / max(real, 1)
        series = [self.columns["series"][i] for i in members]
        return pad(series, rows, self.bucket_lengths[bucket], self.width), targets, weights


def pad(series, rows, length, width):
    """Returns float32 `(rows, length, width)`, NaN at padding."""
    padded = np.full((rows, length, width), np.nan, "float32")
    for row, values in zip(padded, series, strict=False):
        row[: len(values)] = values[:length]
    return padded
