"""GLUE with ELECTRA-small, as its program fine-tunes it, of google-research/electra; so An et al. 2020 do.

    python -m recipes.glue --config electra_small_cola --glue GLUE --checkpoint runs/electra_small --seeds 1 2 3 4 5
    python -m recipes.glue --config electra_small_mnli --glue GLUE --checkpoint runs/electra_small --run runs/mnli
    python -m recipes.glue --config electra_small_rte --glue GLUE --checkpoint runs/mnli --run runs/rte_after_mnli
    python -m recipes.sweep repulsive_table3 --glue GLUE --seeds 1 2 3 4 5

The checkpoint is a run of recipes.pretrain, or a folder such as Hugging Face's. The tasks are cola, sst2, mrpc, stsb,
qqp, mnli, qnli and rte. The third command begins with the encoder that was fine-tuned on MNLI, and a new head. The
sweep is table 3 of An et al.: runs/electra_small and runs/repulsive_electra_small, which recipes.pretrain leaves there,
on all tasks, and on RTE after MNLI, which begins with the runs of MNLI. The paper takes 50 seeds, and measures MRPC and
QQP by accuracy, STS-B by Spearman's correlation. It names the test sets, but its first row is close to the dev row of
ELECTRA's program, and 50 trials cannot go to GLUE's server: compare with dev.

3 epochs, of stsb and rte 10; batch 32, rate 1e-4, weight decay 0.01, linear warm-up over a tenth of the steps, the rate
of a layer 0.8 times that of the one above, gradients of the sum of a batch's losses clipped to norm 1; mrpc and stsb
are trained on each pair twice, with its texts swapped. The last epoch is scored. Other than there, grades of stsb are
not divided by 5.
"""

from recipes.glue.configs.glue import TASKS, of_tasks
from recipes.glue.settings import GlueConfig

EPOCHS = dict(cola=3, sst2=3, mrpc=3, stsb=10, qqp=3, mnli=3, qnli=3, rte=10)
CONFIGS = {
    f"electra_small_{task}": GlueConfig(
        task=task,
        epochs=epochs,
        learning_rate=1e-4,
        optimizer="electra",
        layer_decay=0.8,
        optimizer_arguments=dict(epsilon=1e-6),
        swap_pairs=task in ("mrpc", "stsb"),
        average_of="last",
    )
    for task, epochs in EPOCHS.items()
}

TABLE_3 = {
    "electra_small": (56.2, 88.3, 87.5, 86.8, 88.1, 78.6, 87.4, 67.3, 71.4),
    "repulsive_electra_small": (59.4, 87.1, 87.9, 87.0, 88.6, 79.3, 87.8, 64.9, 73.1),
}
AFTER_MNLI = "rte_after_mnli"
TABLES = {
    "repulsive_table3": of_tasks(
        "An et al. 2020, table 3: GLUE after ELECTRA-small",
        {name: dict(config="electra_small_{column}", checkpoint=f"runs/{name}") for name in TABLE_3},
        TASKS
        | dict.fromkeys(("mrpc", "qqp"), dict(score=("accuracy",)))
        | dict(stsb=dict(score=("spearman",)))
        | {AFTER_MNLI: dict(column="rte", after="mnli")},
        TABLE_3,
        means={"mean": (*TASKS,), "mean, RTE after MNLI": (*(task for task in TASKS if task != "rte"), AFTER_MNLI)},
    )
}
