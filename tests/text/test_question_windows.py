"""Windows of questions and contexts, against plain loops over the pieces."""

import numpy as np
import pytest

from keras_headattn.text import BytePairTokenizer, QuestionWindows, WordPieceTokenizer

QUESTIONS = ["Who ran?", "dog cat dog cat", "", "a"]
CONTEXTS = ["A  cat and a dogs ran. " * 4, "dog", "", "Á cat 🙂 ran, a dog sat"]


def word_pieces():
    return WordPieceTokenizer(["[UNK]", "[CLS]", "[SEP]", "a", "dog", "cat", "##s", "ran", "who", ".", "[PAD]"])


def byte_pairs():
    letters = [*"adogctsrnWhu?,.", "Ġ"]
    return BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", *letters, "do", "Ġdo", "Ġdog"], ["d o", "Ġ do", "Ġdo g"])


def slow_windows(tokenizer, question, context, max_length, stride, max_question_length):
    """Yields rows `(ids, segments, mask, starts, ends, may_begin)` of a question."""
    asked = tokenizer.encode([question])[0][1:-1].tolist()[:max_question_length]
    ids, starts, ends = (side.to_list()[0] for side in tokenizer.tokenize_with_offsets([context]))
    head = [tokenizer.bos_id, *asked, *[tokenizer.eos_id] * tokenizer.num_between]
    room, first, parts = max_length - len(head) - 1, 0, []
    while True:
        parts.append(range(first, min(first + room, len(ids))))
        if first + room >= len(ids):
            break
        first += min(stride, room)

    def context_of(place, part):
        return min(place - part[0], part[-1] - place) + 0.01 * len(part)

    for number, part in enumerate(parts):
        best = []
        for place in part:
            scores = [context_of(place, other) if place in other else -1 for other in parts]
            best.append(int(scores.index(max(scores)) == number))
        zeros = [0] * len(head)
        yield (
            [*head, *(ids[place] for place in part), tokenizer.eos_id],
            [*zeros, *(1 for _ in part), 1],
            [1, *zeros[1:], *(1 for _ in part), 0],
            [*zeros, *(starts[place] for place in part), 0],
            [*zeros, *(ends[place] for place in part), 0],
            [*zeros, *best, 0],
        )


@pytest.mark.parametrize("make", [word_pieces, byte_pairs])
@pytest.mark.parametrize("sizes", [(12, 3, 3), (15, 100, 2), (40, 7, 5), (11, 1, 1)])
def test_windows(make, sizes):
    tokenizer = make()
    inputs, pieces = QuestionWindows(tokenizer, *sizes)(QUESTIONS, CONTEXTS)
    assert ("segment_ids" in inputs) == tokenizer.has_segments
    names = {**inputs, **pieces}
    expected = [
        (row, *window)
        for row, sides in enumerate(zip(QUESTIONS, CONTEXTS, strict=True))
        for window in slow_windows(tokenizer, *sides, *sizes)
    ]
    assert pieces["rows"].numpy().tolist() == [row for row, *_ in expected]
    asked = tokenizer.tokenize_with_offsets(QUESTIONS)[0]
    assert pieces["is_cut"].numpy().tolist() == [len(ids) > sizes[2] for ids in asked]
    for place, name in enumerate(("token_ids", "segment_ids", "answer_mask", "starts", "ends", "may_begin"), 1):
        if name in names:
            assert names[name].to_list() == [window[place] for window in expected], name


@pytest.mark.parametrize("make", [word_pieces, byte_pairs])
def test_labels_are_the_pieces_of_the_answer(make):
    """In every window that has all of it, and in no other; a question without answer has the first id."""
    tokenizer, context = make(), CONTEXTS[0]
    windows = QuestionWindows(tokenizer, 30, 4, 2)
    texts = ["cat and a dogs", "ran", ". A"]
    spans = [(context.index(text), context.index(text) + len(text)) for text in texts]
    columns, labels = windows.encode(["dog"] * 5, [context] * 4 + [""], [*spans, None, None])
    _, pieces = windows(["dog"] * 5, [context] * 4 + [""])
    assert labels.shape == (len(columns["token_ids"]), 2)
    found = dict.fromkeys(texts, 0)
    rows = zip(*(pieces[name].numpy() for name in ("rows", "starts", "ends")), labels, strict=True)
    for row, starts, ends, (first, last) in rows:
        text = texts[row] if row < 3 else None
        if first:
            assert context[starts[first] : ends[last]] == text
            found[text] += 1
        elif text:
            begin, end = spans[row]
            assert not (min(starts[ends > 0]) <= begin and end <= max(ends)), text
    assert all(found.values())
    assert windows.encode(["dog"], ["cat"])[1].tolist() == [[0, 0]]


@pytest.mark.parametrize("make", [word_pieces, byte_pairs])
def test_answers_with_signs_that_are_no_pieces(make):
    """White space and other signs that a tokenizer drops may stand around an answer, also at an end of the context."""
    windows, context = QuestionWindows(make(), 12, 4, 2), "\n cat a dog\n"
    answers = [(2, 5), (0, 5), (2, 6), (8, 11), (7, 13), (0, 13), (0, 1)]
    labels = windows.encode(["dog"] * 7, [context] * 7, answers)[1].reshape(7, -1, 2)
    assert labels[0].any() and labels[3].any()
    for one, other in ((0, 1), (0, 2), (3, 4)):
        np.testing.assert_array_equal(labels[one], labels[other])


def test_no_rows():
    inputs, pieces = QuestionWindows(word_pieces(), 12, 3, 3)(np.zeros(0, str), np.zeros(0, str))
    assert inputs["token_ids"].nrows() == 0 and pieces["rows"].shape == (0,)
