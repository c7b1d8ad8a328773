"""Masked language modelling: which tokens are masked, batches, and training an encoder in one go.

Source: Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers", section 3.1 and appendix A.2.
"""

import keras
import numpy as np

from keras_headattn.data import choose_buckets, example_lengths
from keras_headattn.data._batches import MemoryBatches
from keras_headattn.data._buckets import pad_columns
from keras_headattn.models import MaskedLM
from keras_headattn.optimizers import LinearDecay
from keras_headattn.training import Model, Progress

SHARE, MOST = 0.15, 20  # of a row's tokens are masked; tokens of a row at most
KEPT, RANDOM = 0.1, 0.1  # shares of these that stay, and that another token takes the place of


def mask_tokens(ids, special_ids, mask_id, vocabulary_size, most, rng):
    """Masks tokens of rows, 15 % of each and at least one: 80 % by `mask_id`, 10 % by a random token, 10 % stay.

    Args:
        ids: int array `(B, n)`.
        special_ids: ints that are never masked, padding among them.
        mask_id: int.
        vocabulary_size: int.
        most: int, K, tokens of a row at most.
        rng: NumPy generator.

    Returns:
        Tuple `(ids, positions, labels, weights)`: ids `(B, n)`, of which some are masked, and, of those, positions, the
        tokens themselves, and 1.0, or 0.0 where there are fewer, each `(B, K)`.

    >>> ids, positions, labels, weights = mask_tokens(
    ...     np.array([[2, 7, 8, 9, 3, 0]]), [0, 2, 3], 4, 10, 2, np.random.default_rng(0)
    ... )
    >>> weights.tolist()
    [[1.0, 0.0]]
    """
    ids = np.array(ids)
    free = ~np.isin(ids, special_ids)
    number = np.minimum(np.maximum(np.round(SHARE * free.sum(axis=1)), free.any(axis=1)), most).astype(int)
    order = np.argsort(np.where(free, rng.random(ids.shape), 2.0), axis=1)[:, :most]
    weights = (np.arange(order.shape[1]) < number[:, None]).astype("float32")
    positions = np.where(weights > 0, order, 0).astype("int32")
    labels = np.take_along_axis(ids, positions, axis=1).astype("int32")
    fate = rng.random(positions.shape)
    tokens = np.setdiff1d(np.arange(vocabulary_size), special_ids)
    masked = np.where(fate < KEPT, labels, np.where(fate < KEPT + RANDOM, rng.choice(tokens, fate.shape), mask_id))
    rows = np.broadcast_to(np.arange(len(ids))[:, None], positions.shape)
    chosen = weights > 0
    ids[rows[chosen], positions[chosen]] = masked[chosen]
    return ids, positions, labels, weights


class MaskedBatches(MemoryBatches):
    """Batches of rows of ids, masked anew in each epoch, in an order that is a function of `(seed, epoch)` alone.

    Args:
        rows: list of int arrays, with special tokens.
        tokenizer: of BERT's kind: its special ids and its size count.
        batch_size: int.
        num_buckets: int, lengths to which batches are padded, at most.
        seed: int.

    Each item is a tuple `(inputs, labels, sample_weight)`: a dictionary of `token_ids` `(B, n)` and `mask_positions`
    `(B, K)`, the masked tokens `(B, K)`, and weights `(B, K)` whose mean is 1.
    """

    def __init__(self, rows, tokenizer, batch_size=64, num_buckets=3, seed=0):
        columns = {"token_ids": rows}
        buckets = choose_buckets(example_lengths(columns), num_buckets)
        super().__init__(columns, [batch_size] * len(buckets), buckets, True, seed)
        self.tokenizer = tokenizer
        names = ("pad_id", "unk_id", "bos_id", "eos_id", "mask_id")
        self.special_ids = [getattr(tokenizer, name) for name in names]

    def _batch(self, bucket, members):
        length, size = self.bucket_lengths[bucket], self._rows[bucket]
        ids = pad_columns(self.columns, members, size, length, pad_id=self.tokenizer.pad_id)["token_ids"]
        most = min(MOST, max(1, round(SHARE * length)))
        rng = np.random.default_rng([self.seed, self.epoch, *members[:1]])
        special, size = self.special_ids, self.tokenizer.vocabulary_size
        ids, positions, labels, weights = mask_tokens(ids, special, self.tokenizer.mask_id, size, most, rng)
        weights *= weights.size / max(1.0, weights.sum())
        return {"token_ids": ids, "mask_positions": positions}, labels, weights.astype("float32")


def pretrain(encoder, batches, epochs, learning_rate, quiet=False):
    """Trains an encoder to fill in masked tokens, with Adam: warm-up over a tenth of the steps, then decay to 0.

    Args:
        encoder: `Bert`.
        batches: `MaskedBatches`.
        epochs: int.
        learning_rate: float, the highest.
        quiet: bool, whether nothing is printed.

    Returns:
        The share of masked tokens that were found in the last epoch.
    """
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "mask_positions")}
    if encoder.pooler is not None:
        encoder.pooler.trainable = False  # it has no part in this
    trainer = Model(inputs, MaskedLM(encoder)(inputs))
    steps = epochs * len(batches)
    schedule = LinearDecay(learning_rate, max(1, steps // 10), steps + 1)
    trainer.compile(
        keras.optimizers.AdamW(schedule, weight_decay=0.01, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
    )

    def next_epoch(epoch, logs=None):
        batches.epoch = epoch

    history = trainer.fit(
        batches.dataset(),
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=next_epoch), *([] if quiet else [Progress()])],
    )
    return history.history["accuracy"][-1]
