"""`--lora-rank` of recipes: what a run trains and leaves, and a run that was interrupted."""

import keras
import numpy as np
import pytest

from keras_headattn.interop import from_pretrained, to_hugging_face, weights_by_name
from keras_headattn.models import Bert
from recipes.engine.config import override
from recipes.glue.__main__ import RECIPE
from recipes.glue.settings import GlueConfig
from tests.recipes.commands import train_here

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"]


@pytest.fixture
def config(tmp_path):
    encoder = Bert(len(PIECES), hidden_dim=16, intermediate_dim=16, num_layers=1, num_heads=2, max_length=20)
    encoder.build()
    to_hugging_face(encoder, tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    rows = [f"{('bad', 'good')[label]} {'film ' * size},{label}" for size in range(1, 17) for label in (0, 1)]
    (tmp_path / "films.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    given = dict(train=(str(tmp_path / "films.csv"),), checkpoint=str(tmp_path / "bert"), max_length=20, export=None)
    given |= dict(epochs=2, batch_size=8, num_buckets=1, learning_rate=1e-2, lora_rank=2, lora_alpha=4.0, quiet=True)
    return override(GlueConfig(), given)


def test_a_run_leaves_a_model_without_lora_and_can_be_interrupted(config, tmp_path, monkeypatch):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 3:
                raise KeyboardInterrupt

    weights, history = train_here(RECIPE, override(config, dict(run=str(tmp_path / "whole"))), monkeypatch)
    stopped = override(config, dict(run=str(tmp_path / "stopped"), callback_arguments=dict(save_steps=2)))
    with pytest.raises(KeyboardInterrupt):
        train_here(RECIPE, stopped, monkeypatch, Stop())
    again, logs = train_here(RECIPE, stopped, monkeypatch)
    assert logs == history and len(history) == 2
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_array_equal(one, other)

    model = keras.saving.load_model(tmp_path / "whole" / "model.keras")
    before, after = weights_by_name(from_pretrained(config.checkpoint)), weights_by_name(model.encoder)
    moved = {name for name, weight in before.items() if (np.array(weight) != np.array(after[name])).any()}
    assert moved == {f"block_0/attention/{name}/kernel" for name in ("query", "key", "value", "attention_output")}
    assert before.keys() == after.keys()


def test_runs_with_lora_begin_pretrained():
    assert GlueConfig(built_in=True, size="bert_tiny", pretraining_epochs=1, lora_rank=2).begins_pretrained
