"""KerasTuner chooses among attentions by name."""

import keras
import numpy as np
import pytest

from keras_headattn.models import Bert, EncoderClassifier

keras_tuner = pytest.importorskip("keras_tuner", reason="needs keras-tuner")
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated, :DeprecationWarning")
ATTENTIONS = ["multi_head", "talking_heads"]
IDS = np.random.default_rng(0).integers(1, 20, (4, 5)).astype("int32")


def build(hp):
    attention = hp.Choice("attention", ATTENTIONS)
    encoder = Bert(20, hidden_dim=8, intermediate_dim=16, num_layers=1, num_heads=2, attention=attention, max_length=8)
    model = EncoderClassifier(encoder, 2)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, run_eagerly=True)
    return model


def test_a_search_over_attentions(tmp_path):
    tuner = keras_tuner.GridSearch(build, "val_loss", max_trials=4, directory=tmp_path, project_name="search")
    labels = np.array([0, 1, 1, 0])
    tuner.search(IDS, labels, validation_data=(IDS, labels), epochs=1, verbose=0)
    tried = {trial.hyperparameters.get("attention") for trial in tuner.oracle.trials.values()}
    assert tried == {*ATTENTIONS}
    assert build(tuner.get_best_hyperparameters()[0])(IDS).shape == (4, 2)
