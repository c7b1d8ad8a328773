"""SST-2, good or bad of film reviews, in GLUE's layout: sentence, tab, 0 or 1.

    python -m recipes.classify --config sst2 --train train.tsv --validation dev.tsv --test dev.tsv --header \\
        --text-column sentence --label-column label
    python -m recipes.classify --config sst2 --tfds glue/sst2 --text-column sentence --label-column label \\
        --splits test=validation

Files without a header, such as sentiment-train of 67,349 phrases, need no options but their names. GLUE's own test set
has no labels. Not one of the paper's data sets: a small BiLSTM under 8 heads, with Adam, which trains on two cores.
"""

from recipes.classify.settings import ClassifyConfig

CONFIG = ClassifyConfig(
    format="tsv",
    header=False,
    text_column="1",
    label_column="2",
    max_length=60,
    pooling_heads=8,
    pooling_dim=64,
    model_arguments=dict(embedding_dim=100, hidden_dim=64, mlp_dim=256),
    epochs=6,
    patience=2,
    batch_size=64,
    learning_rate=1e-3,
    num_buckets=4,
)
