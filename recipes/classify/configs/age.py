"""The age range of who wrote tweets, as in An et al. 2020, "Repulsive attention", section B.2.1.

    python -m recipes.classify --config age --train train.csv --validation dev.csv --test test.csv \\
        --embeddings glove.840B.300d.txt --repulsive spos --seeds 1 2 3 4 5 6 7 8 9 10

The data are PAN's of author profiling, 68,485 / 4,000 / 4,000, five ranges; they are to be asked for. The paper
reports an accuracy of 81.47 without anything, 81.30 with the Frobenius regularizer, 81.82 with SVGD and 82.55 with SPOS
(its table 1). Lin et al. 2017 have 2,000 hidden units in the classifier and batches of 16 here; all else, and what is
printed nowhere: see yelp.py. These settings have not been run here.
"""

import dataclasses

from recipes.classify.configs import yelp

CONFIG = dataclasses.replace(
    yelp.CONFIG,
    model_arguments={},
    batch_size=16,
)
