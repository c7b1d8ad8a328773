"""Abusive tweets, as in An et al. 2020, "Repulsive attention", sections B.1 and B.2.2.

    python -m recipes.classify --config twitter --train tweets.csv --text-column tweet --label-column class \\
        --embeddings glove.840B.300d.txt --repulsive svgd

The paper: 9,572 / 3,254 / 3,254 tweets, 31.4 % of them abusive, 15 heads, hidden units and embeddings of 300, "similar
settings" to those of sentence classification otherwise (see yelp.py); step size and repulsive weight by grid search,
not printed. Its table 6 has AUC-ROC 0.9020, AUC-PR 0.7999, MCC 0.6391 and F1 0.7403 without anything, and 0.9275,
0.8552, 0.6832 and 0.7819 with SVGD. Without --validation and --test they are shares of --train, in the paper's
proportions. Name the labels, the abusive one last, as it is the positive one: --labels clean abusive. Classes are
weighted here, as they are skewed; the paper does not say. These settings have not been run here.
"""

import dataclasses

from recipes.configs import yelp

CONFIG = dataclasses.replace(
    yelp.CONFIG,
    max_length=80,
    mlp_dim=2000,
    batch_size=16,
    validation_share=0.2024,
    test_share=0.2024,
    pooling_heads=15,
    pooling_dim=300,
    class_weights="balanced",
)
