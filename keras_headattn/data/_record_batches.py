from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_headattn.data._batches import Batches, rows_of_tokens
from keras_headattn.data._buckets import bucket_of, pad_ids
from keras_headattn.data._records import Records
from keras_headattn.data._shards import read_blocks

PARALLEL_SHARDS = 16  # read in turn, so that a block mixes many places of the corpus


class RecordBatches(Batches):
    """Batches of `TokenBatches`, streamed from `Records`.

    The order depends on `(seed, epoch)` alone, as in `MemoryBatches`: shards come in random order, 16 are read in turn,
    and `buffer` examples at a time are shuffled and put into buckets. Incomplete batches wait for the next examples; an
    epoch's last batches are filled with rows of zeros. Memory holds about three buffers. Pass `dataset()` to `fit`, and
    the object itself to `Resume`.

    Args:
        records: `Records`.
        tokens_per_batch, bucket_lengths, num_replicas, preprocess, seed: see `TokenBatches`.
        columns: dict from column name in the batches to that in the records. Default `None`: all, with the same names.
        buffer: number of examples shuffled together.

    Raises:
        ValueError: for too small a `tokens_per_batch`, no example that fits, or an unknown column.

    ```python
    names = {"source": "inputs", "target": "targets"}
    batches = RecordBatches(Records("records"), 4096, (16, 32, 64), preprocess=teacher_forcing, columns=names)
    model.fit(batches.dataset(), epochs=10, shuffle=False, callbacks=[Resume("checkpoints", batches)])
    ```
    """

    def __init__(
        self,
        records: Records,
        tokens_per_batch: int = 4096,
        bucket_lengths: Sequence[int] = (16, 32, 64, 128),
        num_replicas: int = 1,
        preprocess: Callable[[dict[str, Any]], Any] | None = None,
        seed: int = 0,
        columns: Mapping[str, str] | None = None,
        buffer: int = 65_536,
    ):
        self.records = records
        self.preprocess = preprocess
        self.columns = {name: name for name in records.columns} if columns is None else columns
        self.buffer = buffer
        self.epoch = 0
        unknown = sorted(set(self.columns.values()) - set(records.columns))
        if unknown:
            raise ValueError(
                f"`columns` must be among those of the records, {', '.join(records.columns)}. Received: {unknown[0]!r}"
            )
        histogram = records.histogram()
        bucket = bucket_of(histogram["length"], bucket_lengths)

        def count(numbers):
            """Sums by bucket and, last, beyond all buckets."""
            return np.bincount(bucket, numbers, len(bucket_lengths) + 1).astype("int64")

        tokens = {name: int(count(histogram["tokens"][of])[:-1].sum()) for name, of in self.columns.items()}
        rows = rows_of_tokens(tokens_per_batch, bucket_lengths, num_replicas)
        super().__init__(count(histogram["examples"]), tokens, rows, bucket_lengths, seed)

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch])
        shards = self.records.shards
        paths = [str(self.records.folder / shards[i]["name"]) for i in rng.permutation(len(shards))]
        waiting = [[] for _ in self.bucket_lengths]
        for block in read_blocks(paths, self.records.columns, self.buffer, PARALLEL_SHARDS):
            examples = list(zip(*(_rows_of(block[name]) for name in self.columns.values()), strict=True))
            lengths = np.max([ids.row_lengths().numpy() for ids in block.values()], axis=0)
            bucket, order, full = bucket_of(lengths, self.bucket_lengths), rng.permutation(len(examples)), []
            for index, rows in enumerate(self.rows):
                members = waiting[index] + [examples[i] for i in order[bucket[order] == index]]
                end = len(members) // rows * rows if rows else 0
                full += [(index, members[start : start + rows]) for start in range(0, end, rows)]
                waiting[index] = members[end:]
            yield from (self.make_batch(*full[i]) for i in rng.permutation(len(full)))
        rest = [(index, members) for index, members in enumerate(waiting) if members]
        yield from (self.make_batch(*rest[i]) for i in rng.permutation(len(rest)))

    def make_batch(self, bucket: int, members: Any) -> Any:
        rows, length = self.rows[bucket], self.bucket_lengths[bucket]
        padded = {name: pad_ids([row[i] for row in members], rows, length) for i, name in enumerate(self.columns)}
        return self.preprocess(padded) if self.preprocess else padded


def _rows_of(ragged):
    """Returns the rows of a ragged tensor as arrays."""
    return np.split(ragged.flat_values.numpy().astype("int32"), ragged.row_splits.numpy()[1:-1])
