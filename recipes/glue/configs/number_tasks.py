"""Three synthetic tasks, made by code: acceptability, paraphrase, similarity. No download; minutes on two cores.

    python -m recipes.glue
    python -m recipes.glue --task paraphrase --run runs/paraphrase
    python -m recipes.glue --task similarity --run runs/similarity

A small BERT (2 x 128, Turc et al. 2019) first fills in masked words of such sentences, with whatever attention, and is
then fine-tuned. This is the default task. Scores, time and machine: docs/glue.md.
"""

from recipes.glue.settings import GlueConfig

CONFIG = GlueConfig(
    built_in=True,
    size="bert_tiny",
    vocabulary_size=300,
    pretraining_epochs=10,
    epochs=5,
    learning_rate=1e-3,
    max_length=64,
    num_buckets=3,
)
