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

The paper's table 3, of what is fine-tuned from them on GLUE, is `python -m recipes.sweep repulsive_table3`.
"""

import dataclasses

from recipes.pretrain.settings import PretrainConfig

SMALL = PretrainConfig(epochs=1_000, epoch_steps=1_000, warmup_steps=10_000)
CONFIGS = {
    "electra_small": SMALL,
    "repulsive_electra_small": dataclasses.replace(SMALL, repulsive="svgd"),
    "electra_base": dataclasses.replace(SMALL, size="base", max_length=512, batch_size=256, learning_rate=2e-4),
}
