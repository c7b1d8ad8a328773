"""WMT14 English to French with the Transformer `base`.

    python -m recipes.translate --config wmt14_fr

TensorFlow Datasets downloads the corpus, 6.7 GB (the sizes in its lists of checksums added up), of which 2.6 GB are
the French-English giga-corpus: validation on newstest2013, test on newstest2014.

Wang et al. 2021, "Evolving attention", report 40.79 BLEU on newstest2014 for multi-head attention (table 5). This
setting has not been run here. The paper gives size, Adam's betas, 4,000 steps of warm-up and label smoothing. Silent:
vocabulary (40,000) and cleaning are those of fairseq's `prepare-wmt14en2fr.sh`, the rest as `wmt14_de`.
"""

import dataclasses

from recipes.translate.configs import wmt14_de

CONFIG = dataclasses.replace(
    wmt14_de.CONFIG,
    target_language="fr",
    tfds="wmt14_translate/fr-en",
    vocabulary_size=40_000,
    epochs=6,
    average=1,
    metrics=("bleu", "tokenized_bleu"),
    records="records/wmt14_fr",
)
