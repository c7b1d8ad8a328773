"""The age range of who wrote tweets, as in An et al. 2020, "Repulsive attention", section B.2.1.

    python -m recipes.classify --config age --train train.csv --validation dev.csv --test test.csv \\
        --embeddings glove.840B.300d.txt --repulsive spos --seeds 1 2 3 4 5 6 7 8 9 10

The data are PAN's of author profiling, 68,485 / 4,000 / 4,000, five ranges; they are to be asked for. The paper's
tables 1, 8, 9 and 11 are `python -m recipes.sweep repulsive_age`. Lin et al. 2017 have 2,000 hidden units in the
classifier and batches of 16 here; all else, and what is printed nowhere: see yelp.py. These settings have not been run
here.
"""

import dataclasses

from recipes.classify.configs import yelp

CONFIG = dataclasses.replace(
    yelp.CONFIG,
    model_arguments={},
    batch_size=16,
)

TABLES = {
    "repulsive_age": yelp.table(
        "age", (81.47, 81.3, 81.82, 82.55, 81.57, 81.88, 81.35, 81.65, 81.85), (0.129, 0.178, 0.492, 0.461)
    )
}
