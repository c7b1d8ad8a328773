"""AGENDA, abstracts of papers from what they name: GraphWriter, plain and with repulsive attention.

    python -m recipes.graphs --config graphwriter_agenda --train preprocessed.train.tsv \\
        --validation preprocessed.val.tsv --test preprocessed.test.tsv
    python -m recipes.graphs --config repulsive_agenda --train ...
    python -m recipes.graphs --config repulsive_agenda --run runs/control --repulsive-arguments repulsive_weight=0 \\
        --train ...
    python -m recipes.sweep repulsive_table4 --train ...

Files: the six columns of rikdz/GraphWriter, or AGENDA's original JSON.

The settings are those of Koncel-Kedziorski et al. 2019 as their public code has them: 6 blocks of width 500, 4 heads,
SGD 0.1 with momentum 0.9, norm 1.0, 20 epochs, the lowest validation loss; and no gradient through what is attended to,
`detach_neighbours`. `repulsive_agenda` has besides what An et al. 2020, "Repulsive attention", name: SVGD on the query,
key and value kernels of the graph encoder, step size 0.1, weight 0.01. The last command is the control, the same step
size without repulsion: under SGD a head then moves by a fraction of its gradient, too. None has been run here: the
training file is not public with the others, and an epoch takes hours on a CPU.

Of the paper's figures BLEU can be compared; METEOR and ROUGE cannot, as they are of other programs. No seeds are named,
and one deviation over seeds of GraphWriter is 1.0 BLEU by its authors. Section 5.4 says of repulsive attention, without
a table, that texts name a tenth more of the graph and repeat fewer clauses: `entities named` and `repeated clauses`.
"""

import dataclasses

from recipes.engine.tables import Table, figures
from recipes.graphs.settings import GraphsConfig

GRAPHWRITER = GraphsConfig(
    attention_arguments={"detach_neighbours": True},
    vocabulary_arguments={"min_count": 5},
    tokens_per_batch=3_520,
    patience=None,
)
CONFIGS = {
    "graphwriter_agenda": GRAPHWRITER,
    "repulsive_agenda": dataclasses.replace(GRAPHWRITER, repulsive="svgd"),
}
MEASURES = tuple(
    ("test", name) for name in ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU", "METEOR", "ROUGE-1", "ROUGE-2", "ROUGE-L")
)
TABLE_4 = {
    "graphwriter": (42.56, 27.64, 19.27, 13.75, 18.11, 35.80, 16.83, 27.21),
    "cosine": (42.25, 27.98, 19.77, 14.21, 18.61, 37.24, 17.78, 26.90),
    "repulsive": (45.60, 29.96, 21.07, 15.12, 19.52, 38.23, 18.39, 28.55),
}
SVGD = dict(config="repulsive_agenda")
TABLES = {
    "repulsive_table4": Table(
        title="An et al. 2020, table 4: AGENDA",
        config="graphwriter_agenda",
        rows={
            "graphwriter": {},
            "cosine": dict(attention_regularizer="cosine"),
            "repulsive": SVGD,
            "control": SVGD | dict(repulsive_arguments=dict(repulsive_weight=0.0)),
        },
        measures=MEASURES + (("test", "entities named"), ("test", "repeated clauses")),
        published=figures(MEASURES, TABLE_4),
    )
}
