"""Answers to questions about texts, in Python and as SavedModels."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._validation import check_lists, check_positive
from keras_headattn.serving._answers import answers_of
from keras_headattn.serving._inference import projected_together
from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches, sample_texts
from keras_headattn.text import QuestionWindows


@dataclasses.dataclass(frozen=True)
class Answer:
    """Answers to a question, likeliest first.

    Args:
        texts: tuple of str, parts of the context.
        starts, ends: tuples of int, the first character of each in the context and the one after its last.
        scores: tuple of float, their probabilities.
        no_answer_score: float, the higher the less likely there is an answer.
        has_answer: bool, True if it is not above the threshold.

    >>> Answer(("Ann", "Bob"), (0, 8), (3, 11), (0.75, 0.25), -4.0, True).text
    'Ann'
    """

    texts: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    scores: tuple[float, ...]
    no_answer_score: float
    has_answer: bool

    @property
    def text(self) -> str:
        """str, the likeliest answer; `""` if there is none."""
        return self.texts[0] if self.has_answer else ""


class QuestionAnswerer:
    """Answers questions about texts with parts of them.

    Contexts of any length are read in windows, see `text.QuestionWindows`. The score of an answer is the sum of the
    logits of its first and its last piece. Its probability is the softmax over the 20 best answers and, with a
    `threshold`, no answer. The score of no answer is that of the first id, in the window where it is least, minus the
    best answer's.

    Source: Devlin et al. 2019, "BERT", sections 4.2 and 4.3, and its program for SQuAD.

    Args:
        model: trained `models.SpanAnswerer`, or another Keras model with its inputs and outputs.
        tokenizer: `WordPieceTokenizer`, `BytePairTokenizer` or `SentencePiecePairTokenizer`.
        max_length, stride, max_question_length: as in `text.QuestionWindows`.
        max_answer_length: int, most pieces of an answer. Default 30.
        top: int, number of answers to return. Default 1.
        threshold: float, highest score of no answer for which there is an answer. Default `None`: there always is one.
        batch_size: int, questions that are read together. Default 32.

    Call arguments:
        questions, contexts: N str each.
        progress: function of the number of questions done, called after each batch. Default `None`.

    Returns:
        List of N `Answer`. Those with fewer than `top` possible answers end with `""` of probability 0.

    Raises:
        ValueError: if `questions` or `contexts` is a str, or their numbers differ.

    ```python
    answer = QuestionAnswerer(model, tokenizer, threshold=-1.5)
    [found] = answer(["Who wrote Hamlet?"], ["Hamlet is a tragedy by Shakespeare."])
    found.text, found.starts[0], found.scores[0]
    ```
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Any,
        max_length: int = 384,
        stride: int = 128,
        max_question_length: int = 64,
        max_answer_length: int = 30,
        top: int = 1,
        threshold: float | None = None,
        batch_size: int = 32,
    ):
        self.model = model
        self.windows = QuestionWindows(tokenizer, max_length, stride, max_question_length)
        self.threshold = threshold
        self.batch_size = check_positive("batch_size", batch_size)
        graph = answers_of(model, self.windows, max_answer_length, top, threshold)
        self._answer = tf.function(graph, input_signature=SPECS, autograph=False)

    def __call__(
        self, questions: Sequence[str], contexts: Sequence[str], progress: Callable[[int], Any] | None = None
    ) -> list[Answer]:
        check_lists(questions=questions, contexts=contexts)
        answers: dict[int, Answer] = {}
        order = sorted(range(len(contexts)), key=lambda index: len(contexts[index]))
        for begin in range(0, len(order), self.batch_size):
            members = order[begin : begin + self.batch_size]
            sides = ([side[index] for index in members] for side in (questions, contexts))
            answers |= zip(members, _read(self._answer(*map(tf.constant, sides))), strict=True)
            if progress:
                progress(len(answers))
        return [answers[index] for index in range(len(questions))]


SPECS = [tf.TensorSpec((None,), tf.string, name=name) for name in ("question", "context")]


def _read(outputs):
    """Yields an `Answer` for each question."""
    values = [outputs[name].numpy().tolist() for name in ("answers", "starts", "ends", "scores")]
    for *row, score, has_answer in zip(
        *values, outputs["no_answer_score"].numpy().tolist(), outputs["has_answer"].numpy().tolist(), strict=True
    ):
        texts, starts, ends, scores = map(tuple, row)
        yield Answer(tuple(text.decode("utf-8") for text in texts), starts, ends, scores, score, has_answer)


def export_question_answerer(
    model: keras.Model,
    tokenizer: Any,
    folder: Path,
    max_length: int = 384,
    stride: int = 128,
    max_question_length: int = 64,
    max_answer_length: int = 30,
    top: int = 1,
    threshold: float | None = None,
    run: str | None = None,
    warmup_batch_sizes: Sequence[int] = BATCH_SIZES,
    cpu_only: bool = False,
) -> pathlib.Path:
    """Writes a SavedModel that answers questions about texts, and returns the `Path` of the new version.

    It needs TensorFlow only, and tensorflow-text if the tokenizer does. Its signature
    `serving_default` takes strings `question` and `context` `(B,)`, and returns:

    - strings `answers` `(B, top)`, parts of the contexts, likeliest first, and their probabilities, float32 `scores`
      `(B, top)`, as `QuestionAnswerer` computes them;
    - int32 `starts` and `ends` `(B, top)`, the first character of each in its context, and the one after its last, in
      Unicode code points, as Python counts;
    - float32 `no_answer_score` `(B,)`, the higher the less likely there is an answer, and boolean `has_answer` `(B,)`,
      True if it is not above the threshold;
    - boolean `is_cut` `(B,)`, True if a question has more than `max_question_length` pieces.

    All windows of all contexts of a request are read together, so long contexts may exhaust memory.

    Args:
        model, tokenizer, max_length, stride, max_question_length, max_answer_length, top, threshold: as in
            `QuestionAnswerer`.
        folder, run, warmup_batch_sizes, cpu_only: as in `export_classifier`.

    Raises:
        ValueError: if `run` is another, or a model for `cpu_only` has conditions (`tf.cond`).
        OSError: if it cannot be written.

    ```python
    path = export_question_answerer(model, tokenizer, "saved_models/answer", threshold=-1.5)
    call = tf.saved_model.load(path).signatures["serving_default"]
    call(question=tf.constant(["Who runs?"]), context=tf.constant(["Ann runs."]))["answers"]
    ```
    """
    windows = QuestionWindows(tokenizer, max_length, stride, max_question_length)
    answer = answers_of(model, windows, max_answer_length, top, threshold, cpu_only)
    texts = sample_texts(tokenizer, [max_length])
    requests = batches("context", texts, warmup_batch_sizes)
    warmup = {"serving_default": [request | {"question": request["context"]} for request in requests]}
    with projected_together(model):
        return save_signatures({"serving_default": (answer, SPECS)}, folder, [tokenizer], run, warmup)
