"""WMT17 Chinese to English on News Commentary alone, as in the paper "Disentangled mask attention", section 4.1.

    python -m recipes.translate --config wmt17_zh --train news-commentary-v12.zh-en.zh news-commentary-v12.zh-en.en \\
        --validation newsdev2017-zhen-src.zh.sgm newsdev2017-zhen-ref.en.sgm \\
        --test newstest2017-zhen-src.zh.sgm newstest2017-zhen-ref.en.sgm
    python -m recipes.sweep disentangled_table3 --train ...

The training text is in `training-parallel-nc-v12.tgz` of data.statmt.org/wmt17/translation-task, 169 MB; the other
sets are in the campaign's archives of development and test sets, as SGML, which is read as it is; `sacrebleu:wmt17`
is the test set in sacreBLEU's cache. The paper
has 212,000 pairs, 208,000 after preparation, and 2,000 for each of the others, which fits these sets; it does not name
them. jieba separates Chinese words, as in the paper: `pip install jieba`.

The paper reports 12.76 BLEU for multi-head attention (table 3) and 13.13 for its own, `--config disentangled_wmt17_zh`
(table 5: 4 clusters, c_qq of 50, c_xq and c_grad of 5; see `disentangled_iwslt14`). Neither has been run here. From the
paper: size, a vocabulary for each language (25,000 and 20,000), the last 5 epochs averaged, beam 5, 79,000 updates,
which 50 epochs are about. Silent: cleaning is the recipe's, with a higher limit, as each Chinese character
counts as a word; batch, learning rate, warm-up and dropout are fairseq's for the IWSLT'14 corpus, of this size.
"""

import dataclasses

from recipes.translate.configs import iwslt14
from recipes.translate.configs.disentangled_iwslt14 import table

MULTI_HEAD = dataclasses.replace(
    iwslt14.CONFIG,
    source_language="zh",
    lowercase=False,
    max_words=130,
    max_ratio=None,
    vocabulary_size=25_000,
    metrics=("bleu",),
    moses=True,
    shared_vocabulary=False,
    target_vocabulary_size=20_000,
)
DISENTANGLED = dataclasses.replace(
    MULTI_HEAD,
    metrics=("bleu", "redundancy"),
    attention="disentangled_mask",
    attention_arguments=dict(shared_information=5e-6, kept_information=5e-4, centre_gradient=5.0),
)
CONFIGS = {"wmt17_zh": MULTI_HEAD, "disentangled_wmt17_zh": DISENTANGLED}

TABLES = {
    "disentangled_table3": table(
        "Disentangled mask attention, table 3: WMT17 Zh-En",
        {
            "transformer": dict(config="disentangled_wmt17_zh", attention="multi_head"),
            "dma": dict(config="disentangled_wmt17_zh"),
        },
        {"transformer": (12.76, 55.0e6, 0.71, 0.60), "dma": (13.13, 55.1e6, 0.62, 0.55)},
        bleu="BLEU",
    )
}
