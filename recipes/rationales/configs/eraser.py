"""ERASER's data sets with evolving attention, as in Wang et al. 2021, "Evolving attention", tables 8 and 11.

    python -m recipes.rationales --config movies --eraser ERASER --checkpoint bert-base-uncased
    python -m recipes.rationales --config cos_e --attention evolving --attention-arguments alpha=0.1 beta=0.1 \\
        --eraser ERASER --checkpoint bert-base-uncased --run runs/evolving_cos_e

ERASER is the folder of the benchmark's data sets: movies, fever, multirc, cose and esnli. `convert` makes cose and
esnli of other files. The checkpoint is uncased BERT of 2018-10-18. Nobody had it here, nor FEVER and MultiRC.

All is that of the BERT-LSTM of DeYoung et al. 2020: 20 epochs at most, patience 5 on accuracy, batches of 4, Adam at
2e-5, gradients clipped at norm 10, windows of 512 pieces, frozen BERT. Questions of CoS-E are read with each choice. A
rationale has the mean share of words that is marked in the training set, such as 9.35% of movies. Alpha and beta are
not in the paper: 0.1 each.

    python -m recipes.sweep evolving_table8 --eraser ERASER --checkpoint bert-base-uncased
    python -m recipes.rationales score runs/evolving_table8/*seed=* --kinds attention lime --documents 50
    python -m recipes.sweep evolving_table8 --eraser ERASER --checkpoint bert-base-uncased --table-only

The table has both of the paper's: table 8 has LIME, and table 11 adds attention. The first command measures accuracy
and macro F1, the second the words, and the third writes the table again. The paper prints "Perf" alone: accuracy of
CoS-E, F1 of the others. Its "EA-Attention" stands beside the attention of the pooling above evolving attention. Of BERT
with LIME on e-SNLI table 8 repeats the figures of "EA-Attention" (0.399, 0.177, 0.396); here are those of table 11.
"""

from recipes.engine.tables import Table
from recipes.rationales.settings import RationalesConfig

DATASETS = {"movies": "movies", "fever": "fever", "multirc": "multirc", "cos_e": "cose", "esnli": "esnli"}
CONFIGS = {name: RationalesConfig(dataset=folder) for name, folder in DATASETS.items()}

MEASURES = ("auprc", "comprehensiveness", "sufficiency")
PERF = {"bert_base": (0.970, 0.870, 0.655, 0.487, 0.960), "ea_bert_base": (0.975, 0.886, 0.674, 0.491, 0.969)}
WORDS = {
    "attention": {
        "bert_base": (
            (0.417, 0.129, 0.097),
            (0.235, 0.037, 0.122),
            (0.244, 0.036, 0.052),
            (0.606, 0.080, 0.217),
            (0.395, 0.105, 0.583),
        ),
        "ea_bert_base": (
            (0.435, 0.142, 0.084),
            (0.238, 0.078, 0.097),
            (0.251, 0.054, 0.041),
            (0.610, 0.113, 0.189),
            (0.399, 0.177, 0.396),
        ),
    },
    "lime": {
        "bert_base": (
            (0.280, 0.187, 0.093),
            (0.291, 0.212, 0.014),
            (0.208, 0.213, -0.079),
            (0.544, 0.223, 0.143),
            (0.513, 0.437, 0.389),
        ),
        "ea_bert_base": (
            (0.313, 0.194, 0.089),
            (0.307, 0.236, 0.014),
            (0.221, 0.241, -0.089),
            (0.552, 0.231, 0.140),
            (0.534, 0.445, 0.368),
        ),
    },
}


def _published():
    perf = {row: dict(zip(DATASETS, values, strict=True)) for row, values in PERF.items()}
    published = {
        ("test", "accuracy"): {row: {"cos_e": values.pop("cos_e")} for row, values in perf.items()},
        ("test", "f1_macro"): perf,
    }
    for kind, rows in WORDS.items():
        for index, measure in enumerate(MEASURES):
            published[kind, measure] = {
                row: {name: figures[index] for name, figures in zip(DATASETS, values, strict=True)}
                for row, values in rows.items()
            }
    return published


TABLES = {
    "evolving_table8": Table(
        title="Wang et al. 2021, tables 8 and 11: ERASER",
        rows={
            "bert_base": dict(config="{column}"),
            "ea_bert_base": dict(
                config="{column}", attention="evolving", attention_arguments=dict(alpha=0.1, beta=0.1)
            ),
        },
        columns={name: {} for name in DATASETS},
        measures=tuple(_published()),
        published=_published(),
    )
}
