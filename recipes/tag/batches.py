"""Batches of windows whose tokens have labels."""

import numpy as np

from keras_headattn.data import MemoryBatches, pad_ids


class TokenLabelBatches(MemoryBatches):
    """Batches of rows of ids in length buckets, with a label of some ids: the others, -1, have no weight.

    A weighted mean over a batch is the mean over its labels in training; in evaluation the mean of the batches' means
    is that of all labels. Weights of a loss that is a sum are 1.

    Args:
        rows, labels: lists of int arrays, as long each.
        batch_size, bucket_lengths, training, seed, pad_id: as in `LabelledBatches`.
        is_sum: True for a loss that is a sum.
    """

    def __init__(self, rows, labels, batch_size, bucket_lengths, training, seed, pad_id, is_sum=False):
        super().__init__({"text": rows}, [batch_size] * len(bucket_lengths), bucket_lengths, training, seed)
        self.labels, self.pad_id, self.is_sum = labels, pad_id, is_sum
        self.num_labels = sum(int((row >= 0).sum()) for row in labels)

    def make_batch(self, bucket, members):
        rows, length = self.rows[bucket], self.bucket_lengths[bucket]
        ids = pad_ids([self.columns["text"][member] for member in members], rows, length, self.pad_id)
        ids[len(members) :, 0] = int(self.pad_id != 1)  # rows without ids
        labels = pad_ids([self.labels[member] for member in members], rows, length, -1)
        is_label = labels >= 0
        count = is_label.sum() if self.shuffle else self.num_labels / len(self)
        weights = is_label * np.float32(1 if self.is_sum else labels.size / max(1, count))
        return {"text": ids}, np.maximum(labels, 0), weights
