"""Training batches of packed sequences, read from records as they are needed, in epochs of a number of steps."""

import pathlib

import numpy as np
import tensorflow as tf

from keras_headattn.data import dataset_of, describe_shard

COLUMNS = {"token_ids": "input_ids", "segment_ids": "segment_ids"}
PARALLEL_SHARDS = 16


class SequenceBatches:
    """Batches of one shape, of sequences that `write_sequences` or ELECTRA's program wrote.

    An epoch is a number of steps, and passes over the records follow each other without a gap: each shuffles the shards
    anew and deals their sequences to its epochs, so that every sequence comes once a pass. A corpus smaller than an
    epoch is gone through several times in it. Batches are a function of `(seed, epoch)` alone, so that training can be
    resumed exactly: `keras_headattn.training.Resume` sets `epoch`. Within an epoch, 16 shards are read in turn, and
    `buffer` sequences at a time are shuffled. Memory holds a few such buffers, however large the corpus.

    Each item is a dictionary of `"token_ids"` and `"segment_ids"`, int32 `(B, L)`, padded with 0.

    Args:
        records: `Records`, of sequences.
        batch_size: int, B. Default 128.
        epoch_steps: int, batches of an epoch. Default 1,000.
        held_out: int, sequences that are left out for validation, see `read_held_out`. Default 0.
        seed: int. Default 0.
        buffer: int, sequences that are shuffled together. Default 32,768.

    Attributes:
        preprocess: function of a batch, a dictionary of tensors, which `dataset()` maps. Default `None`: batches are as
            they are.

    ```python
    batches = SequenceBatches(Records("records"), batch_size=128, held_out=2_000)
    model.fit(batches.dataset(), epochs=100, shuffle=False, callbacks=[Resume("checkpoints", batches)])
    ```
    """

    def __init__(self, records, batch_size=128, epoch_steps=1_000, held_out=0, seed=0, buffer=32_768):
        self.records = records
        self.batch_size = batch_size
        self.epoch_steps = epoch_steps
        self.seed = seed
        self.buffer = buffer
        self.max_length = length_of(records)
        self.epoch = 0
        self.preprocess = None
        self._held_out = _held_out(records, held_out)
        self._sizes = np.array([shard["examples"] for shard in records.shards]) - self._held_out
        self._in_memory = None
        if not self.num_sequences:
            raise ValueError(
                "Sequences must be left to train on. "
                f"Received: held_out={held_out} of {records.manifest['examples']} in {records.folder}"
            )

    def __len__(self):
        """Returns batches of an epoch."""
        return self.epoch_steps

    @property
    def num_sequences(self):
        """Sequences of a pass over the records, without those held out."""
        return int(self._sizes.sum())

    @property
    def num_tokens(self):
        """Tokens of an epoch, without padding: their mean over all records, a float."""
        manifest = self.records.manifest
        mean = manifest["tokens"]["input_ids"] / manifest["examples"]
        return mean * self.batch_size * self.epoch_steps

    def summary(self):
        """Returns a few lines of text: sequences, tokens, steps."""
        manifest = self.records.manifest
        pairs = sum(shard["pairs"] for shard in self.records.shards) / manifest["examples"]
        passes = self.epoch_steps * self.batch_size / self.num_sequences
        return (
            f"{self.num_sequences:,} sequences of {self.max_length} tokens ({self._held_out.sum():,} held out), "
            f"{pairs:.1%} of two segments, {manifest['tokens']['input_ids']:,} tokens\n"
            f"{self.epoch_steps:,} steps of {self.batch_size} sequences an epoch, {passes:.2g} passes"
        )

    def dataset(self):
        """Returns a `tf.data.Dataset` of the batches of the `epoch` that is set when it is gone through."""
        spec = tf.TensorSpec((self.batch_size, self.max_length), tf.int32)
        dataset = dataset_of(self, dict.fromkeys(COLUMNS, spec))
        return dataset if self.preprocess is None else dataset.map(self.preprocess)

    def __iter__(self):
        """Yields the batches of `epoch`."""
        waiting, begin = None, 0
        for rows in self._rows_of_epoch():
            if waiting is not None:
                rows = np.concatenate([waiting[:, begin:], rows], axis=1)
            waiting, begin = rows, 0
            while waiting.shape[1] - begin >= self.batch_size:
                yield dict(zip(COLUMNS, waiting[:, begin : begin + self.batch_size], strict=True))
                begin += self.batch_size

    def _rows_of_epoch(self):
        """Yields the sequences of `epoch`, in their order: int32 arrays `(columns, some, L)`."""
        num_sequences, in_epoch = self.num_sequences, self.epoch_steps * self.batch_size
        first, end = self.epoch * in_epoch, (self.epoch + 1) * in_epoch
        for turn in range(first // num_sequences, (end - 1) // num_sequences + 1):
            begin, stop = max(0, first - turn * num_sequences), min(num_sequences, end - turn * num_sequences)
            if num_sequences <= self.buffer:
                order = np.random.default_rng([self.seed, turn]).permutation(num_sequences)
                yield self._all_rows()[:, order[begin:stop]]
                continue
            rng = np.random.default_rng([self.seed, self.epoch, turn])
            for rows in read_sequences(self._pieces(turn, begin, stop), self.max_length, self.buffer):
                yield rows[:, rng.permutation(rows.shape[1])]

    def _pieces(self, turn, begin, stop):
        """Parts of shards, `(path, first, number)`, with the sequences `begin` to `stop` of a pass."""
        order = np.random.default_rng([self.seed, turn]).permutation(len(self._sizes))
        ends = np.cumsum(self._sizes[order])
        pieces = []
        for shard, end in zip(order.tolist(), ends.tolist(), strict=True):
            size, skipped = int(self._sizes[shard]), int(self._held_out[shard])
            start = end - size
            low, high = max(begin, start), min(stop, end)
            if low < high:
                pieces.append((_path(self.records, shard), skipped + low - start, high - low))
        return pieces

    def _all_rows(self):
        """All sequences, of records that fit into the buffer, which are read once."""
        if self._in_memory is None:
            pieces = [
                (_path(self.records, shard), int(skipped), int(size))
                for shard, (skipped, size) in enumerate(zip(self._held_out, self._sizes, strict=True))
            ]
            parts = list(read_sequences(pieces, self.max_length, self.buffer, parallel=1))
            self._in_memory = np.concatenate(parts, axis=1)
        return self._in_memory


def read_held_out(records, number):
    """Reads the sequences that `SequenceBatches` leaves out: the first ones of up to 16 shards from all over.

    Returns `"token_ids"` and `"segment_ids"`, int32 `(number, L)`; there may be fewer, where shards are small.
    """
    max_length, counts = length_of(records), _held_out(records, number)
    pieces = [(_path(records, shard), 0, int(counts[shard])) for shard in np.flatnonzero(counts).tolist()]
    none = np.zeros((len(COLUMNS), 0, max_length), "int32")
    rows = np.concatenate([none, *read_sequences(pieces, max_length, 4_096, parallel=1)], axis=1)
    return dict(zip(COLUMNS, rows, strict=True))


def _held_out(records, num_sequences):
    """Returns the number of sequences that are held out at the beginning of each shard: int array."""
    sizes = np.array([shard["examples"] for shard in records.shards])
    counts = np.zeros_like(sizes)
    chosen = np.unique(np.linspace(0, len(sizes) - 1, PARALLEL_SHARDS).astype(int))
    counts[chosen] = np.diff(np.arange(len(chosen) + 1) * num_sequences // len(chosen))
    return np.minimum(counts, sizes)


def read_sequences(pieces, max_length, size, parallel=PARALLEL_SHARDS):
    """Yields token ids and segment ids, int32 `(2, some, L)`, of parts of shards.

    `pieces` are `(path, first, count)`, which records of which file; `size` sequences are read at a time, from
    `parallel` shards in turn. A damaged shard is a `ValueError`.
    """
    if not pieces:
        return
    features = {name: tf.io.FixedLenFeature((max_length,), tf.int64) for name in COLUMNS.values()}

    def parse(some):
        parsed = tf.io.parse_example(some, features)
        return tf.stack([tf.cast(parsed[name], tf.int32) for name in COLUMNS.values()])

    paths, firsts, numbers = zip(*pieces, strict=True)
    dataset = tf.data.Dataset.from_tensor_slices((list(paths), np.array(firsts), np.array(numbers)))
    dataset = dataset.interleave(
        lambda path, first, count: tf.data.TFRecordDataset(path).skip(first).take(count),
        cycle_length=parallel,
        block_length=16,
    )
    try:
        for rows in dataset.batch(size).map(parse).prefetch(1):
            yield rows.numpy()
    except tf.errors.OpError:  # does not name the file
        for path in paths:
            describe_shard(pathlib.Path(path), COLUMNS.values())
        raise


def length_of(records):
    """Returns the length of the sequences in records."""
    if not {*COLUMNS.values()} <= {*records.columns} or "max_length" not in records.manifest["made_of"]:
        raise ValueError(
            "Records of sequences are needed, as `write_sequences` writes them. "
            f"Received: {records.folder} with the columns {', '.join(records.columns)}"
        )
    return records.manifest["made_of"]["max_length"]


def _path(records, shard):
    return str(records.folder / records.shards[shard]["name"])
