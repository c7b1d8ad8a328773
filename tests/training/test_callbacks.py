"""Callbacks, in a short fit each."""

import sys
import types

import keras
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from keras_headattn.training import AttentionImages, EpochScore, Throughput, TimeLimit, callbacks

X, Y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


def fit(*callbacks, epochs=3, **kwargs):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(X, Y, batch_size=2, epochs=epochs, callbacks=list(callbacks), verbose=0, **kwargs)
    return history.history


class Clock(keras.callbacks.Callback):
    """A training batch takes half a second, a validation 100."""

    now = 0.0

    def on_train_batch_begin(self, batch, logs=None):
        self.now += 0.5

    def on_test_begin(self, logs=None):
        self.now += 100.0


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    read = lambda: clock.now  # noqa: E731
    monkeypatch.setattr(callbacks, "time", types.SimpleNamespace(perf_counter=read, monotonic=read))
    return clock


def test_throughput_counts_training_time_only(clock):
    history = fit(Throughput(lambda: 100), clock, validation_data=(X, Y))
    assert history["tokens_per_second"] == [100 / 2.0] * 3


def test_time_limit(clock):
    # An epoch of four batches takes two seconds. Two fit, a third would not.
    assert len(fit(TimeLimit(5.9), clock, epochs=50)["loss"]) == 2
    assert len(fit(TimeLimit(6.1), clock, epochs=50)["loss"]) == 3
    assert len(fit(TimeLimit(0.1), clock, epochs=50)["loss"]) == 1
    with pytest.raises(ValueError, match="positive.*Received: seconds=0"):
        TimeLimit(0)


def test_a_score_can_be_monitored(tmp_path):
    scores = iter([1.0, 3.0, 2.0, 2.5, 2.6])
    stop = keras.callbacks.EarlyStopping("val_bleu", mode="max", patience=2)
    assert fit(EpochScore(lambda model: next(scores)), stop, epochs=5)["val_bleu"] == [1.0, 3.0, 2.0, 2.5]


def test_attention_images(tmp_path):
    maps = np.random.default_rng(0).uniform(size=(2, 3, 4, 5))
    queries, keys = [["ein", "Haus"], ["das", "Haus", "ist", "alt"]], [["a", "house", "</s>"], list("abcde")]
    fit(AttentionImages(tmp_path, lambda model: (maps, queries, keys), every=2), epochs=4)
    events = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0}).Reload()
    assert sorted(events.Tags()["tensors"]) == ["attention/0", "attention/1"]
    assert [event.step for event in events.Tensors("attention/1")] == [1, 3]
    small, large = (events.Tensors(f"attention/{index}")[0].tensor_proto.string_val for index in (0, 1))
    assert int(large[0]) > 2 * int(large[1]) and large[2].startswith(b"\x89PNG")
    assert int(small[0]) < int(large[0])  # padding is not drawn


def test_many_heads_are_drawn_in_rows_and_some_left_out():
    queries, keys = ["a", "b"], ["c"]
    height, width, _ = callbacks._draw(np.ones((8, 2, 1)), queries, keys).shape
    assert callbacks._draw(np.ones((9, 2, 1)), queries, keys).shape == (2 * height, width, 4)
    assert callbacks._draw(np.ones((64, 2, 1)), queries, keys).shape == (2 * height, width, 4)


def test_matplotlib_is_asked_for_at_once(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras_headattn\[recipes\]"):
        AttentionImages(tmp_path, None)


def test_tensorboard_and_hparams_are_the_stock_ones(tmp_path):
    """What this package leaves to others: the learning rate and hyperparameters in TensorBoard."""
    hparams = pytest.importorskip("tensorboard.plugins.hparams.api")
    score = EpochScore(lambda model: 1.0)
    fit(score, keras.callbacks.TensorBoard(tmp_path), hparams.KerasCallback(str(tmp_path), {"heads": 8}))
    assert "_hparams_/session_start_info" in EventAccumulator(str(tmp_path)).Reload().Tags()["tensors"]
    for run, tag in (("train", "epoch_learning_rate"), ("validation", "epoch_bleu")):
        assert tag in EventAccumulator(str(tmp_path / run)).Reload().Tags()["tensors"]
