"""Abusive tweets and personal attacks on Wikipedia's talk pages, as in An et al. 2020, "Repulsive attention", sections
B.1 and B.2.2.

    python -m recipes.classify --config twitter --train tweets.csv --text-column tweet --label-column class \\
        --embeddings glove.840B.300d.txt --repulsive svgd
    python -m recipes.classify --config wikipedia --train comments.tsv --text-column comment --label-column attack \\
        --embeddings glove.840B.300d.txt --repulsive svgd

The paper: 9,572 / 3,254 / 3,254 tweets, 31.4 % of them abusive, and 69,987 / 22,952 / 22,952 comments, 11.7 % of them;
15 heads, hidden units and embeddings of 300, "similar settings" to those of sentence classification otherwise (see
yelp.py); step size and repulsive weight by grid search, not printed. Its table 6 is
`python -m recipes.sweep repulsive_table6_twitter` and `_wikipedia`. The paper describes neither its CNN nor its naive
Bayes with logistic regression. Here they are Kim's CNN of 2014, before the hidden layer that the other rows have, too,
and the features of Wang and Manning 2012.

Without --validation and --test they are shares of --train, in the paper's proportions. Name the labels, the abusive one
last, as it is the positive one: --labels clean abusive. Classes are weighted here, as they are skewed; the paper does
not say. These settings have not been run here.
"""

import dataclasses

from recipes.classify.configs import yelp
from recipes.engine.tables import Table, figures

WIKIPEDIA = dataclasses.replace(
    yelp.CONFIG,
    model_arguments={},
    batch_size=16,
    validation=("0.198",),
    test_share=0.198,
    pooling_heads=15,
    pooling_dim=300,
    class_weights="balanced",
)
TWITTER = dataclasses.replace(WIKIPEDIA, max_length=80, validation=("0.2024",), test_share=0.2024)
CONFIGS = {"twitter": TWITTER, "wikipedia": WIKIPEDIA}

MEASURES = tuple(("test", name) for name in ("auc_roc", "auc_pr", "mcc", "f1"))
TABLE_6 = {
    "twitter": {
        "ma": (0.9020, 0.7999, 0.6391, 0.7403),
        "rma": (0.9275, 0.8552, 0.6832, 0.7819),
        "cnn": (0.8247, 0.7174, 0.5041, 0.6264),
        "nblr": (0.9105, 0.8454, 0.6280, 0.7116),
    },
    "wikipedia": {
        "ma": (0.9720, 0.8642, 0.7506, 0.7790),
        "rma": (0.9732, 0.8713, 0.7646, 0.7896),
        "cnn": (0.9526, 0.8202, 0.7058, 0.7304),
        "nblr": (0.9687, 0.8674, 0.7389, 0.7533),
    },
}
TABLES = {
    f"repulsive_table6_{data}": Table(
        title=f"An et al. 2020, table 6: {data}",
        config=data,
        rows={
            "ma": {},
            "rma": dict(repulsive="svgd"),
            "cnn": dict(encoder="cnn"),
            "nblr": dict(encoder="naive_bayes"),
        },
        measures=MEASURES,
        published=figures(MEASURES, rows),
    )
    for data, rows in TABLE_6.items()
}
