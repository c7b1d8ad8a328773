"""Questions about numbers of things, made by code; a third of them have no answer. No download; minutes on two cores.

    python -m recipes.answer

A BERT of two blocks (Turc et al. 2019) with random weights and whatever attention learns them. Many contexts are longer
than its windows. This is the default task. Scores, time and machine: docs/answering.md.
"""

from recipes.answer.settings import AnswerConfig

CONFIG = AnswerConfig(
    built_in=True,
    size="bert_tiny",
    vocabulary_size=300,
    model_arguments=dict(initializer_range=0.09, dropout=0.0, attention_dropout=0.0),
    epochs=8,
    learning_rate=1e-3,
    max_length=32,
    max_question_length=10,
    stride=10,
    num_buckets=2,
)
