"""Batches of sentence pairs as token ids."""

import functools

import numpy as np

from keras_headattn.data import RecordBatches, Records, TokenBatches, choose_buckets, example_lengths, teacher_forcing
from recipes.engine.modelling import fitting_batch
from recipes.translate.prepare import COLUMNS
from recipes.translate.settings import MOST_TOKENS

LEAST_TOKENS = 512  # of a batch that fits little data


def make_batches(config, corpora, text, num_replicas=1):
    """Returns batches of `Corpora`, or of records, in length buckets: to train on, and to validate on.

    Validation has one more bucket if it has longer pairs. Raises a `ValueError` if all pairs of a corpus are too long.
    """
    if config.records:
        records = Records(config.records)
        histogram = records.histogram()
        lengths, counts = histogram["length"], histogram["examples"]
    else:
        train = _encode(corpora.train, "train", text, config.max_length)
        lengths = example_lengths(train)
        counts = np.ones_like(lengths)
    validation = _encode(corpora.validation, "validation", text, config.max_length)
    short = lengths <= config.max_length
    buckets = choose_buckets(lengths[short], config.num_buckets, config.max_padding, counts[short])
    tokens = int((lengths * counts)[short].sum())
    least = num_replicas * max(LEAST_TOKENS, buckets[-1])
    common = dict(
        tokens_per_batch=config.tokens_per_batch or fitting_batch(tokens, MOST_TOKENS, least),
        num_replicas=num_replicas,
    )
    forced = functools.partial(teacher_forcing, bos_id=text.target.bos_id)
    if config.records:
        batches = RecordBatches(
            records, bucket_lengths=buckets, seed=config.seed, preprocess=forced, columns=COLUMNS, **common
        )
    else:
        batches = TokenBatches(train, bucket_lengths=buckets, seed=config.seed, preprocess=forced, **common)
    longest = max(length for length in example_lengths(validation).tolist() if length <= config.max_length)
    if longest > buckets[-1]:
        buckets = *buckets, longest
    held_out = TokenBatches(validation, bucket_lengths=buckets, shuffle=False, **common)
    tokens_per_row = held_out.num_tokens["target"] / held_out.num_rows
    held_out.preprocess = functools.partial(forced, tokens_per_row=tokens_per_row)
    if held_out.num_dropped:
        print(
            f"{held_out.num_dropped:,} of {len(corpora.validation):,} validation pairs left out: "
            f"a side of more tokens than --max-length {config.max_length}"
        )
    return batches, held_out


def _encode(corpus, name, text, max_length):
    """Returns the token ids of both sides by name."""
    columns = {"source": text.encode_source(corpus.source), "target": text.encode_target(corpus.target)}
    if min(example_lengths(columns)) > max_length:
        raise ValueError(
            f"Every pair of the {name} set has a side of more tokens than --max-length. "
            f"Received: max_length={max_length}"
        )
    return columns
