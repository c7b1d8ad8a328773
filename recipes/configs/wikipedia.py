"""Personal attacks on Wikipedia's talk pages, as in An et al. 2020, "Repulsive attention", sections B.1 and B.2.2.

    python -m recipes.classify --config wikipedia --train comments.tsv --text-column comment --label-column attack \\
        --embeddings glove.840B.300d.txt --repulsive svgd

The paper: 69,987 / 22,952 / 22,952 comments, 11.7 % of them abusive. Its table 6 has AUC-ROC 0.9720, AUC-PR 0.8642, MCC
0.7506 and F1 0.7790 without anything, and 0.9732, 0.8713, 0.7646 and 0.7896 with SVGD. All else: see twitter.py. These
settings have not been run here.
"""

import dataclasses

from recipes.configs import yelp

CONFIG = dataclasses.replace(
    yelp.CONFIG,
    mlp_dim=2000,
    batch_size=16,
    validation_share=0.198,
    test_share=0.198,
    pooling_heads=15,
    pooling_dim=300,
    class_weights="balanced",
)
