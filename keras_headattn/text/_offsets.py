"""Offsets of pieces in the text as it was given, in characters."""

import tensorflow as tf

from keras_headattn.text._added_tokens import SPACE


def letters_of(strings):
    """Splits UTF-8 strings (B,) into characters: ragged (B, n)."""
    return tf.strings.unicode_split(strings, "UTF-8")


def to_characters(starts, ends, letters):
    """Converts ragged offsets (B, k) in bytes to offsets in characters. `letters` are ragged (B, n), of any bytes.

    A piece of some bytes of a character has the whole of it.

    >>> starts, ends = tf.ragged.constant([[0, 2]]), tf.ragged.constant([[2, 4]])
    >>> [side.to_list() for side in to_characters(starts, ends, letters_of(tf.constant(["a\u732b"])))]
    [[[0, 1]], [[2, 2]]]
    """
    sizes = letters.with_flat_values(tf.strings.length(letters.flat_values))
    starts, ends = (tf.cast(side, tf.int64) for side in (starts, ends))
    sizes = tf.concat([tf.cast(sizes, tf.int64), tf.ones([sizes.nrows(), 1], tf.int64)], axis=1)  # an end for each text
    places = tf.repeat(tf.ragged.range(sizes.row_lengths()).flat_values, sizes.flat_values)
    first = tf.cumsum(tf.reduce_sum(sizes, axis=1), exclusive=True)  # byte of each text
    base = tf.gather(first, starts.value_rowids())
    begin = tf.gather(places, base + starts.flat_values)
    last = tf.gather(places, base + tf.maximum(ends.flat_values - 1, 0)) + 1
    end = tf.where(ends.flat_values > starts.flat_values, last, begin)
    return starts.with_flat_values(begin), starts.with_flat_values(end)


def without_space(starts, ends, letters):
    """Moves starts to the first character that is no white space, or to the end."""
    is_space = tf.strings.regex_full_match(letters.flat_values, SPACE)
    count = tf.size(letters.flat_values, tf.int64)
    # White space and the character after it are a group; that character is last, if there is one.
    group = tf.cumsum(tf.cast(~is_space, tf.int32), exclusive=True)
    last = tf.math.unsorted_segment_max(tf.range(count), group, tf.size(group) + 1)
    last = tf.gather(last, group)
    after = tf.concat([last + tf.cast(tf.gather(is_space, last), tf.int64), [count]], axis=0)
    base = tf.gather(letters.row_starts(), starts.value_rowids())
    begin = tf.gather(after, base + starts.flat_values) - base
    return starts.with_flat_values(tf.minimum(begin, ends.flat_values))


def with_marks(ends, letters, are_dropped):
    """Moves ends behind the accents that follow, which were dropped: booleans, flat as the letters."""
    count = tf.size(letters.flat_values, tf.int64)
    places = tf.ragged.range(letters.row_lengths()).flat_values
    follows = are_dropped & tf.strings.regex_full_match(letters.flat_values, r"\p{Mn}") & (places > 0)
    group = tf.cumsum(tf.cast(~follows, tf.int32)) - 1
    last = tf.gather(tf.math.unsorted_segment_max(tf.range(count), group, tf.size(group)), group)
    base = tf.gather(letters.row_starts(), ends.value_rowids())
    return ends.with_flat_values(tf.gather(last, base + ends.flat_values - 1) + 1 - base)
