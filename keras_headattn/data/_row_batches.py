from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._tensorflow import keep_freed_buffers
from keras_headattn._validation import check_positive
from keras_headattn.data._batches import dataset_of
from keras_headattn.data._packing import fill_rows
from keras_headattn.data._token_files import TokenFile


class RowBatches(keras.utils.PyDataset):
    """Batches of rows of equal length from a `TokenFile`, to train a language model.

    Every id comes at most once in an epoch, in an order that depends on `(seed, epoch)` alone:
    `keras_headattn.training.Resume` sets `epoch` to resume training exactly. Pass `dataset()` to `fit`, and the object
    itself to `Resume`. Rows that do not fill a batch are left out.

    Rows of a `"stream"` are one after the other in the file, from an offset that is drawn for each epoch. A row of
    `"documents"` begins with a document: of the next 1,000 the longest that fits is placed next, and if none fits, the
    shortest is cut to fill the row. That often loses a third of the ids, see `lost_share`. Documents are put into rows
    once, and epochs differ in the order of the rows.

    Source: nanoGPT's `train.py` for streams; nanochat's `dataloader.py` for documents.

    Args:
        tokens: `TokenFile`.
        length: n, ids in a row.
        batch_size: B, rows in a batch.
        rows: `"stream"` or `"documents"`.
        separate_documents: True to add `sequence_ids`, so that documents of a row do not see each other.
        shuffle, seed: True to draw offsets and orders, and their seed.
        epoch_steps: batches of an epoch, of which one goes on where the last one ended, for files that are large or
            small. Default `None`: one pass over the file.
        weights: float (n,), the weight of each label of a row, for a file of examples of n ids whose answers stand in
            the same places. Rows of a stream then begin with an example. Default `None`: all labels count.

    Each item is a tuple `(inputs, labels)`, or `(inputs, labels, weights)`:

    - `inputs`: int32 `(B, n)`; with `separate_documents` a dictionary of `"token_ids"` and `"sequence_ids"`, both int32
      `(B, n)`, the latter the number of each id's document in its row.
    - `labels`: int32 `(B, n)`, the ids after the inputs.
    - `weights`: float32 `(B, n)`, the given ones over their mean.

    Raises:
        ValueError: if the file has too few ids for a batch, marks no documents where they are needed, or has an id
            beyond the vocabulary; or for `weights` of another shape, below 0 or without a finite sum above 0.

    >>> from keras_headattn.data import write_tokens
    >>> from keras_headattn.text import ByteTokenizer
    >>> tokens = write_tokens("corpus.bin", ["abcd", "efg", "hi"], ByteTokenizer())
    >>> batches = RowBatches(tokens, length=4, batch_size=2, rows="documents", separate_documents=True, shuffle=False)
    >>> inputs, labels = batches[0]
    >>> inputs["token_ids"].tolist(), labels.tolist()
    ([[97, 98, 99, 100], [101, 102, 103, 256]], [[98, 99, 100, 256], [102, 103, 256, 104]])
    """

    def __init__(
        self,
        tokens: TokenFile,
        length: int,
        batch_size: int,
        rows: str = "stream",
        separate_documents: bool = False,
        shuffle: bool = True,
        seed: int = 0,
        epoch_steps: int | None = None,
        weights: Sequence[float] | np.ndarray | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.tokens = tokens
        self.length = check_positive("length", length)
        self.batch_size = check_positive("batch_size", batch_size)
        self.rows = rows
        self.separate_documents = separate_documents
        self.shuffle = shuffle
        self.seed = seed
        if rows not in ("stream", "documents"):
            raise ValueError(f"`rows` must be stream or documents. Received: rows={rows!r}")
        if (separate_documents or rows == "documents") and max(tokens.bos_id, tokens.eos_id) < 0:
            raise ValueError(
                f"`tokens` must mark documents by a beginning or an end id. Received: {tokens.path} without one"
            )
        self.weights = None if weights is None else _mean_of_one(weights, length)
        self._moves = shuffle and rows == "stream" and weights is None
        self._packed = self._pack() if rows == "documents" else None
        available = self._count_rows()
        self._num_batches = available // batch_size
        if not self._num_batches:
            raise ValueError(
                f"`tokens` must have {batch_size} rows of {length} ids and a label. "
                f"Received: {available} rows of the {len(tokens):,} ids in {tokens.path}"
            )
        self.epoch_steps = None if epoch_steps is None else check_positive("epoch_steps", epoch_steps)
        self.epoch = 0

    def _count_rows(self):
        """Returns the number of rows whatever the offset, or of a batch if some offset leaves one."""
        if self._packed is not None:
            return len(self._packed)
        count = max(len(self.tokens) - (self.length if self._moves else 1), 0) // self.length
        return self.batch_size if count < self.batch_size < len(self.tokens) / self.length else count

    def _pack(self):
        """Returns the rows of documents, `[[(first id, number of ids), ...], ...]`."""
        starts = self.tokens.document_starts()
        sizes = np.diff(starts, append=len(self.tokens))
        order = (
            np.random.default_rng([self.seed, 0, 1]).permutation(len(starts))
            if self.shuffle
            else np.arange(len(starts))
        )
        starts, sizes = starts[order], sizes[order]
        return [[(int(starts[i]), n) for i, n in row] for row in fill_rows(sizes, self.length + 1)]

    @property
    def epoch(self) -> int:
        """Index of the current epoch; can be set."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch):
        self._epoch = epoch
        self._begin_pass(epoch * len(self) // self._num_batches)

    def _begin_pass(self, index):
        """Draws the offset and the order of the rows of a pass over the file."""
        self._pass, rng, count = index, np.random.default_rng([self.seed, index]), self._num_batches * self.batch_size
        spare = len(self.tokens) - count * self.length
        self._offset = int(rng.integers(min(self.length, spare))) if self._moves else 0
        available = (len(self.tokens) - 1 - self._offset) // self.length if self._packed is None else len(self._packed)
        self._order = (rng.permutation(available) if self.shuffle else np.arange(available))[:count]

    def on_epoch_end(self) -> None:
        """Advances to the next epoch. Keras calls it if `fit` gets the object itself."""
        self.epoch += 1

    @property
    def lost_share(self) -> float:
        """Share of the file's ids that an epoch leaves out."""
        return 1 - len(self._order) * (self.length + (self._packed is not None)) / len(self.tokens)

    def __len__(self):
        return self.epoch_steps or self._num_batches

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(f"`index` must be from 0 to {len(self) - 1}. Received: index={index}")
        keep_freed_buffers()  # Keras makes a generator of this object
        pass_index, index = divmod(self.epoch * len(self) + index, self._num_batches)
        if pass_index != self._pass:
            self._begin_pass(pass_index)
        members = self._order[index * self.batch_size : (index + 1) * self.batch_size]
        ids = np.stack([self._row(row) for row in members]).astype("int32")
        size = self.tokens.vocabulary_size
        if size is not None and ids.max() >= size:
            raise ValueError(f"`tokens` must have ids below {size}. Received: {ids.max()} in {self.tokens.path}")
        inputs, labels = ids[:, :-1], ids[:, 1:]
        if self.separate_documents:
            inputs = {"token_ids": inputs, "sequence_ids": self._documents_of(inputs)}
        if self.weights is None:
            return inputs, labels
        return inputs, labels, np.broadcast_to(self.weights, labels.shape)

    def _row(self, index):
        if self._packed is None:
            start = self._offset + index * self.length
            return self.tokens.tokens[start : start + self.length + 1]
        return np.concatenate([self.tokens.tokens[start : start + size] for start, size in self._packed[index]])

    def _documents_of(self, ids):
        """Returns the number of each id's document in its row, from 0."""
        if self.tokens.bos_id >= 0:
            begins = ids == self.tokens.bos_id
            begins[:, 0] = False
        else:
            begins = np.pad(ids[:, :-1] == self.tokens.eos_id, ((0, 0), (1, 0)))
        return np.cumsum(begins, axis=1, dtype="int32")

    @property
    def num_tokens(self) -> int:
        """Number of labels in an epoch."""
        return len(self) * self.batch_size * self.length

    def summary(self) -> str:
        """Returns a summary of ids and batches as text."""
        times = f"{len(self) / self._num_batches:.3g}"
        return (
            f"{len(self.tokens):,} tokens; {len(self):,} batches an epoch of {self.batch_size} rows of {self.length}, "
            f"{'once' if times == '1' else f'{times} times'} over the text"
        )

    def dataset(self) -> tf.data.Dataset:
        """Returns a `tf.data.Dataset` of the batches of the current `epoch`."""
        spec = tf.TensorSpec((self.batch_size, self.length), tf.int32)
        inputs = {"token_ids": spec, "sequence_ids": spec} if self.separate_documents else spec
        weights = () if self.weights is None else (tf.TensorSpec((self.batch_size, self.length), tf.float32),)
        return dataset_of(self, (inputs, spec, *weights))


def _mean_of_one(weights, length):
    weights = np.asarray(weights, "float64")
    if weights.shape != (length,) or not 0 < weights.sum() < np.inf or weights.min() < 0:
        raise ValueError(
            f"`weights` must be {length} numbers of 0 or more, not all of them 0. "
            f"Received: {np.array2string(weights, threshold=6)} of shape {weights.shape}"
        )
    return (weights / weights.mean()).astype("float32")
