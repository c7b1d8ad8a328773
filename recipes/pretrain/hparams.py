"""Hyperparameters of ELECTRA's `run_pretraining.py`, and of An et al.'s `run_pretraining_svgd.py`."""

import os

from recipes.engine.config import override
from recipes.engine.hparams import settings_of
from recipes.pretrain.settings import PretrainConfig

NAMES = {
    "electra_objective": "objective",
    "mask_prob": "model_arguments.drawn_share",
    "disc_weight": "model_arguments.discriminator_weight",
    "generator_hidden_size": "model_arguments.generator_share",
    "learning_rate": "learning_rate",
    "weight_decay_rate": "optimizer_arguments.weight_decay",
    "num_warmup_steps": "warmup_steps",
    "num_train_steps": "epochs",
    "save_checkpoints_steps": "epoch_steps",
    "model_size": "size",
    "embedding_size": "model_arguments.embedding_dim",
    "vocab_size": "vocabulary_size",
    "vocab_file": "vocabulary",
    "do_lower_case": "lowercase",
    "max_seq_length": "max_length",
    "train_batch_size": "batch_size",
    "pretrain_tfrecords": "records",
    "model_dir": "run",
    "stepsize": "repulsive_arguments.step_size",
    "d_kernel_weight": "repulsive_arguments.repulsive_weight",
}


def of_hparams(hparams):
    """Returns the settings of pre-training with these hyperparameters, over the program's defaults."""
    hparams = {"num_train_steps": 1_000_000, "save_checkpoints_steps": 1_000, "electra_objective": True, **hparams}
    is_repulsive = not hparams.keys().isdisjoint({"stepsize", "d_kernel_weight"})
    if is_repulsive:
        hparams = {"stepsize": 1.0, "d_kernel_weight": 1.0, **hparams}
    given = settings_of(hparams, NAMES)
    steps, each = given["epochs"], given["epoch_steps"]
    if steps % each:
        raise ValueError(f"num_train_steps must be a multiple of save_checkpoints_steps. Received: {steps} and {each}")
    given["epochs"] = steps // each
    given["objective"] = "electra" if given["objective"] else "masked_lm"
    given["repulsive"] = "svgd" if is_repulsive else "none"
    if "records" in given:
        given["records"] = os.path.dirname(given["records"])  # a pattern of files there
    return override(PretrainConfig(), given)
