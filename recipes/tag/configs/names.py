"""The synthetic task, names in sentences made by code, with a small BERT of random weights. A minute on two cores.

python -m recipes.tag
"""

from recipes.tag.settings import TagConfig

CONFIG = TagConfig(
    built_in=True,
    size="bert_tiny",
    vocabulary_size=400,
    epochs=6,
    learning_rate=1e-3,
    max_length=64,
    num_buckets=3,
)
