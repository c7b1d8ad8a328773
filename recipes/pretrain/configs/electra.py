"""ELECTRA-small and -base, plain and with repulsive attention, of An et al. 2020, "Repulsive attention", section 4.4.

    python -m recipes.pretrain prepare --records records/openwebtext --train openwebtext.tar --vocabulary vocab.txt
    python -m recipes.pretrain --config electra_small --records records/openwebtext
    python -m recipes.pretrain --config repulsive_electra_small --records records/openwebtext
    python -m recipes.pretrain --config repulsive_electra_small --records records/openwebtext --run runs/control \\
        --repulsive-arguments repulsive_weight=0

The settings of `electra_small` are those of Clark et al. 2020 and of their program: 1,000,000 steps of 128 sequences of
128 tokens, and 30,522 word pieces, those of BERT's vocab.txt. `repulsive_electra_small` has, besides, what appendix
B.2.4 of An et al. names: SVGD on the query, key and value kernels of the discriminator's first layer, step size 0.01,
weight 0.1. The last command is the control, the same step size without repulsion: with Adam a step size all but
cancels, and a gain of the control is none of repulsion's. `electra_base` has the program's sizes: 256 sequences of 512
tokens, a rate of 2e-4. None of them has been run here, as small takes days on a GPU.

Paper (table 3: Matthews for CoLA, Spearman for STS, else accuracy; mean of 50 fine-tunings; RTE also after MNLI):

| | CoLA | SST | MRPC | STS | QQP | MNLI | QNLI | RTE | mean |
|---|---|---|---|---|---|---|---|---|---|
| ELECTRA, OpenWebText | 56.2 | 88.3 | 87.5 | 86.8 | 88.1 | 78.6 | 87.4 | 67.3 / 71.4 | 80.0 / 80.5 |
| + repulsive | 59.4 | 87.1 | 87.9 | 87.0 | 88.6 | 79.3 | 87.8 | 64.9 / 73.1 | 80.3 / 81.3 |

The caption names the test sets, but the first row is close to the dev row of ELECTRA's program, which scores dev, and
50 trials cannot go to GLUE's server: compare with dev.
"""

import dataclasses

from recipes.pretrain.settings import PretrainConfig

SMALL = PretrainConfig(epochs=1_000, epoch_steps=1_000)
CONFIGS = {
    "electra_small": SMALL,
    "repulsive_electra_small": dataclasses.replace(SMALL, repulsive="svgd"),
    "electra_base": dataclasses.replace(SMALL, size="base", max_length=512, batch_size=256, learning_rate=2e-4),
}
