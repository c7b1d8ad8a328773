"""Questions about numbers of things, made by code; a third of them have no answer. No download; minutes on two cores.

    python -m recipes.answer

A BERT of two blocks (Turc et al. 2019) with random weights and whatever attention learns them. Contexts are longer than
its windows. This is the default task. Scores, time and machine: docs/answering.md.
"""

from recipes.answer.settings import AnswerConfig

CONFIG = AnswerConfig(
    embedded=True,
    size="bert_tiny",
    vocabulary_size=300,
    epochs=12,
    learning_rate=1e-3,
    max_length=48,
    max_question_length=12,
    stride=16,
    num_buckets=2,
)
