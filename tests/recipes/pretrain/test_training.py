"""Training of the recipe of pre-training: interruptions, replicas, validation, and the paper's settings."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.models import ModernBert
from recipes.engine.config import save_config
from recipes.engine.recipe import named_configs
from recipes.pretrain.__main__ import RECIPE, main
from recipes.pretrain.data import MaskedSequences
from recipes.pretrain.modelling import make_pretraining, make_trainer
from recipes.pretrain.prepare import prepare
from recipes.pretrain.settings import PretrainConfig
from recipes.pretrain.train import check, pretraining_optimizer
from tests.recipes.commands import built, run_here, train_here
from tests.refusals import refused


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of documents about numbers, and settings of small runs on it."""
    folder = tmp_path_factory.mktemp("text")
    lines = (f"the square of {i} is {i * i}" + "\n" * (i % 6 == 5) for i in range(400))
    (folder / "text.txt").write_text("\n".join(lines))
    return PretrainConfig(
        train=(str(folder / "text.txt"),),
        records=str(folder / "records"),
        size="tiny",
        model_arguments=dict(num_layers=1, max_length=32),
        vocabulary_size=64,
        max_length=32,
        batch_size=4,
        epochs=2,
        epoch_steps=8,
        warmup_steps=2,
        validation_sequences=8,
        processes=1,
        callback_arguments=dict(save_steps=3),
        compile_arguments=dict(jit_compile=False),
        quiet=True,
    )


@pytest.mark.parametrize("objective", ["electra", "masked_lm"])
def test_an_interrupted_run_ends_as_another(text, monkeypatch, tmp_path, objective):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 13:
                raise KeyboardInterrupt

    repulsive = "svgd" if objective == "masked_lm" else "none"
    config = dataclasses.replace(text, objective=objective, repulsive=repulsive, run=str(tmp_path / "whole"))
    weights, history = train_here(RECIPE, config, monkeypatch)
    config = dataclasses.replace(config, run=str(tmp_path / "stopped"))
    with pytest.raises(KeyboardInterrupt):
        train_here(RECIPE, config, monkeypatch, Stop())
    again, logs = train_here(RECIPE, config, monkeypatch)
    assert logs == history and "val_masked_accuracy" in history[0]
    for mine, theirs in zip(weights, again, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_shard_that_is_damaged_ends_training_in_one_line(text, capsys, tmp_path):
    """Its size is right, so that it is found when it is read."""
    config = dataclasses.replace(text, records=str(tmp_path / "records"), run=str(tmp_path / "run"))
    save_config(config, tmp_path / "config.json", "pretrain")
    shard = prepare(config).folder / "shard-00000.tfrecord"
    data = bytearray(shard.read_bytes())
    data[-20] ^= 1
    shard.write_bytes(data)
    reported = run_here(main, capsys, "--config", tmp_path / "config.json")
    assert reported.startswith("error: The shard is damaged") and "shard-00000" in reported and "\n" not in reported


def test_batches_for_two_replicas_bring_their_counts(text, tmp_path):
    """Each replica divides its losses by the counts of the whole batch."""
    batches, validation, trainer = built(RECIPE, text.changed({"run": str(tmp_path), "replicas": 2}))
    for data in (batches, validation):
        batch = next(data.dataset().as_numpy_iterator())
        np.testing.assert_allclose(batch["mean_tokens"], (batch["token_ids"] != 0).sum() / len(batch["token_ids"]))
        assert len(set(batch["mean_masks"])) == 1
    assert trainer.discriminator is not None
    with refused("--batch-size", 4):
        built(RECIPE, text.changed({"run": str(tmp_path / "three"), "replicas": 3}))


def test_the_masks_of_validation_are_drawn_once(text):
    tokenizer = type("Tokenizer", (), dict(vocabulary_size=64, mask_id=4, bos_id=2, eos_id=3))
    model = make_trainer(make_pretraining(text, tokenizer))
    ids = np.random.default_rng(0).integers(5, 64, (10, 32)).astype("int32")
    sequences = MaskedSequences({"token_ids": ids, "segment_ids": np.zeros_like(ids)}, 4)
    sequences.model = model
    before = model.seed_generator.state.numpy()
    first, again = (list(sequences.dataset().as_numpy_iterator()) for _ in range(2))
    keras.tree.map_structure(np.testing.assert_array_equal, first, again)
    np.testing.assert_array_equal(model.seed_generator.state.numpy(), before)
    assert [len(batch["token_ids"]) for batch in first] == [4, 4, 2]
    masked = np.concatenate([batch["masked_ids"] for batch in first])
    assert set((masked != ids).sum(axis=1)) <= {2, 3, 4, 5} and (masked[masked != ids] == 4).all()


def test_each_network_has_its_attention(text):
    """And new weights the deviation of the settings."""
    tokenizer = type("Tokenizer", (), dict(vocabulary_size=64, mask_id=4, bos_id=2, eos_id=3))
    own = dict(attention_arguments={"sliding_window": 3}, generator_attention_arguments={"sliding_window": 2})
    config = dataclasses.replace(
        text, generator_attention="talking_heads", model_arguments={"initializer_range": 0.1}, **own
    )
    model = make_pretraining(config, tokenizer)
    mine, theirs = (head.encoder.blocks[0].attention for head in (model.discriminator, model.generator))
    assert (type(mine), mine.sliding_window) == (layers.MultiHeadAttention, 3)
    assert (type(theirs), theirs.sliding_window) == (layers.TalkingHeadsAttention, 2)
    assert model.discriminator.encoder.initializer_range == model.generator.encoder.initializer_range == 0.1
    check(dataclasses.replace(config, num_heads=3, model_arguments={"hidden_dim": 48}))


def test_a_modernbert(text):
    """Of any length, by masked tokens alone."""
    small = dict(num_layers=2, hidden_dim=24, intermediate_dim=16)
    own = dict(size="modernbert_base", model_arguments=small, max_length=1024)
    with refused("--objective masked_lm", "electra"):
        dataclasses.replace(text, **own)
    tokenizer = type("Tokenizer", (), dict(vocabulary_size=64, mask_id=4, bos_id=2, eos_id=3))
    model = make_pretraining(dataclasses.replace(text, objective="masked_lm", **own), tokenizer)
    encoder = model.masked_lm.encoder
    assert (type(encoder), encoder.pad_id, encoder.vocabulary_size) == (ModernBert, 0, 64)
    assert [block.attention.sliding_window for block in encoder.blocks] == [None, 65]
    ids = np.random.default_rng(0).integers(5, 64, (2, 600)).astype("int32")
    assert model({"token_ids": ids, "segment_ids": np.zeros_like(ids)})["mask_losses"].shape[0] == 2


def test_the_paper_s_settings():
    """Clark et al. 2020: 13,549,057 parameters of the discriminator, 14,196,219 with the generator."""
    config = named_configs("pretrain")["repulsive_electra_small"]
    assert config.total_steps == 1_000_000
    assert config.repulsive_arguments.items() >= dict(step_size=0.01, repulsive_weight=0.1).items()
    tokenizer = type("Tokenizer", (), dict(vocabulary_size=30_522, mask_id=103, bos_id=101, eos_id=102))
    model = make_pretraining(config, tokenizer)
    assert model.discriminator.count_params() == 13_549_057
    assert sum(int(np.prod(weight.shape)) for weight in model.trainable_weights) == 14_196_219
    schedule = pretraining_optimizer(config).inner_optimizer._learning_rate
    assert [round(float(schedule(step)), 8) for step in (0, 5_000, 500_000)] == [0.0, 0.00024875, 0.00025]
