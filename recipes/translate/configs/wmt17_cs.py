"""WMT17 English to Czech as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config wmt17_cs
    python -m recipes.sweep interacting_table5      its tables 5 and 8

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

# Table 5 (a), and table 8 in minutes. TensorFlow Datasets calls newstest2017 `test`.
BLEU = {
    "newstest2014": (
        (12.90, 15.65, 14.82, 15.52, 13.26, 12.71),
        (11.32, 13.34, 14.04, 14.49, 15.79, 15.28),
        (10.90, 10.65, 11.65, 12.33, 12.94, 12.34),
        (18.71, 19.48, 20.01, 20.14),
    ),
    "newstest2015": (
        (11.03, 12.48, 11.66, 12.62, 10.04, 10.08),
        (9.11, 10.18, 11.55, 11.67, 12.69, 12.05),
        (8.17, 8.54, 10.06, 11.70, 11.51, 11.57),
        (15.52, 16.49, 16.38, 16.40),
    ),
    "newstest2016": (
        (11.98, 13.85, 13.09, 14.32, 11.16, 10.85),
        (10.23, 11.86, 12.51, 12.62, 13.73, 13.83),
        (9.11, 9.38, 10.50, 11.25, 11.78, 11.73),
        (17.20, 18.37, 18.29, 18.74),
    ),
    "newstest2017": (
        (10.26, 12.45, 11.71, 12.36, 9.96, 10.14),
        (8.99, 10.43, 11.30, 11.23, 12.54, 12.47),
        (8.50, 8.63, 9.92, 11.05, 11.52, 11.83),
        (14.66, 15.66, 15.79, 15.78),
    ),
}
TABLES = {
    "interacting_table5": iwslt16.by_heads(
        "wmt17_cs",
        "tables 5 and 8: WMT17 En-Cs",
        26,
        BLEU | {"test": BLEU["newstest2017"]},
        (
            (60, 65, 68, 70, 75, 90),
            (50, 53, 57, 63, 75, 110),
            (58, 59, 60, 65, 70, 90),
            (53, 58, 73, 110),
        ),
    )
}
