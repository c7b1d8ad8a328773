"""The best answers among the logits of windows, in graphs."""

import tensorflow as tf

from keras_headattn._validation import check_positive
from keras_headattn.serving._inference import in_one_thread
from keras_headattn.serving._likeliest import not_empty
from keras_headattn.text._added_tokens import clean_utf8

N_BEST = 20  # answers that share the probability, as in BERT's program
LEAST = -1e8  # sums of logits below are of no answer


def answers_of(model, windows, max_answer_length, top, threshold, cpu_only=False):
    """Returns a function from questions and contexts to the outputs of `export_question_answerer`."""
    check_positive("max_answer_length", max_answer_length)
    check_positive("top", top)
    pad_id = windows.tokenizer.pad_id

    def run(inputs):
        return tf.cast(model(inputs, training=False), tf.float32)

    run = in_one_thread(run) if cpu_only else run

    def answer(questions, contexts):
        contexts = clean_utf8(contexts)
        inputs, pieces = windows(questions, contexts)
        padded = {name: ids.to_tensor(pad_id if name == "token_ids" else 0) for name, ids in inputs.items()}
        count, rows, is_cut = tf.size(contexts), pieces.pop("rows"), pieces.pop("is_cut")
        logits = run(tf.nest.map_structure(not_empty, padded))[: tf.size(rows)]
        pieces = {name: values.to_tensor(0) for name, values in pieces.items()}
        scores, *spans = best_spans(logits, pieces, rows, count, max_answer_length, max(top, N_BEST))
        no_answer = -tf.math.unsorted_segment_max(-tf.reduce_sum(logits[:, :, 0], axis=1), rows, count)
        return _named(contexts, scores, *spans, no_answer, top, threshold) | {"is_cut": is_cut}

    return answer


def best_spans(logits, pieces, rows, count, max_answer_length, top):
    """Returns the sums of logits, float32, the first characters and the ends of the best spans, `(B, top)`.

    Args:
        logits: `(W, 2, n)`, as of `SpanAnswerer`.
        pieces: those of `QuestionWindows`, padded to `(W, n)`.
        rows, count: index of each window's question, `(W,)`, and number of questions, B.
        max_answer_length: most pieces of a span.
        top: number of spans. Those beyond the last one have a score below `LEAST`, and are empty.
    """
    width = tf.shape(logits)[2]
    begin = tf.where(pieces["may_begin"] == 1, logits[:, 0], 2 * LEAST)
    end = tf.pad(logits[:, 1], [[0, 0], [0, max_answer_length - 1]], constant_values=2 * LEAST)
    last = tf.range(width)[:, None] + tf.range(max_answer_length)
    scores, index = _largest(begin[:, :, None] + tf.gather(end, last, axis=1), top)  # of (W, n, length)
    first = tf.minimum(index // max_answer_length, width - 1)
    last = tf.minimum(first + index % max_answer_length, width - 1)
    spans = (tf.gather(pieces["starts"], first, batch_dims=1), tf.gather(pieces["ends"], last, batch_dims=1))

    def by_question(values):
        values = tf.RaggedTensor.from_value_rowids(values, rows, tf.cast(count, tf.int64), validate=False)
        return values.to_tensor(4 * LEAST if values.dtype.is_floating else 0)  # (B, windows, top)

    scores, order = _largest(by_question(scores), top)
    spans = [_padded(by_question(side), top, 0) for side in spans]
    return scores, *(tf.where(scores > LEAST, tf.gather(side, order, batch_dims=1), 0) for side in spans)


def _largest(scores, top):
    """Returns the largest numbers of each of the first axis, `(B, top)`, and their indices in the others together."""
    return tf.math.top_k(_padded(scores, top, 4 * LEAST), top)


def _padded(values, top, value):
    """Returns all numbers of each of the first axis, and `top` more."""
    sizes = tf.shape(values)
    return tf.pad(tf.reshape(values, [sizes[0], sizes[1] * sizes[2]]), [[0, 0], [0, top]], constant_values=value)


def _named(contexts, scores, starts, ends, no_answer, top, threshold):
    """Returns the outputs of spans; probabilities are over these and, with a threshold, no answer."""
    logits = scores if threshold is None else tf.concat([scores, no_answer[:, None]], axis=1)
    probabilities = tf.where(scores > LEAST, tf.nn.softmax(logits)[:, : scores.shape[1]], 0.0)
    difference = no_answer - scores[:, 0]
    texts = tf.repeat(contexts[:, None], top, axis=1)
    starts, ends = starts[:, :top], ends[:, :top]
    return {
        "answers": tf.strings.substr(texts, starts, ends - starts, unit="UTF8_CHAR"),
        "starts": starts,
        "ends": ends,
        "scores": probabilities[:, :top],
        "no_answer_score": difference,
        "has_answer": (scores[:, 0] > LEAST) & (difference <= (float("inf") if threshold is None else threshold)),
    }
