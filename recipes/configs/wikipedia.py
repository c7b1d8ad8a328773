"""Personal attacks on Wikipedia's talk pages, as in An et al. 2020, "Repulsive attention", sections B.1 and B.2.2.

    python -m recipes.classify --config wikipedia --train comments.tsv --text-column comment --label-column attack \\
        --embeddings glove.840B.300d.txt --repulsive svgd

The paper: 69,987 / 22,952 / 22,952 comments, 11.7 % of them abusive. Its table 6 has AUC-ROC 0.9720, AUC-PR 0.8642, MCC
0.7506 and F1 0.7790 without anything, and 0.9732, 0.8713, 0.7646 and 0.7896 with SVGD. All else: see twitter.py. These
settings have not been run here.
"""

import dataclasses

from recipes.configs import twitter

CONFIG = dataclasses.replace(
    twitter.CONFIG,
    validation_share=0.198,
    test_share=0.198,
    max_length=300,
    run="runs/wikipedia",
    export="saved_models/wikipedia",
)
