"""WMT17 English to Czech as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config wmt17_cs

TensorFlow Datasets downloads the corpus, with all of CzEng; the paper trains on 1,010,918 pairs and does not say which.
Validation is on newstest2016 (the paper: newstest2013), test on newstest2017. The paper reports 15.78 BLEU on
newstest2017 for interacting-head attention with 16 heads and 12.36 for multi-head attention (its table 5), with
vocabularies of 25,560 and 39,670 pieces; this setting, with 40,000 each, has not been run here.
"""

import dataclasses

from recipes.configs import wmt17_de

CONFIG = dataclasses.replace(
    wmt17_de.CONFIG,
    target_language="cs",
    tfds="wmt17_translate/cs-en",
    max_words=80,
    vocabulary_size=40_000,
    shared_vocabulary=False,
    run="runs/wmt17_cs",
    export="saved_models/wmt17_cs",
)
