"""Training batches read from records as they are needed, for corpora larger than memory."""

import numpy as np

from keras_headattn.data._batching import Buckets, make_batch
from keras_headattn.data._buckets import bucket_of
from keras_headattn.data._records import read_blocks

# Shards read at the same time, so that a block of pairs comes from many places of the corpus.
PARALLEL_SHARDS = 16


class RecordBatches(Buckets):
    """The batches that `TokenBatches` serves, of the same shapes, weights and number, but streamed from `Records`.

    Every epoch has an order of its own, which depends on `(seed, epoch)` alone, so that training can be resumed
    exactly: the order of the shards is drawn, 16 of them are read in turn, and `buffer` pairs at a time are
    shuffled, put into buckets and served, in random order. What does not fill a batch waits for the next pairs; the
    last batches of an epoch are filled up with rows of zeros. Memory holds three such buffers or so, however large
    the corpus.

    `fit` is given `dataset()`; `Resume`, or whoever else sets the `epoch`, is given the object itself.

    Args:
        records: `Records`.
        tokens_per_batch, bucket_lengths, num_replicas, bos_id, seed: as `TokenBatches` takes them.
        buffer: int, pairs that are shuffled together. Default 65,536.
        num_workers: int, how many processes share the corpus. Default 1.
        worker: int, which one this is, from 0. Each reads every `num_workers`-th shard, and no other. All have the
            same number of batches: who has fewer pairs ends with batches of zeros, without weight. Default 0.

    Raises:
        ValueError: for too small a `tokens_per_batch`, no pair that fits, more workers than shards, or a `worker`
            out of range.

    ```python
    batches = RecordBatches(Records("records"), 4096, (16, 32, 64))
    model.fit(batches.dataset(), epochs=10, shuffle=False, callbacks=[Resume("checkpoints", batches)])
    ```
    """

    def __init__(
        self,
        records,
        tokens_per_batch=4096,
        bucket_lengths=(16, 32, 64, 128),
        num_replicas=1,
        bos_id=2,
        seed=0,
        buffer=65_536,
        num_workers=1,
        worker=0,
    ):
        if not 0 <= worker < num_workers <= len(records.shards):
            raise ValueError(
                "Each worker needs a shard of its own, and a number below that of the workers. "
                f"Received: worker={worker}, num_workers={num_workers} for {len(records.shards)} shards"
            )
        self.records = records
        self.tokens_per_batch = tokens_per_batch
        self.bucket_lengths = tuple(bucket_lengths)
        self.num_replicas = num_replicas
        self.bos_id = bos_id
        self.seed = seed
        self.buffer = buffer
        self.epoch = 0
        self._shards = records.shards[worker::num_workers]
        self._counts = self._count("pairs", self._shards)
        if not self._counts[:-1].any():
            raise ValueError(
                f"All {self.num_dropped} sentence pairs are longer than the last bucket. Add a longer bucket. "
                f"Received: bucket_lengths={self.bucket_lengths}"
            )
        self._check_rows()
        parts = [records.shards[other::num_workers] for other in range(num_workers)]
        self._num_batches = max(self._batches_of(self._count("pairs", part)) for part in parts)

    def _count(self, column, shards):
        """Sums of a column of the histogram: of each bucket and, last, of all beyond them."""
        histogram = self.records.histogram(shards)
        bucket = bucket_of(histogram["length"], self.bucket_lengths)
        return np.bincount(bucket, histogram[column], len(self.bucket_lengths) + 1).astype("int64")

    @property
    def num_tokens(self):
        """Tuple (source, target) of ints, the tokens served in an epoch, without padding."""
        return tuple(int(self._count(f"{side}_tokens", self._shards)[:-1].sum()) for side in ("source", "target"))

    def __len__(self):
        return self._num_batches

    def __iter__(self):
        """Yields the batches of `epoch`, as `TokenBatches` has them."""
        number = 0
        for bucket, pairs in self._groups(np.random.default_rng([self.seed, self.epoch])):
            yield make_batch(*zip(*pairs, strict=True), self._rows[bucket], self.bucket_lengths[bucket], self.bos_id)
            number += 1
        rows, length, _ = self._used()[0]
        for _ in range(number, len(self)):
            yield make_batch([], [], rows, length, self.bos_id)

    def _groups(self, rng):
        """Yields (bucket, list of its pairs) for each batch."""
        paths = [str(self.records.folder / self._shards[i]["name"]) for i in rng.permutation(len(self._shards))]
        waiting = [[] for _ in self.bucket_lengths]
        for source, target in read_blocks(paths, self.buffer, PARALLEL_SHARDS):
            pairs = list(zip(_rows_of(source), _rows_of(target), strict=True))
            bucket = bucket_of(np.maximum(source.row_lengths(), target.row_lengths()), self.bucket_lengths)
            order = rng.permutation(len(pairs))
            full = []
            for number, rows in enumerate(self._rows):
                members = waiting[number] + [pairs[i] for i in order[bucket[order] == number]]
                end = len(members) // rows * rows if rows else 0
                full += [(number, members[start : start + rows]) for start in range(0, end, rows)]
                waiting[number] = members[end:]
            yield from (full[i] for i in rng.permutation(len(full)))
        rest = [(number, pairs) for number, pairs in enumerate(waiting) if pairs]
        yield from (rest[i] for i in rng.permutation(len(rest)))


def _rows_of(ragged):
    """The rows of a ragged tensor, as a list of arrays."""
    return np.split(ragged.flat_values.numpy().astype("int32"), ragged.row_splits.numpy()[1:-1])
