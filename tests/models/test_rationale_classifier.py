"""The model of rationales against slow NumPy, windows against whole texts, and what is trained."""

import keras
import numpy as np
import pytest

from keras_headattn.models import Bert, RationaleClassifier, RationaleReader

SIZES = dict(hidden_dim=8, intermediate_dim=16, num_layers=3, num_heads=2, pooler=False)
WIDTHS = dict(lstm_dim=3, pooling_dim=5, hidden_dim=4)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    model = RationaleClassifier(Bert(20, attention="evolving", **SIZES), 2, **WIDTHS)
    model.build()
    model.reader.mix_logits.assign([0.3, -0.2, 1.0])
    return model


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slow_lstm(x, kernel, recurrent, bias):
    """Keras's LSTM, its gates in the order i, f, c, o."""
    h = c = np.zeros(len(recurrent))
    rows = []
    for row in x:
        i, f, g, o = np.split(row @ kernel + h @ recurrent + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.array(rows)


def slow_reader(reader, states):
    shares = np.exp(reader.mix_logits.numpy()) / np.exp(reader.mix_logits.numpy()).sum()
    x = np.einsum("nld,l->nd", states, shares)
    forward, backward = (
        [weight.numpy() for weight in layer.weights]
        for layer in (reader.bilstm.forward_layer, reader.bilstm.backward_layer)
    )
    x = np.concatenate([slow_lstm(x, *forward), slow_lstm(x[::-1], *backward)[::-1]], axis=1)
    logits = np.tanh(x @ reader.pooling.hidden_kernel.numpy()) @ reader.pooling.head_kernel.numpy()
    weights = np.exp(logits[:, 0]) / np.exp(logits[:, 0]).sum()
    hidden, last = ([weight.numpy() for weight in layer.weights] for layer in (reader.hidden, reader.output_projection))
    return np.maximum(weights @ x @ hidden[0] + hidden[1], 0) @ last[0] + last[1], weights


def test_the_reader_is_the_formula(model):
    states = np.random.default_rng(0).normal(size=(2, 1, 6, 3, 8)).astype("float32")
    mask = np.array([[[True] * 6], [[True] * 4 + [False] * 2]])
    logits, out = model.reader({"states": states, "mask": mask}, return_intermediates=True)
    for row, length in enumerate((6, 4)):
        expected, weights = slow_reader(model.reader, states[row, 0, :length])
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
        np.testing.assert_allclose(out["pooling"]["weights"][row, 0, :length], weights, atol=1e-6)


def test_windows_and_kept_states_agree(model):
    token_ids = np.random.default_rng(1).integers(1, 20, (2, 1, 2, 6))
    token_ids[1, 0, 1, 3:] = 0
    places = np.array([[[0, 2, 5, 7]], [[1, 8, -1, -1]]])
    whole = model({"token_ids": token_ids, "places": places})
    states = model.piece_states(token_ids.reshape(4, 6)).numpy().reshape(2, 12, 3, 8)
    kept = np.zeros((2, 1, 4, 3, 8), "float16")
    kept[0, 0] = states[0, [0, 2, 5, 7]]
    kept[1, 0, :2] = states[1, [1, 8]]
    found = model.reader({"states": kept, "mask": places >= 0})
    np.testing.assert_allclose(found, whole, atol=1e-3)  # float16
    last = model.encoder(token_ids.reshape(4, 6))["sequence_output"].numpy().reshape(2, 12, 8)
    np.testing.assert_allclose(states[:, :9, -1], last[:, :9], atol=1e-5)


def test_choices_are_classes(model):
    reader = RationaleReader(1, 3, **WIDTHS)
    states = np.random.default_rng(0).normal(size=(2, 4, 5, 3, 8)).astype("float32")
    logits = reader({"states": states, "mask": np.ones((2, 4, 5), bool)})
    assert logits.shape == (2, 4)
    alone = reader({"states": states[:, 2:3], "mask": np.ones((2, 1, 5), bool)})
    np.testing.assert_allclose(logits[:, 2:3], alone, atol=1e-6)


def test_top_layers_are_trained_and_the_model_is_saved(tmp_path):
    model = RationaleClassifier(Bert(20, **SIZES), 2, trainable_layers=1, **WIDTHS)
    inputs = {"token_ids": np.ones((1, 1, 1, 4), "int32"), "places": np.array([[[1, 2]]])}
    expected = model(inputs)
    blocks = {weight.path.split("/")[-3] for weight in model.encoder.trainable_variables}
    assert len(model.encoder.trainable_variables) == 16 and blocks
    assert all("block_2" in weight.path for weight in model.encoder.trainable_variables)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(inputs), expected, atol=1e-6)
    assert len(again.trainable_variables) == len(model.trainable_variables)
