"""Options of a call of a text generator, and where texts end that are to end before others."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from keras_headattn._validation import check_index, check_number, check_positive
from keras_headattn.decoding._stop_texts import LONGEST, MOST, NO_BYTE

OPTIONS = [
    tf.TensorSpec((), tf.float32, name="temperature"),
    tf.TensorSpec((), tf.int32, name="top_k"),
    tf.TensorSpec((), tf.float32, name="top_p"),
    tf.TensorSpec((), tf.int32, name="max_tokens"),
    tf.TensorSpec((), tf.int32, name="min_tokens"),
    tf.TensorSpec((None,), tf.string, name="stop"),
]


def check_stop(name: str, stop: Sequence[str]) -> tuple[str, ...]:
    """Returns the texts that end an answer, or raises a ValueError."""
    is_list = isinstance(stop, (list, tuple)) and all(isinstance(text, str) for text in stop)
    if not is_list or len(stop) > MOST or any(not 0 < len(text.encode("utf-8")) <= LONGEST for text in stop):
        raise ValueError(
            f"`{name}` must be a list of at most {MOST} str of 1 to {LONGEST} bytes. Received: {name}={stop!r}"
        )
    return tuple(stop)


CHECKS = {
    "temperature": functools.partial(check_number, least=0),
    "top_k": check_index,
    "top_p": functools.partial(check_number, above=0, most=1),
    "max_tokens": check_positive,
    "min_tokens": check_index,
    "stop": check_stop,
}
RULE = (
    "`temperature`, `top_k` and `min_tokens` must be at least 0, `top_p` above 0, `max_tokens` at least 1 and "
    f"`min_tokens` and at most `max_length`, and `stop` at most {MOST} texts of 1 to {LONGEST} bytes."
)


def check_options(options):
    """Raises a ValueError for options of a call that are unknown or out of range; `None` stands for a default."""
    if unknown := options.keys() - CHECKS.keys():
        raise ValueError(f"Options of a call are {', '.join(CHECKS)}. Received: {', '.join(sorted(unknown))}")
    for name, value in options.items():
        if value is not None:
            CHECKS[name](name, value)


def assert_options(values, max_length):
    """Ends a graph with an error for tensors in the order of `OPTIONS` that are out of range."""
    temperature, top_k, top_p, max_tokens, min_tokens, stop = values
    sizes = tf.strings.length(stop)
    is_short = (tf.size(stop) <= MOST) & tf.reduce_all((sizes > 0) & (sizes <= LONGEST))
    are_between = (max_tokens > 0) & (min_tokens <= max_tokens) & (max_tokens <= max_length)
    within = temperature >= 0, top_k >= 0, top_p > 0, are_between, min_tokens >= 0, is_short
    tf.debugging.assert_equal(tf.reduce_all(within), True, RULE)


def by_name(values):
    """Returns options as `Generator` takes them, from tensors in the order of `OPTIONS`; `None` without any."""
    if not values:
        return None
    options = {spec.name: value for spec, value in zip(OPTIONS, values, strict=True)}
    sizes = tf.cast(tf.strings.length(options["stop"]), tf.int64)
    letters = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(options["stop"]), tf.uint8), tf.int32)
    backwards = tf.reverse(tf.RaggedTensor.from_row_lengths(letters, sizes), [1])
    return options | {"stop": backwards.to_tensor(NO_BYTE, shape=(MOST, LONGEST))}


def cut(texts, stop):
    """Returns texts without the first of the strings `stop` and what follows it."""
    quoted = tf.strings.regex_replace(stop, r"\\E", r"\\E\\\\E\\Q")  # else it would end the quotation
    one_of_them = tf.strings.reduce_join(tf.strings.join([r"\Q", quoted, r"\E"]), separator="|")
    pattern = tf.strings.join(["(?:", one_of_them, r")\C*"])  # \C is any byte
    return tf.strings.regex_replace(texts, tf.where(tf.size(stop) > 0, pattern, r"\z."), "")


def until(pieces, stop):
    """Yields pieces of a text that ends before the first of the strings `stop`, found across pieces."""
    pending = ""
    for piece in pieces:
        pending += piece
        if places := [place for place in map(pending.find, stop) if place >= 0]:
            pending = pending[: min(places)]
            break
        beginnings = (text[:size] for text in stop for size in range(1, len(text)))
        ready = len(pending) - max(map(len, filter(pending.endswith, beginnings)), default=0)
        if ready:
            yield pending[:ready]
            pending = pending[ready:]
    if pending:
        yield pending
