"""A JSON file of hyperparameters of ELECTRA's programs as `--config`."""

import json

import pytest

from recipes.glue.__main__ import RECIPE as GLUE
from recipes.pretrain.__main__ import RECIPE as PRETRAIN
from recipes.pretrain.settings import PretrainConfig
from tests.refusals import refused


@pytest.fixture
def config(tmp_path):
    def read(recipe, **hparams):
        path = tmp_path / "hparams.json"
        path.write_text(json.dumps(hparams))
        return recipe.named_config(str(path))

    return read


def test_pretraining(config):
    assert config(PRETRAIN) == PRETRAIN.named_config(None).changed({"epochs": 1_000})
    found = config(
        PRETRAIN,
        model_size="base",
        num_train_steps=20_000,
        save_checkpoints_steps=2_000,
        electra_objective=False,
        pretrain_tfrecords="data/pretrain_tfrecords/pretrain_data.tfrecord*",
        embedding_size=64,
        d_kernel_weight=0.1,
    )
    assert (found.epochs, found.epoch_steps, found.size, found.objective) == (10, 2_000, "base", "masked_lm")
    assert (found.records, found.model_arguments["embedding_dim"]) == ("data/pretrain_tfrecords", 64)
    arguments = PretrainConfig().repulsive_arguments | {"step_size": 1.0, "repulsive_weight": 0.1}
    assert found.repulsive == "svgd" and found.repulsive_arguments == arguments


def test_fine_tuning(config):
    assert config(GLUE, task_names=["sts"]).swap_pairs
    found = config(GLUE, task_names=["sts"], model_size="large", double_unordered=False, num_train_epochs=4.0)
    assert (found.task, found.epochs, found.learning_rate, found.layer_decay) == ("stsb", 4, 5e-5, 0.9)
    assert not found.swap_pairs and found.optimizer == "electra"


@pytest.mark.parametrize("recipe, hparams, name, received", [
    (PRETRAIN, {"temperature": 2.0, "deep": 1}, "setting", "temperature=2.0, deep=1"),
    (PRETRAIN, {"num_train_steps": 1_500}, "num_train_steps", "1500 and 1000"),
    (PRETRAIN, {"model_size": "large"}, "size", "'large'"),
    (GLUE, {"task_names": ["squad"]}, "task_names", ["squad"]),
    (GLUE, {"task_names": ["cola"], "num_trials": 50}, "setting", "num_trials=50"),
])  # fmt: skip
def test_refused(config, recipe, hparams, name, received):
    with refused(name, received) as error:
        config(recipe, **hparams)
    assert "hparams.json" in str(error.value)
