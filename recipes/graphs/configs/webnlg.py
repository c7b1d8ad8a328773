"""WebNLG 1.6: texts of sets of triples of DBpedia, with any attention, repulsion and its control.

    python -m recipes.graphs --config webnlg --train v1.6/en/train --validation v1.6/en/dev --test v1.6/en/test
    python -m recipes.graphs --config webnlg ... --attention-regularizer cosine --run runs/cosine
    python -m recipes.graphs --config webnlg ... --repulsive svgd --run runs/repulsive
    python -m recipes.graphs --config webnlg ... --repulsive svgd --run runs/control \\
        --repulsive-arguments repulsive_weight=0

The folder v1.6/en is that of ThiagoCF05/webnlg. Entities are written as tags in its templates, and names take their
place. Scores are of all texts of the test set, of categories that are in the training set (`test_seen`), and of others
(`test_unseen`).

Step size 0.1 and weight 0.01 of repulsion are those of An et al. 2020, "Repulsive attention", for AGENDA. The control
has the same step size without repulsion: SGD does not hide that heads move by a fraction of their gradient, and a gain
of the control is none of repulsion's. The size is one that a core trains in minutes. Results:
docs/results/graphs.md.
"""

from recipes.graphs.settings import GraphsConfig

CONFIG = GraphsConfig(
    model_arguments=dict(num_layers=3, hidden_dim=128, num_encoder_layers=1),
    vocabulary_arguments=dict(min_count=5, max_words=10),
    optimizer="adam",
    learning_rate=2e-3,
    epochs=7,
    tokens_per_batch=1024,
    bucket_arguments=dict(num_buckets=5),
    max_length=80,
    validation_graphs=0,
)
