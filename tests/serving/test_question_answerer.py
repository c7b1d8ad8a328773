"""Answers of a model, in Python and as a SavedModel, against plain loops over all spans of all windows."""

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.models import Bert, SpanAnswerer
from keras_headattn.serving import QuestionAnswerer, export_question_answerer
from keras_headattn.serving._warmup import read_warmup
from keras_headattn.text import QuestionWindows
from tests.layers.harness import randomize
from tests.text.test_question_windows import CONTEXTS, QUESTIONS, byte_pairs, word_pieces

SIZES = dict(max_length=14, stride=4, max_question_length=3)


def make(tokenizer):
    segments = dict(num_segments=2 if tokenizer.has_segments else 0, pad_id=tokenizer.pad_id, pooler=False)
    model = SpanAnswerer(Bert(tokenizer.vocabulary_size, 8, 8, num_layers=1, num_heads=2, max_length=20, **segments))
    model.build()
    return randomize(model)


def slow_answers(model, tokenizer, question, context, longest):
    """Returns all spans of a question, best first, `(score, start, end)`, and the least score of no answer."""
    inputs, pieces = QuestionWindows(tokenizer, **SIZES)([question], [context])
    spans, none = [], []
    for window in range(inputs["token_ids"].nrows()):
        row = {name: ids[window : window + 1].to_tensor() for name, ids in inputs.items()}
        begin, end = np.array(model(row))[0]
        none.append(begin[0] + end[0])
        starts, ends, may = (pieces[name][window].numpy() for name in ("starts", "ends", "may_begin"))
        allowed = np.nonzero(inputs["answer_mask"][window].numpy())[0][1:]
        spans += [
            (begin[first] + end[last], starts[first], ends[last])
            for first in allowed
            for last in allowed
            if may[first] and first <= last < first + longest
        ]
    return sorted(spans, key=lambda span: -span[0]), min(none)


def softmax(values):
    powers = np.exp(np.array(values) - max(values))
    return powers / powers.sum()


@pytest.mark.parametrize("make_tokenizer", [word_pieces, byte_pairs])
@pytest.mark.parametrize("threshold", [None, 0.0])
def test_answers(make_tokenizer, threshold):
    tokenizer = make_tokenizer()
    model = make(tokenizer)
    done = []
    answer = QuestionAnswerer(model, tokenizer, **SIZES, max_answer_length=4, top=3, threshold=threshold, batch_size=3)
    answers = answer(QUESTIONS, CONTEXTS, done.append)
    assert done == [3, 4]
    for found, question, context in zip(answers, QUESTIONS, CONTEXTS, strict=True):
        spans, none = slow_answers(model, tokenizer, question, context, 4)
        if not spans:
            assert found.texts == ("",) * 3 and found.scores == (0.0,) * 3 and not found.has_answer
            continue
        scores = [score for score, _, _ in spans[:20]]
        probabilities = softmax(scores if threshold is None else [*scores, none])[: len(scores)]
        expected = [(start, end) for _, start, end in spans[:3]]
        assert [*zip(found.starts, found.ends, strict=True)][: len(expected)] == expected
        assert found.texts[: len(expected)] == tuple(context[start:end] for start, end in expected)
        np.testing.assert_allclose(found.scores[: len(expected)], probabilities[:3], rtol=1e-4)
        assert found.no_answer_score == pytest.approx(none - scores[0], abs=1e-4)
        assert found.has_answer == (threshold is None or none - scores[0] <= threshold)
        assert found.text == (found.texts[0] if found.has_answer else "")


@pytest.mark.parametrize("make_tokenizer, cpu_only", [(word_pieces, False), (byte_pairs, True)])
def test_the_export_answers_alike(make_tokenizer, cpu_only, tmp_path):
    tokenizer = make_tokenizer()
    model = make(tokenizer)
    given = dict(**SIZES, max_answer_length=5, top=2, threshold=-0.5)
    path = export_question_answerer(model, tokenizer, tmp_path, **given, cpu_only=cpu_only)
    loaded = tf.saved_model.load(path)
    call = loaded.signatures["serving_default"]
    contexts = [*CONTEXTS[:-1], b"\xff a cat \xc3\x81"]  # a byte that is not UTF-8 is one character
    found = call(question=tf.constant(QUESTIONS), context=tf.constant(contexts))
    texts = [*CONTEXTS[:-1], "\ufffd a cat Á"]
    for row, answer in enumerate(QuestionAnswerer(model, tokenizer, **given)(QUESTIONS, texts)):
        assert [text.decode() for text in found["answers"][row].numpy()] == [*answer.texts]
        for name in ("starts", "ends"):
            assert tuple(found[name][row].numpy()) == getattr(answer, name)
        np.testing.assert_allclose(found["scores"][row], answer.scores, rtol=1e-4)
        assert found["no_answer_score"][row].numpy() == pytest.approx(answer.no_answer_score, rel=1e-4, abs=1e-4)
        assert bool(found["has_answer"][row]) == answer.has_answer
    assert found["is_cut"].numpy().tolist() == [
        len(ids) > SIZES["max_question_length"] for ids in tokenizer.tokenize_with_offsets(QUESTIONS)[0]
    ]
    empty = call(question=tf.constant([], tf.string), context=tf.constant([], tf.string))
    assert empty["answers"].shape == (0, 2) and empty["has_answer"].shape == empty["is_cut"].shape == (0,)
    assert [request["context"].shape for _, request in read_warmup(path)] == [(1,), (8,)]


def test_no_questions():
    tokenizer = word_pieces()
    assert QuestionAnswerer(make(tokenizer), tokenizer, **SIZES)([], []) == []
