import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_headattn._validation import check_lists, check_positive
from keras_headattn.text._pair_tokenizer import PairTokenizer, as_strings, check_ends, portions, rows_of


class QuestionWindows:
    """Rows of a question and a part of a context, inside the TensorFlow graph.

    A context that is too long for one row is read in windows that overlap, each after the whole question. A piece may
    begin an answer only in the window where it has most context, the lesser of both sides counting.

    Source: Devlin et al. 2019, "BERT: pre-training of deep bidirectional transformers", and its program for SQuAD.

    Args:
        tokenizer: `WordPieceTokenizer`, `BytePairTokenizer` or `SentencePiecePairTokenizer`; its `max_length` does not
            count.
        max_length: ids of a row, special ones included.
        stride: pieces from the begin of one window to that of the next, at most those of a window.
        max_question_length: pieces of a question; longer ones are cut.

    Call arguments:
        questions, contexts: strings `(B,)`, or lists of str.

    Returns:
        Tuple of two dictionaries of int32 `tf.RaggedTensor` `(W, n)` for W windows: inputs of `models.SpanAnswerer`,
        `"token_ids"`, `"segment_ids"` if the tokenizer has segments, and `"answer_mask"`; and what the pieces are, with
        0 for those that are not of the context: `"starts"` and `"ends"`, their first character in the context and the
        one after their last, and `"may_begin"`, 1 for those that may begin an answer. Besides, int64 `"rows"` `(W,)`,
        the index of each window's question, ascending, and boolean `"is_cut"` `(N,)`, True if a question was cut.

    Raises:
        ValueError: if `max_length` leaves no room for a context.

    >>> from keras_headattn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "ann", "and", "bob", "run"])
    >>> windows = QuestionWindows(tokenizer, max_length=7, stride=2, max_question_length=1)
    >>> inputs, pieces = windows(["Who?"], ["Ann and Bob run"])
    >>> inputs["token_ids"].to_list()
    [[2, 4, 3, 5, 6, 7, 3], [2, 4, 3, 7, 8, 3]]
    >>> pieces["starts"].to_list(), pieces["may_begin"].to_list()
    ([[0, 0, 0, 0, 4, 8, 0], [0, 0, 0, 8, 12, 0]], [[0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 0]])
    """

    def __init__(
        self, tokenizer: PairTokenizer, max_length: int = 384, stride: int = 128, max_question_length: int = 64
    ):
        check_ends("Windows of texts", tokenizer)
        self.tokenizer = tokenizer
        self.max_length = check_positive("max_length", max_length)
        self.stride = check_positive("stride", stride)
        self.max_question_length = check_positive("max_question_length", max_question_length)
        self._beside = 2 + tokenizer.num_between
        if max_length <= max_question_length + self._beside:
            raise ValueError(
                f"`max_length` must leave room for a context beside a question and {self._beside} special ids. "
                f"Received: max_length={max_length}, max_question_length={max_question_length}"
            )

    def __call__(
        self, questions: tf.Tensor | Sequence[str], contexts: tf.Tensor | Sequence[str]
    ) -> tuple[dict[str, tf.RaggedTensor], dict[str, Any]]:
        asked = self.tokenizer.tokenize_with_offsets(as_strings("questions", questions))[0]
        is_cut = asked.row_lengths() > self.max_question_length
        asked = asked[:, : self.max_question_length]
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(as_strings("contexts", contexts))
        rows, firsts, sizes = self._cut(ids.row_lengths(), self.max_length - self._beside - asked.row_lengths())
        asked = tf.gather(asked, rows)
        begins = tf.gather(ids.row_starts(), rows) + firsts
        places = tf.ragged.range(begins, begins + sizes)  # of the pieces of all contexts, one after the other

        def among(values, first=0, last=0):
            """Returns a number for each id: those of pieces, 0 for others but the first and the last."""
            lengths = asked.row_lengths() + self.tokenizer.num_between
            middle = tf.RaggedTensor.from_row_lengths(tf.zeros([tf.reduce_sum(lengths)], tf.int32), lengths)
            column = tf.ones([asked.nrows(), 1], tf.int32)
            return tf.concat([column * first, middle, places.with_flat_values(values), column * last], axis=1)

        ones = tf.ones_like(places.flat_values, tf.int32)
        ids, starts, ends = (tf.gather(side.flat_values, places.flat_values) for side in (ids, starts, ends))
        inputs = {"token_ids": self._joined(asked, places.with_flat_values(ids))}
        if self.tokenizer.has_segments:
            inputs["segment_ids"] = among(ones, last=1)
        inputs["answer_mask"] = among(ones, first=1)
        begin = _has_most_context(places, sizes)
        pieces = {"starts": among(starts), "ends": among(ends), "may_begin": among(begin)}
        return inputs, pieces | {"rows": rows, "is_cut": is_cut}

    def _cut(self, lengths, room):
        """Returns the row, the first piece and the number of pieces of each window, int64 `(W,)`."""
        step = tf.minimum(room, self.stride)
        counts = 1 + tf.maximum(lengths - room + step - 1, 0) // step
        rows = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
        firsts = tf.ragged.range(counts).flat_values * tf.gather(step, rows)
        return rows, firsts, tf.minimum(tf.gather(lengths, rows) - firsts, tf.gather(room, rows))

    def _joined(self, asked, pieces):
        tokenizer, column = self.tokenizer, tf.ones([asked.nrows(), 1], tf.int32)
        between = tf.tile(column * tokenizer.eos_id, [1, tokenizer.num_between])
        return tf.concat([column * tokenizer.bos_id, asked, between, pieces, column * tokenizer.eos_id], axis=1)

    def encode(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        answers: Sequence[tuple[int, int] | None] | None = None,
    ) -> tuple[dict[str, list[np.ndarray]], np.ndarray]:
        """Encodes questions outside the graph, for data sets.

        Args:
            questions, contexts: lists of str.
            answers: for each question the first character of its answer in the context and the one after its last, or
                `None` for no answer. Default `None`: no answers.

        Returns:
            Tuple of the inputs, a dictionary of lists of W int32 arrays, and labels, int32 `(W, 2)`: the indices of the
            answer's first and last piece in each window that has all of it, and of the first id, 0, in others.
        """
        answers = [None] * len(questions) if answers is None else answers
        check_lists(questions=questions, contexts=contexts, answers=answers)
        columns: dict[str, list[np.ndarray]] = {}
        labels: list[tuple[int, int]] = []
        for part in portions(zip(questions, contexts, answers, strict=True), size=1000):
            asked, texts, spans = zip(*part, strict=True)
            inputs, pieces = self(tf.constant(asked), tf.constant(texts))
            for name, values in inputs.items():
                columns.setdefault(name, []).extend(rows_of(values))
            sides = zip(*map(rows_of, (inputs["answer_mask"], pieces["starts"], pieces["ends"])), strict=True)
            counts = np.bincount(pieces["rows"].numpy(), minlength=len(spans))
            for span, count in zip(spans, counts, strict=True):
                labels += _labels(span, list(itertools.islice(sides, count)))
        return columns, np.array(labels, "int32").reshape(-1, 2)


def _has_most_context(places, sizes):
    """Returns 1 for pieces of windows that have most context there, else 0; of equal windows the first counts."""
    windows, there = places.value_rowids(), places.flat_values
    left, size = tf.ragged.range(sizes).flat_values, tf.gather(sizes, windows)
    scores = 100 * tf.minimum(left, size - 1 - left) + size  # the longer window counts if these are equal
    total = tf.reduce_max(tf.concat([there + 1, [0]], axis=0))
    is_best = scores == tf.gather(tf.math.unsorted_segment_max(scores, there, total), there)
    candidates = tf.where(is_best, windows, tf.size(sizes, tf.int64))
    first = tf.gather(tf.math.unsorted_segment_min(candidates, there, total), there)
    return tf.cast(windows == first, tf.int32)


def _labels(answer, windows):
    """Returns for each window the indices of an answer's first and last piece; 0 and 0 if it has not all of them."""
    if answer is None:
        return [(0, 0)] * len(windows)
    overlaps = []
    for mask, starts, ends in windows:
        pieces = np.nonzero(mask)[0][1:]
        begins = np.maximum(starts[pieces], answer[0])
        pieces = pieces[begins < np.minimum(ends[pieces], answer[1])]  # none of white space, which is empty
        overlaps.append((pieces, min(starts[pieces], default=np.inf), max(ends[pieces], default=-1)))
    begin, end = min(begin for _, begin, _ in overlaps), max(end for *_, end in overlaps)
    return [
        (int(pieces[0]), int(pieces[-1])) if len(pieces) and sides == [begin, end] else (0, 0)
        for pieces, *sides in overlaps
    ]
