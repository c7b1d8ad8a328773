"""Padding texts to a few lengths."""

import tensorflow as tf

from keras_headattn.data import source_lengths

LONGEST = 128  # greatest length that texts are padded to without `max_length`


def bucket_lengths(longest):
    """Returns the powers of two from 16 below `longest`, and `longest`.

    >>> bucket_lengths(100)
    (16, 32, 64, 100)
    """
    return *(length for length in source_lengths(longest) if length < longest), longest


def pad_to_bucket(ids, lengths, pad_id=0):
    """Pads ids `(B, n)`, or a dictionary of them, to the next of `lengths`. Longer ids stay as they are."""
    if isinstance(ids, dict):
        pads = {name: 0 if name == "segment_ids" else pad_id for name in ids}
        return {name: pad_to_bucket(ids[name], lengths, pad) for name, pad in pads.items()}
    size = tf.shape(ids)[1]
    bucket = tf.reduce_min(tf.where(tf.constant(lengths) >= size, lengths, tf.maximum(size, lengths[-1])))
    return tf.pad(ids, [[0, 0], [0, bucket - size]], constant_values=pad_id)


def after(encode, function):
    """Returns `function` of the inputs that `encode` makes of texts, with the outputs that `encode` adds."""

    def call(*texts):
        inputs, outputs = encode(*texts)
        return function(inputs) | outputs

    return call


def is_longer(ids, most, pad_id=0):
    """Returns boolean `(B,)`, True for rows of padded ids `(B, n)` with more than `most` ids."""
    return tf.reduce_any(ids[:, most:] != pad_id, axis=1)


def cut_ids(ids, most, tokenizer):
    """Cuts rows to at most `most` ids, int32 `(B, n)`, and keeps the end symbol if the tokenizer adds one."""
    last = ids[:, most - 1 : most]
    if tokenizer.add_eos:
        last = tf.where(last == tokenizer.pad_id, last, tokenizer.eos_id)
    return tf.concat([ids[:, : most - 1], last], axis=1)
