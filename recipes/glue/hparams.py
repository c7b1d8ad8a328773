"""Hyperparameters of ELECTRA's `run_finetuning.py`. The checkpoint says what the model is."""

from recipes.engine.config import override
from recipes.engine.hparams import settings_of
from recipes.glue.configs.glue_electra import CONFIGS

TASKS = {"sst": "sst2", "sts": "stsb"}  # other tasks have the same name
NAMES = {
    "learning_rate": "learning_rate",
    "weight_decay_rate": "optimizer_arguments.weight_decay",
    "layerwise_lr_decay": "layer_decay",
    "num_train_epochs": "epochs",
    "warmup_proportion": "warmup_share",
    "max_seq_length": "max_length",
    "train_batch_size": "batch_size",
    "double_unordered": "swap_pairs",
    "init_checkpoint": "checkpoint",
    "model_dir": "run",
}


def of_hparams(hparams):
    """Returns the settings of fine-tuning with these hyperparameters, over the program's defaults."""
    tasks = hparams.pop("task_names", [])
    task = tasks[0] if len(tasks) == 1 else None
    config = CONFIGS.get(f"electra_small_{TASKS.get(task, task)}")
    if config is None:
        raise ValueError(f"task_names must be a list of one task of GLUE. Received: task_names={tasks!r}")
    if hparams.pop("model_size", "small") == "large":
        hparams = {"learning_rate": 5e-5, "layerwise_lr_decay": 0.9, **hparams}
    given = settings_of(hparams, NAMES)
    given["swap_pairs"] = config.swap_pairs and given.get("swap_pairs", True)
    if given.get("epochs", 0.5) % 1 == 0:  # 3.0 there
        given["epochs"] = int(given["epochs"])
    return override(config, given)
