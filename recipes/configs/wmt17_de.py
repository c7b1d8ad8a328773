"""WMT17 English to German as in Zhang et al. 2022, "Interacting-head attention", sections 4.1 and 4.2.

    python -m recipes.translate --config wmt17_de

TensorFlow Datasets downloads the corpus: 5.9 million pairs, validation on newstest2016 (the paper: newstest2013), test
on newstest2017. The paper reports 17.67 BLEU on newstest2017 for interacting-head attention with 16 heads and 16.41 for
multi-head attention (its table 4); this setting has not been run here.
"""

import dataclasses

from recipes.configs import iwslt16

CONFIG = dataclasses.replace(
    iwslt16.CONFIG,
    source_language="en",
    target_language="de",
    tfds="wmt17_translate/de-en",
    validation_split="validation",
    test_splits=("test",),
    max_words=100,
    vocabulary_size=80_000,
    epochs=20,
    patience=None,
    max_length=200,
    alpha=0.6,
    run="runs/wmt17_de",
    export="saved_models/wmt17_de",
)
