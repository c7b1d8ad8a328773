"""SST-5, five grades of film reviews, in lines of a grade, 0 to 4, a space, and the sentence.

    python -m recipes.classify --config sst5 --train stsa.fine.train --validation stsa.fine.dev --test stsa.fine.test

8,544 / 1,101 / 2,210 sentences. Not one of the paper's data sets: the model of sst2.py.
"""

import dataclasses

from recipes.classify.configs import sst2

CONFIG = dataclasses.replace(
    sst2.CONFIG,
    format="label_text",
    header=True,
    text_column="text",
    label_column="label",
    epochs=15,
    patience=4,
    batch_size=32,
)
