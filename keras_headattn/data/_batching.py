"""Batches of token ids in a few fixed shapes, so that XLA compiles once per shape and no more.

Translation data in, numpy arrays out: to train on, a `keras.utils.PyDataset` that is also a `tf.data.Dataset`; to
decode, a list of batches.
"""

import math

import keras
import numpy as np
import tensorflow as tf

from keras_headattn.data._buckets import bucket_of, pad_ids, plan_batches


class Buckets:
    """The common part of batches in length buckets: their shapes, and figures about them.

    A class that has it sets `tokens_per_batch`, `bucket_lengths`, `num_replicas`, `num_tokens` and `_counts`, the
    number of pairs in each bucket and, last, of those that none holds.
    """

    @property
    def _rows(self):
        """Rows of the batches of each bucket."""
        return [self.tokens_per_batch // n // self.num_replicas * self.num_replicas for n in self.bucket_lengths]

    def _check_rows(self):
        rows, length = self.shapes[-1]
        if not rows:
            raise ValueError(
                f"tokens_per_batch must be at least {length * self.num_replicas}: one sentence of length "
                f"{length} on each of {self.num_replicas} replicas. "
                f"Received: tokens_per_batch={self.tokens_per_batch}"
            )

    def _used(self):
        """List of (rows, length, pairs), one for each bucket in use."""
        buckets = zip(self._rows, self.bucket_lengths, map(int, self._counts[:-1]), strict=True)
        return [bucket for bucket in buckets if bucket[-1]]

    def _batches_of(self, counts):
        """How many batches so many pairs in each bucket make."""
        return sum(math.ceil(pairs / rows) for pairs, rows in zip(counts[:-1], self._rows, strict=True) if pairs)

    def __len__(self):
        return self._batches_of(self._counts)

    @property
    def num_dropped(self):
        """int, sentence pairs left out because they are longer than the last bucket."""
        return int(self._counts[-1])

    @property
    def shapes(self):
        """List of (B, L), the shapes of the batches, one for each bucket in use."""
        return [(rows, length) for rows, length, _ in self._used()]

    @property
    def padding_share(self):
        """Tuple (source, target) of floats, the share of an epoch's positions that is padding."""
        positions = sum(math.ceil(pairs / rows) * rows * length for rows, length, pairs in self._used())
        return tuple(1 - tokens / positions for tokens in self.num_tokens)

    def dataset(self):
        """Returns a `tf.data.Dataset` of `len(self)` batches, those of the `epoch` set when it is gone through."""
        ids = tf.TensorSpec((None, None), "int32")
        spec = ({"source": ids, "target": ids}, ids, tf.TensorSpec((None, None), "float32"))
        return as_dataset(self, spec)

    def summary(self):
        """Returns a few lines of text: sentences, tokens, shapes, share of padding."""
        shapes = ", ".join(f"{rows} x {length}" for rows, length in self.shapes)
        (source_tokens, target_tokens), (source_share, target_share) = self.num_tokens, self.padding_share
        return (
            f"{sum(self._counts[:-1]):,} sentence pairs in {len(self):,} batches an epoch "
            f"({self.num_dropped:,} pairs longer than {self.bucket_lengths[-1]} tokens left out)\n"
            f"tokens: source {source_tokens:,}, target {target_tokens:,}\n"
            f"padding: source {source_share:.1%}, target {target_share:.1%}\n"
            f"shapes (rows x length): {shapes}"
        )


def as_dataset(batches, signature):
    """A `tf.data.Dataset` of batches, made anew whenever it is gone through.

    Args:
        batches: what has a length and can be iterated over.
        signature: nested `tf.TensorSpec` of one batch.

    Returns:
        `tf.data.Dataset`.
    """
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(2)
    # There is nothing to tune, and on a busy machine the thread that tunes took up to 40 seconds to end.
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class TokenBatches(Buckets, keras.utils.PyDataset):
    """Training batches with about the same number of tokens each, in one shape per length bucket.

    A pair of sentences goes to the shortest bucket that holds both. Every batch of a bucket of length L has
    the same B = tokens_per_batch // L rows (rounded down to a multiple of `num_replicas`); the last one of an
    epoch is filled up with rows of zeros. Each sentence comes exactly once an epoch. The order is a function
    of `(seed, epoch)` alone, so that training can be resumed exactly: `keras_headattn.training.Resume` sets
    `epoch`. Give `fit` `shuffle=False`, or Keras shuffles the batches again.

    The weights make the mean over all positions of a batch the mean over its real target tokens. That stays
    true when the batch is split over replicas whose losses are averaged, however unevenly the padding falls.
    Losses need no mask besides: a Keras mask on the model's output would make them scale by the padding
    twice.

    Args:
        source: list of integer arrays, the ids of the source sentences, each ending in the end symbol.
        target: list of integer arrays, the same for the target sentences.
        tokens_per_batch: int, target positions in a batch, padding included. Default 4096.
        bucket_lengths: ascending ints. `choose_buckets` finds those which pad least. Default (16, 32, 64,
            128).
        num_replicas: int, row counts are multiples of it. Default 1.
        bos_id: int, the id that starts the decoder input. Default 2.
        shuffle: bool, whether the order changes from epoch to epoch. Default True.
        seed: int. Default 0.
        drop_too_long: bool, whether pairs longer than the last bucket are left out (`num_dropped` says how
            many, and `summary` too) or are an error. Default True.

    Each item is a tuple `(inputs, labels, sample_weight)`:

    - inputs: dict of `"source"`, int32 (B, L), and `"target"`, int32 (B, L), the decoder input
      [bos, y_1, y_2, ...].
    - labels: int32 (B, L), [y_1, y_2, ..., eos, 0, ...].
    - sample_weight: float32 (B, L), 0 at padding and the same number everywhere else, with mean 1.

    Raises:
        ValueError: for lists of different lengths, empty sentences, ids of 0 inside a sentence, buckets that
            do not ascend, too small a `tokens_per_batch`, no pair that fits.

    >>> batches = TokenBatches([[5, 3], [6, 7, 3]], [[8, 3], [9, 3]], tokens_per_batch=8, bucket_lengths=(4,))
    >>> inputs, labels, sample_weight = batches[0]
    >>> labels.shape, float(sample_weight.mean())
    ((2, 4), 1.0)
    """

    def __init__(
        self,
        source,
        target,
        tokens_per_batch=4096,
        bucket_lengths=(16, 32, 64, 128),
        num_replicas=1,
        bos_id=2,
        shuffle=True,
        seed=0,
        drop_too_long=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if len(source) != len(target) or not len(source):
            raise ValueError(
                "source and target must hold the same number of sentences, and at least one. "
                f"Received: {len(source)} source and {len(target)} target sentences"
            )
        self._source_lengths = _checked_lengths("source", source)
        self._target_lengths = _checked_lengths("target", target)
        self.source = source
        self.target = target
        self.tokens_per_batch = tokens_per_batch
        self.bucket_lengths = tuple(bucket_lengths)
        self.num_replicas = num_replicas
        self.bos_id = bos_id
        self.shuffle = shuffle
        self.seed = seed
        self.drop_too_long = drop_too_long
        self._bucket = bucket_of(np.maximum(self._source_lengths, self._target_lengths), self.bucket_lengths)
        self._counts = np.bincount(self._bucket, minlength=len(self.bucket_lengths) + 1)
        self._check_too_long()
        self._check_rows()
        self.epoch = 0

    def _check_too_long(self):
        if self.num_dropped and (not self.drop_too_long or self.num_dropped == len(self.source)):
            longest = max(self._source_lengths.max(), self._target_lengths.max())
            raise ValueError(
                f"{self.num_dropped} of {len(self.source)} sentence pairs are longer than the last bucket; "
                f"the longest has {longest} tokens. Add a longer bucket. "
                f"Received: bucket_lengths={self.bucket_lengths}"
            )

    @property
    def epoch(self):
        """int, the number of the epoch whose batches are served. It can be set."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        self._epoch = epoch
        self._batches = self._plan()

    def on_epoch_end(self):
        """Advances to the order of the next epoch."""
        self.epoch += 1

    def _plan(self):
        """The epoch's batches, as a list of (bucket, indices of sentence pairs)."""
        rng = np.random.default_rng([self.seed, self._epoch]) if self.shuffle else None
        return plan_batches(self._bucket, self._rows, rng)

    def __getitem__(self, index):
        bucket, members = self._batches[index]
        return make_batch(
            [self.source[i] for i in members],
            [self.target[i] for i in members],
            self._rows[bucket],
            self.bucket_lengths[bucket],
            self.bos_id,
        )

    @property
    def num_tokens(self):
        """Tuple (source, target) of ints, the tokens served in an epoch, without padding."""
        kept = self._bucket < len(self.bucket_lengths)
        return int(self._source_lengths[kept].sum()), int(self._target_lengths[kept].sum())


def make_batch(source, target, rows, length, bos_id):
    """One batch, as `TokenBatches` describes it.

    Args:
        source, target: lists of at most `rows` integer arrays, each of at most `length` ids.
        rows: int, B.
        length: int, L.
        bos_id: int, the id that starts the decoder input.

    Returns:
        Tuple `(inputs, labels, sample_weight)`. Without sentences, all of it is 0.
    """
    labels = pad_ids(target, rows, length)
    decoder_input = np.zeros_like(labels)
    decoder_input[: len(target), 0] = bos_id
    # The last label of a sentence is its end symbol, which is never an input.
    decoder_input[:, 1:] = labels[:, :-1] * (labels[:, 1:] != 0)
    real = labels != 0
    sample_weight = real * np.float32(labels.size / max(1, real.sum()))
    return {"source": pad_ids(source, rows, length), "target": decoder_input}, labels, sample_weight


def _checked_lengths(name, sentences):
    lengths = np.array([len(ids) for ids in sentences])
    if not lengths.all() or not np.concatenate(sentences).all():
        bad = next(i for i, ids in enumerate(sentences) if not len(ids) or not np.all(ids))
        raise ValueError(
            "Every sentence needs at least one id (its end symbol), and none may be 0, which is padding. "
            f"Received: {name}[{bad}]={list(sentences[bad])}"
        )
    return lengths


def source_batches(ids, bucket_lengths=(16, 32, 64, 128), batch_size=32):
    """Batches of source sentences for decoding, shortest first, in one shape per bucket.

    Args:
        ids: list of integer arrays, the ids of the sentences, each ending in the end symbol.
        bucket_lengths: ascending ints. Default (16, 32, 64, 128).
        batch_size: int, rows of every batch. Default 32.

    Returns:
        List of tuples (indices, padded): int array (k,) with k <= batch_size, the positions in `ids` of the
        first k rows, and int32 array (batch_size, L). Rows beyond k are all 0: drop what the model makes of
        them.

    Raises:
        ValueError: if a sentence is longer than the last bucket. Nothing is left out of an evaluation.

    >>> for indices, padded in source_batches([[4, 5, 3], [6, 3]], bucket_lengths=(2, 4), batch_size=1):
    ...     print(indices.tolist(), padded.tolist())
    [1] [[6, 3]]
    [0] [[4, 5, 3, 0]]
    """
    lengths = np.array([len(row) for row in ids], int)
    bucket = bucket_of(lengths, bucket_lengths)
    if np.any(bucket == len(bucket_lengths)):
        raise ValueError(
            f"The longest sentence has {lengths.max()} tokens, which no bucket holds. Add a longer bucket. "
            f"Received: bucket_lengths={tuple(bucket_lengths)}"
        )
    order = np.argsort(lengths, kind="stable")
    batches = []
    for number, length in enumerate(bucket_lengths):
        members = order[bucket[order] == number]
        for start in range(0, len(members), batch_size):
            indices = members[start : start + batch_size]
            batches.append((indices, pad_ids([ids[i] for i in indices], batch_size, length)))
    return batches
