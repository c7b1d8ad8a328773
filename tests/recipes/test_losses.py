"""Losses of the recipes' trainers: the mean over the labels of a batch, on one replica and on two."""

import argparse
import pathlib
import string

import keras
import numpy as np
import pytest
from keras import ops

from keras_headattn.interop import to_hugging_face
from keras_headattn.models import T5
from keras_headattn.text import train_sentencepiece
from tests.recipes.commands import built, command

COMMON = dict(quiet=True, batch_size=4)
TEXTS = COMMON | dict(max_examples=24)
GLUE = TEXTS | dict(pretraining_epochs=0)
PRETRAIN = COMMON | dict(built_in=False, train=("text.txt",), records="records", vocabulary_size=64, max_length=16)
PRETRAIN |= dict(validation_sequences=8, processes=1)
CASES = {
    "answer": TEXTS,
    "classify": TEXTS | dict(max_examples=200, vocabulary_size=100),
    "glue": GLUE,
    "glue similarity": GLUE | dict(task="similarity"),
    "glue t5": GLUE | dict(checkpoint="t5", size=None),
    "graphs": dict(quiet=True, max_graphs=24, tokens_per_batch=200),
    "imagenet": COMMON,
    "imagenet mixed": COMMON | dict(mixup=0.2),
    "lm": COMMON | dict(length=16),
    "pretrain": PRETRAIN,
    "pretrain masked_lm": PRETRAIN | dict(objective="masked_lm"),
    "rationales": COMMON | dict(train_examples=12, test_examples=4),
    "series": COMMON | dict(task="classification"),
    "tag": TEXTS,
    "tag mixed": TEXTS | dict(precision="mixed_bfloat16"),
    "translate": dict(quiet=True, tokens_per_batch=256, max_sentences=60),
}


@pytest.mark.parametrize("name", CASES)
def test_the_loss_of_a_batch_is_the_mean_over_its_labels(name, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("losses"))
    recipe, config = _settings(name.split()[0], CASES[name])
    for num_replicas in (1, 2):
        given = {"replicas": num_replicas, "run": f"run{num_replicas}"}
        batches, validation, trainer = built(recipe, config.changed(given))
        strategy = trainer.distribute_strategy
        assert strategy.num_replicas_in_sync == num_replicas
        for data, training in ((batches, True), (validation, False)):
            batch = next(iter(strategy.experimental_distribute_dataset(data.dataset())))
            loss, expected = _losses(trainer, strategy, batch, training)
            assert loss == pytest.approx(expected, rel=1e-4)
        assert len(set(_shares(validation))) <= 1


def _shares(batches):
    """Yields the shares that labels have in a mean of batches by their rows, as Keras computes `val_loss`."""
    for _, *labels in (data for data in batches.dataset().as_numpy_iterator() if isinstance(data, tuple)):
        weights = labels[1] if len(labels) > 1 else np.ones_like(labels[0], "float32")
        yield from np.round(weights[weights > 0] / weights[0].size, 4).tolist()


def _settings(name, given):
    """Returns the recipe and the settings of a quick run."""
    recipe = command(name).RECIPE
    config = recipe.chosen_settings(argparse.Namespace(config=None, quick=True, run="run")).changed(given)
    if given.get("train"):
        pathlib.Path("text.txt").write_text("\n".join(f"the square of {i} is {i * i}" for i in range(99)))
    if given.get("checkpoint"):
        to_hugging_face(T5(80, 16, 32, num_layers=1, num_heads=2, key_dim=8), "t5")
        train_sentencepiece(
            string.ascii_letters.split() + [string.ascii_letters + string.digits], "t5/spiece.model", 80
        )
        pathlib.Path("t5/tokenizer_config.json").write_text('{"extra_ids": 0}')
    return recipe, config


def _losses(trainer, strategy, batch, training):
    """Returns the loss that `fit` reports of a batch, and the mean over its labels."""

    def step(data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        outputs = trainer(x, training=training)
        return trainer.compute_loss(x, y, outputs, weights, training), x, y, outputs, weights

    parts = strategy.experimental_local_results(strategy.run(step, (batch,)))
    losses, *columns = zip(*parts, strict=True)
    x, y, outputs, weights = (
        None if column[0] is None else keras.tree.map_structure(lambda *arrays: np.concatenate(arrays), *column)
        for column in columns
    )
    mean = (
        _mean_of_objective(trainer, x, outputs)
        if y is None
        else _mean_of_labels(trainer, y, outputs, weights, training)
    )
    return sum(map(float, losses)), mean + sum(map(float, trainer.losses))


def _mean_of_objective(trainer, x, outputs):
    mean = np.average(outputs["mask_losses"], weights=outputs["mask_weights"])
    if "replaced_losses" in outputs:
        is_real = x["token_ids"] != trainer.pad_id
        mean += trainer.discriminator_weight * np.average(outputs["replaced_losses"], weights=is_real)
    return mean


def _mean_of_labels(trainer, y, outputs, weights, training):
    config = {**trainer.loss.get_config(), "reduction": None}
    losses = ops.convert_to_numpy(type(trainer.loss).from_config(config)(y, outputs))
    if weights is None:
        return losses.mean()
    if not training:  # the weights of all batches have the mean 1
        return (losses * weights).mean()
    assert len(np.unique(weights[weights > 0])) == 1
    return losses[weights > 0].mean()
