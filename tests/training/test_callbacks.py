"""Callbacks, in a short fit each."""

import re
import types

import keras
import numpy as np
import pytest

from keras_headattn import _terminal as terminal_module
from keras_headattn.training import Compilations, EpochScore, Model, Progress, Throughput, TimeLimit, Utilization
from keras_headattn.training._callbacks import callbacks, progress

X, Y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


def fit(*callbacks, epochs=3, **kwargs):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    options = dict(batch_size=2, verbose=0) | kwargs
    history = model.fit(X, Y, epochs=epochs, callbacks=list(callbacks), **options)
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
    for module in (callbacks, progress):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(perf_counter=read, monotonic=read))
    return clock


def test_throughput_counts_training_time_only(clock):
    history = fit(Throughput(lambda: 100), clock, validation_data=(X, Y))
    assert history["tokens_per_second"] == [100 / 2.0] * 3
    assert history["training_seconds"] == [2.0] * 3


def test_time_limit(clock):
    # An epoch of four batches takes two seconds. Two fit, a third would not.
    assert len(fit(TimeLimit(5.9), clock, epochs=50)["loss"]) == 2
    assert len(fit(TimeLimit(6.1), clock, epochs=50)["loss"]) == 3
    assert len(fit(TimeLimit(0.1), clock, epochs=50)["loss"]) == 1


def test_a_score_can_be_monitored(tmp_path):
    scores = iter([1.0, 3.0, 2.0, 2.5, 2.6])
    stop = keras.callbacks.EarlyStopping("val_bleu", mode="max", patience=2)
    assert fit(EpochScore(lambda model: next(scores)), stop, epochs=5)["val_bleu"] == [1.0, 3.0, 2.0, 2.5]


def test_utilization_is_of_the_peak():
    # 50 tokens a second of 6 operations, of 1,200 that were possible.
    score = EpochScore(lambda model: 50.0, "tokens_per_second")
    assert fit(score, Utilization(6, 1200), epochs=1)["flops_utilization"] == [0.25]
    assert "flops_utilization" not in fit(Utilization(6, 1200), epochs=1)


class Lengths(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return np.ones((2, 4 + index), "float32"), np.ones((2, 1), "float32")


def test_one_graph_serves_all_lengths(capsys):
    inputs = keras.Input((None,))
    mean = keras.layers.Lambda(lambda x: keras.ops.mean(x, axis=1, keepdims=True))(inputs)
    model = Model(inputs, keras.layers.Dense(1)(mean))
    model.compile("sgd", "mse")
    history = model.fit(Lengths(), epochs=2, validation_data=Lengths(), verbose=2, callbacks=[Compilations()])
    assert history.history["compilations"] == [1, 1]
    assert "Graphs made for training steps: 1\n" in capsys.readouterr().out
    counts = []
    for length in (4, 4, 5, 6):  # the second shape brings a graph for any length
        model.train_on_batch(np.ones((2, length)), np.ones((2, 1)))
        counts.append(model.num_traces - 1)
    assert counts == [1, 1, 2, 2]


def scores(clock):
    """What recipes log: an epoch of four batches takes 202 seconds with its score."""

    def score(model):
        clock.now += 200.0
        return 23456.7

    return [clock, EpochScore(score, "rate"), EpochScore(lambda model: 1, "compilations")]


@pytest.mark.parametrize("verbose", ["auto", 2])
def test_a_log_has_one_plain_line_an_epoch(clock, capsys, verbose):
    fit(*scores(clock), Progress(), verbose=verbose, validation_data=(X, Y))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" - ")[0] for line in lines] == [
        "Epoch 1/3: 5 min, about 10 min left",
        "Epoch 2/3: 5 min, about 5 min left",
        "Epoch 3/3: 5 min",
    ]
    assert all(re.fullmatch(r".* - loss [\d.e-]+ - val_loss [\d.e-]+ - rate 23,457", line) for line in lines), lines


@pytest.fixture
def terminal(monkeypatch):
    stdout = types.SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(terminal_module, "sys", types.SimpleNamespace(stdout=stdout, modules={}))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_has_a_bar_and_the_time_left(clock, capsys, terminal):
    fit(*scores(clock), Progress(leave_out=["rate", "loss"]), verbose="auto")
    out = capsys.readouterr().out
    assert "\r" in out and "compilations" in out and "rate" not in out and "loss" not in out
    assert re.findall(r"^.*Epoch .*$", out, re.MULTILINE) == [
        "Epoch 1/3",
        "About 7 min left. Epoch 2/3",
        "About 3 min left. Epoch 3/3",
    ]


@pytest.mark.parametrize("name, value", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_terminals_without_colours_have_lines(clock, capsys, terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    fit(Progress(), verbose="auto", epochs=1)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Epoch 1/1: ") and line.isprintable()


def test_a_silent_fit_has_no_lines(capsys):
    fit(Progress(), verbose=0)
    assert capsys.readouterr().out == ""
