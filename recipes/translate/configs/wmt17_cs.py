"""WMT17 English to Czech as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config wmt17_cs
    python -m recipes.sweep --config wmt17_cs --runs runs/wmt17_cs      its tables 5 and 8

TensorFlow Datasets downloads the corpus, 1.7 GiB by its catalogue, to which CzEng 1.6 is to be added by hand (it says
where; size not stated): 62 million pairs. The paper trains on 1,010,918 and does not say which. Validation is on
newstest2016 (the paper: newstest2013), test on newstest2017; text files in their place: see wmt17_de.py. The paper
reports 15.78 BLEU on newstest2017 for interacting-head attention with 16 heads and 12.36 for multi-head attention (its
table 5), with vocabularies of 25,560 and 39,670 pieces; this setting, with 40,000 each, has not been run here. Details
and gaps of the paper: see iwslt16.py.
"""

import dataclasses

from recipes.translate.configs import iwslt16

CONFIG = dataclasses.replace(
    iwslt16.CONFIG,
    source_language="en",
    target_language="cs",
    splits={},
    epochs=20,
    patience=None,
    max_length=200,
    alpha=0.6,
    tfds="wmt17_translate/cs-en",
    records="records/wmt17_cs",
    shared_vocabulary=False,
)

# By number of heads, from its table 5 (a).
PUBLISHED = {
    ("newstest2014", "BLEU"): {
        "multi_head": {2: 12.90, 4: 15.65, 8: 14.82, 16: 15.52, 32: 13.26, 64: 12.71},
        "multi_head:26": {2: 11.32, 4: 13.34, 8: 14.04, 16: 14.49, 32: 15.79, 64: 15.28},
        "talking_heads": {2: 10.90, 4: 10.65, 8: 11.65, 16: 12.33, 32: 12.94, 64: 12.34},
        "interacting": {2: 18.71, 4: 19.48, 8: 20.01, 16: 20.14},
    },
    ("newstest2015", "BLEU"): {
        "multi_head": {2: 11.03, 4: 12.48, 8: 11.66, 16: 12.62, 32: 10.04, 64: 10.08},
        "multi_head:26": {2: 9.11, 4: 10.18, 8: 11.55, 16: 11.67, 32: 12.69, 64: 12.05},
        "talking_heads": {2: 8.17, 4: 8.54, 8: 10.06, 16: 11.70, 32: 11.51, 64: 11.57},
        "interacting": {2: 15.52, 4: 16.49, 8: 16.38, 16: 16.40},
    },
    ("newstest2016", "BLEU"): {
        "multi_head": {2: 11.98, 4: 13.85, 8: 13.09, 16: 14.32, 32: 11.16, 64: 10.85},
        "multi_head:26": {2: 10.23, 4: 11.86, 8: 12.51, 16: 12.62, 32: 13.73, 64: 13.83},
        "talking_heads": {2: 9.11, 4: 9.38, 8: 10.50, 16: 11.25, 32: 11.78, 64: 11.73},
        "interacting": {2: 17.20, 4: 18.37, 8: 18.29, 16: 18.74},
    },
    ("newstest2017", "BLEU"): {
        "multi_head": {2: 10.26, 4: 12.45, 8: 11.71, 16: 12.36, 32: 9.96, 64: 10.14},
        "multi_head:26": {2: 8.99, 4: 10.43, 8: 11.30, 16: 11.23, 32: 12.54, 64: 12.47},
        "talking_heads": {2: 8.50, 4: 8.63, 8: 9.92, 16: 11.05, 32: 11.52, 64: 11.83},
        "interacting": {2: 14.66, 4: 15.66, 8: 15.79, 16: 15.78},
    },
}
PUBLISHED["test", "BLEU"] = PUBLISHED["newstest2017", "BLEU"]
