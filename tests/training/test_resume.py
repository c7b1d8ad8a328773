"""A run that was interrupted ends as one that was not, bit for bit."""

import os
import random
import signal
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.optimizers import Repulsive
from keras_headattn.training import Model, Resume, make_strategy
from keras_headattn.training._resume.snapshot import rate_of
from tests.training.resuming import Kill, Killed, X, Y, fit, simple

STEPS, EPOCHS = 6, 3


class Shuffled(keras.utils.PyDataset):
    """Batches of four rows, the last one of two, in an order that is a function of the epoch."""

    epoch = 0

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        rows = np.random.default_rng(self.epoch).permutation(len(X))[4 * index : 4 * index + 4]
        return X[rows], Y[rows]


def make_model(replicas, jit_compile=False, steps_per_execution=1):
    """All that has a state: dropout, moving statistics, moments, averages, a loss scale, metrics."""
    with make_strategy(replicas).scope():
        inputs = keras.Input((4,))
        x = keras.layers.Dense(8)(inputs)
        x = keras.layers.Dropout(0.3, seed=5)(keras.layers.BatchNormalization()(x))
        model = Model(inputs, keras.layers.Dense(2)(x))
        optimizer = keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=4, gradient_accumulation_steps=2)
        model.compile(
            keras.optimizers.LossScaleOptimizer(optimizer, dynamic_growth_steps=5),
            "mse",
            metrics=["mae"],
            jit_compile=jit_compile,
            steps_per_execution=steps_per_execution,
        )
    return model


def train(folder, model, every=2, kill=None, epochs=EPOCHS, **options):
    """Trains with callbacks that remember, and returns all there is at the end."""
    keras.utils.set_random_seed(len(list(folder.glob("*"))))  # another one after an interruption
    data = Shuffled()
    callbacks = [
        keras.callbacks.EarlyStopping("val_mae", patience=2, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("val_mae", patience=1, min_delta=0.5),
        kill or Kill(),
    ]
    history = model.fit(
        data,
        validation_data=(X, Y),
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[Resume(folder, data, callbacks, every=every, **options)],
    ).history
    return model.get_weights(), [variable.numpy() for variable in model.optimizer.variables], history


def assert_identical(found, expected):
    for ours, theirs in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert found[2] == expected[2]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    expected = {}

    def run(**options):
        key = tuple(options.items())
        if key not in expected:
            keras.utils.set_random_seed(1)
            model = make_model(**options)
            start = model.get_weights()
            expected[key] = start, train(tmp_path_factory.mktemp("run"), model)
        return expected[key]

    return run


# What the process had done since the last interruption, and what it was doing. 18 steps, or 6 groups of up to 4.
POINTS = [(3, "on_train_batch_end"), (4, "on_test_batch_end"), (5, "on_train_batch_end"), (2, "on_epoch_end")]
POINTS_OF_GROUPS = [(1, "on_train_batch_end"), (2, "on_test_batch_end"), (2, "on_epoch_end")]
SETTINGS = [
    (dict(replicas=1), POINTS),
    (dict(replicas=1, steps_per_execution=4), POINTS_OF_GROUPS),
    (dict(replicas=2, jit_compile=True), POINTS[:1]),
]


@pytest.mark.parametrize("setting, points", SETTINGS, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_interrupted_everywhere(uninterrupted, tmp_path, setting, points):
    start, expected = uninterrupted(**setting)
    model = make_model(**setting)
    model.set_weights(start)
    for left, event in points:
        with pytest.raises(Killed):
            train(tmp_path, model, kill=Kill(left, event))
        model = make_model(**setting)
    assert_identical(train(tmp_path, model), expected)


def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(uninterrupted, tmp_path):
    start, expected = uninterrupted(replicas=1)
    model = make_model(replicas=1)
    model.set_weights(start)
    with pytest.raises(Killed):
        train(tmp_path, model, kill=Kill(4, "on_epoch_end"))
    newest = max(tmp_path.glob("epoch-*.npz"))
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged.*before it is used"):
        found = train(tmp_path, make_model(replicas=1))
    assert_identical(found, expected)


def test_a_finished_run_goes_on_with_more_epochs(tmp_path):
    whole = simple(optimizer=keras.optimizers.SGD(0.1, use_ema=True))
    start = whole.get_weights()
    expected = fit(whole, tmp_path / "whole", epochs=3).history
    for epochs in (2, 3, 3):
        model = simple(optimizer=keras.optimizers.SGD(0.1, use_ema=True))
        model.set_weights(start)
        history = fit(model, tmp_path / "parts", epochs).history
    assert history == expected
    np.testing.assert_array_equal(model.get_weights()[0], whole.get_weights()[0])


def test_epochs_that_do_not_begin_at_zero(tmp_path):
    def epochs(name, last):
        callbacks = [Resume(tmp_path / name)]
        options = dict(batch_size=4, initial_epoch=3, epochs=last, shuffle=False, verbose=0, callbacks=callbacks)
        return simple().fit(X, Y, **options).epoch

    assert epochs("parts", 5) == [3, 4] and epochs("parts", 6) == [3, 4, 5]
    with pytest.raises(Killed):
        fit(simple(), tmp_path / "killed", 5, [Kill(1, "on_train_batch_end")], initial_epoch=3)
    assert epochs("killed", 5) == [3, 4]


def test_another_learning_rate_holds(tmp_path):
    def rate(given, epochs, *callbacks):
        model = simple(optimizer=keras.optimizers.SGD(given))
        fit(model, tmp_path, epochs, callbacks)
        return float(model.optimizer.learning_rate)

    halve = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: halved(halve.model.optimizer))
    assert rate(0.25, 1, halve) == 0.125
    assert rate(0.25, 2) == 0.125  # as it was
    assert rate(0.5, 3) == 0.5
    assert rate(0.5, 3) == 0.5
    assert rate_of(keras.optimizers.LossScaleOptimizer(Repulsive(keras.optimizers.SGD(0.25)))) == 0.25


def halved(optimizer):
    optimizer.learning_rate = optimizer.learning_rate / 2


def test_data_know_the_epoch(tmp_path):
    """Recorded at each step: Keras may read batches ahead."""
    for expected in ([0, 1], [2]):
        data, epochs = Shuffled(), []
        note = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda step, logs: epochs.append(data.epoch))  # noqa: B023
        callbacks = [Resume(tmp_path, data), note]
        simple().fit(data, epochs=expected[-1] + 1, shuffle=False, verbose=0, callbacks=callbacks)
        assert epochs == sorted(expected * STEPS)


class Send(Kill):
    """Sends the process a signal where `Kill` ends it."""

    def __init__(self, number, *when):
        super().__init__(*when)
        self.number = number

    def _at(self, event):
        if self.steps.left <= 0 and event == self.event:
            os.kill(os.getpid(), self.number)


@pytest.fixture(autouse=True)
def hears_interrupts():
    """A command in the background of a shell ignores Ctrl-C."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


INTERRUPTED, TERMINATED = (signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)
# After how many steps of the process, at what event; the epoch and the batch that are saved then.
SIGNALS = [
    (INTERRUPTED, 3, "on_train_batch_end", (0, 3)),
    (INTERRUPTED, 3, "on_test_batch_end", (0, 6)),
    (TERMINATED, 0, "on_test_batch_end", (0, 6)),
    (INTERRUPTED, 0, "on_epoch_end", (0, 6)),
    (TERMINATED, 6, "on_epoch_end", (1, 6)),
    (TERMINATED, 1, "on_train_batch_end", (2, 1)),
]


def test_a_signal_saves_the_exact_step(uninterrupted, tmp_path, capsys):
    start, expected = uninterrupted(replicas=1)
    model = make_model(replicas=1)
    model.set_weights(start)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    done = 0
    for (number, error), steps, event, (epoch, batch) in SIGNALS:
        send = Send(number, steps, event)
        with pytest.raises(error) as ended:
            train(tmp_path, model, every=None, kill=send)
        assert error is KeyboardInterrupt or ended.value.code == 143
        assert max(tmp_path.glob("epoch-*")).name == f"epoch-{epoch:05d}-batch-{batch:08d}.npz"
        assert "Saving, then training ends" in capsys.readouterr().err
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
        done += steps - send.steps.left
        model = make_model(replicas=1)
    last = Kill()
    assert_identical(train(tmp_path, model, every=None, kill=last), expected)
    assert done + 1000 - last.steps.left == EPOCHS * STEPS


@pytest.mark.parametrize("number, error", [INTERRUPTED, TERMINATED])
def test_a_second_signal_ends_at_once(tmp_path, terminated, number, error):
    class Twice(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            os.kill(os.getpid(), number)
            assert not terminated
            os.kill(os.getpid(), number)
            raise SystemExit(len(terminated))

    with pytest.raises(error) as ended:
        fit(simple(), tmp_path, callbacks=[Twice()])
    assert error is KeyboardInterrupt or ended.value.code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["epoch-00000-batch-00000000.npz"]


def test_a_signal_while_steps_are_skipped_keeps_what_is_saved(tmp_path):
    """And the same model goes on."""
    whole = simple()
    start = whole.get_weights()
    expected = fit(whole, tmp_path / "whole").history
    model = simple()
    model.set_weights(start)
    with pytest.raises(KeyboardInterrupt):
        fit(model, tmp_path / "parts", callbacks=[Send(signal.SIGINT, 4, "on_train_batch_end")])
    before = {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()}
    resume = Resume(tmp_path / "parts")
    interrupt = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: batch == 1 and os.kill(os.getpid(), signal.SIGINT)
    )
    options = dict(batch_size=4, shuffle=False, verbose=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, callbacks=[resume, interrupt], **options)
    assert {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()} == before
    assert model.fit(X, Y, callbacks=[resume], **options).history == expected
    np.testing.assert_array_equal(model.get_weights()[0], whole.get_weights()[0])


@pytest.mark.parametrize("epoch", [0, 1])
def test_callbacks_after_resume_hear_of_the_epoch_before_a_signal_ends_training(tmp_path, epoch):
    heard = []

    class Hear(keras.callbacks.Callback):
        def on_epoch_end(self, number, logs=None):
            if number == epoch:
                os.kill(os.getpid(), signal.SIGTERM)
            heard.append(number)

    options = dict(batch_size=4, epochs=2, shuffle=False, verbose=0)
    with pytest.raises(SystemExit) as ended:
        simple().fit(X, Y, callbacks=[Resume(tmp_path), Hear()], **options)
    assert ended.value.code == 143
    epoch = None
    simple().fit(X, Y, callbacks=[Resume(tmp_path), Hear()], **options)
    assert heard == [0, 1]


def test_signals_that_are_ignored_stay_so(tmp_path):
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        fit(simple(), tmp_path, callbacks=[Send(signal.SIGINT, 1, "on_train_batch_end")])
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


def test_in_another_thread_signals_are_left_alone(tmp_path):
    before, during = signal.getsignal(signal.SIGINT), []
    look = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: during.append(signal.getsignal(signal.SIGINT))
    )
    model = simple()
    thread = threading.Thread(target=fit, args=(model, tmp_path), kwargs=dict(callbacks=[look]))
    thread.start()
    thread.join()
    assert during == [before] * STEPS


def test_a_run_that_was_stopped_early_stays_so(tmp_path):
    for _ in range(2):
        stop = keras.callbacks.EarlyStopping("loss", patience=1, min_delta=100.0)
        history = fit(simple(), tmp_path, epochs=5, callbacks=[stop]).history
        assert len(history["loss"]) == 2


def test_callbacks_may_come_and_go(tmp_path):
    remembered, new = keras.callbacks.EarlyStopping("loss", restore_best_weights=True), Kill()
    stop = keras.callbacks.EarlyStopping("loss", restore_best_weights=True)
    fit(simple(), tmp_path, epochs=1, callbacks=[stop, Kill()])
    fit(simple(), tmp_path, epochs=1, callbacks=[new, remembered])
    assert remembered.best < np.inf and remembered.best_weights
    assert len(fit(simple(), tmp_path, epochs=2, callbacks=[new]).history["loss"]) == 2


class Counter(keras.callbacks.Callback):
    """Counts steps in an attribute that has the name of an argument, beside settings that stay."""

    def __init__(self, seen=0, limits=(np.nan, 5), scale=None):
        super().__init__()
        self.seen, self.limits, self.scale = seen, limits, scale

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1


class NamedCounter(Counter):
    """Hands its arguments on."""

    def __init__(self, name, **arguments):
        super().__init__(**arguments)
        self.name = name


@pytest.mark.parametrize("make", [Counter, lambda **arguments: NamedCounter("a", **arguments)])
def test_a_counter_with_the_name_of_an_argument_goes_on_and_a_changed_setting_holds(tmp_path, make):
    with pytest.raises(Killed):
        fit(simple(), tmp_path, 3, every=1, callbacks=[make(scale=np.ones(2)), Kill(9, "on_train_batch_end")])
    again = make(limits=(np.nan, 10), scale=np.zeros(2))
    with pytest.raises(Killed):
        fit(simple(), tmp_path, 3, every=1, callbacks=[again, Kill(4, "on_train_batch_end")])
    assert (again.seen, again.limits[1]) == (8 + 4, 10)
    np.testing.assert_array_equal(again.scale, np.zeros(2))
    fit(simple(), tmp_path, 3, every=1, callbacks=[again])  # begins with 12 seen, and goes on after 11
    assert again.seen == 3 * STEPS
    last = make()
    fit(simple(), tmp_path, 3, every=1, callbacks=[last])
    assert (last.seen, last.limits[1], last.scale) == (3 * STEPS, 5, None)


def test_a_counter_that_was_restored_is_saved_whatever_its_value(tmp_path):
    counter = Counter()
    with pytest.raises(Killed):
        fit(simple(), tmp_path, 3, every=5, callbacks=[counter, Kill(7, "on_train_batch_end")])
    assert counter.seen == 7
    with pytest.raises(Killed):  # the same object: of 7 steps 6 are restored, and at the next save there are 11
        fit(simple(), tmp_path, 3, every=1, callbacks=[counter, Kill(2, "on_train_batch_end")])
    counter = Counter()
    fit(simple(), tmp_path, 3, every=1, callbacks=[counter])
    assert counter.seen == 3 * STEPS


class Draws(keras.callbacks.Callback):
    """Draws from the generators of NumPy and of Python after each step."""

    def __init__(self):
        super().__init__()
        self.drawn = []

    def on_train_batch_end(self, batch, logs=None):
        self.drawn.append([float(np.random.random()), random.random()])


def test_generators_of_numpy_and_python(tmp_path):
    def train(folder, seed, *callbacks):
        keras.utils.set_random_seed(seed)
        draws = Draws()
        fit(simple(), folder, 3, every=1, callbacks=[draws, *callbacks])
        return draws.drawn

    expected = train(tmp_path / "whole", 1)
    with pytest.raises(Killed):
        train(tmp_path / "parts", 1, Kill(2, "on_train_batch_end"))
    assert train(tmp_path / "parts", 2) == expected


class Noise(keras.layers.Layer):
    """Draws from Keras's global generator."""

    def call(self, x):
        return x + keras.random.normal(keras.ops.shape(x), stddev=0.1)


@pytest.mark.parametrize("is_used_before", [True, False])
@pytest.mark.parametrize("left", [1, 9])
def test_keras_global_generator(tmp_path, is_used_before, left):
    def train(folder, seed, kill=None):
        inputs = keras.Input((4,))
        model = keras.Model(inputs, keras.layers.Dense(2, kernel_initializer="ones")(Noise()(inputs)))
        model.compile("sgd", "mse")
        keras.utils.set_random_seed(seed)  # forgets the generator
        if is_used_before:
            keras.random.normal((1,))
        fit(model, folder, epochs=3, every=1, callbacks=[kill or Kill()])
        return model.get_weights()

    expected = train(tmp_path / "whole", 1)
    with pytest.raises(Killed):
        train(tmp_path / "parts", 1, Kill(left, "on_train_batch_end"))
    for ours, theirs in zip(train(tmp_path / "parts", 2), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X[:4], Y[:4]


DATA = {
    "arrays": lambda: dict(x=X, y=Y),
    "tensors": lambda: dict(x=keras.ops.array(X), y=keras.ops.array(Y)),
    "part": lambda: dict(x=X, y=Y, validation_split=0.5),
    "PyDataset": lambda: dict(x=Batches()),
    "Dataset": lambda: dict(x=tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)),
}


@pytest.mark.parametrize("cls", [keras.Model, Model])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("options", [{}, {"shuffle": False}], ids=str)
def test_shuffling_by_fit_is_warned_of(tmp_path, recwarn, cls, data, options):
    inputs = keras.Input((4,))
    model = cls(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(**DATA[data](), **options, epochs=1, verbose=0, callbacks=[Resume(tmp_path)])
    found = [str(warning.message) for warning in recwarn if "another process cannot repeat" in str(warning.message)]
    assert len(found) == (options.get("shuffle", True) and data != "Dataset")


class Losses(keras.callbacks.Callback):
    """Remembers in a list that it goes on changing, while validation and the writing of checkpoints go on."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])

    def on_test_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def test_what_is_saved_is_of_its_step(tmp_path):
    whole, parts = Losses(), Losses()
    model = simple()
    start = model.get_weights()
    options = dict(batch_size=4, epochs=2, shuffle=False, verbose=0, validation_data=(X, Y), validation_batch_size=4)
    model.fit(X, Y, callbacks=[whole], **options)

    terminate = keras.callbacks.LambdaCallback(
        on_test_batch_end=lambda batch, logs: os.kill(os.getpid(), signal.SIGTERM)
    )
    model = simple()
    model.set_weights(start)
    with pytest.raises(SystemExit):
        model.fit(X, Y, callbacks=[Resume(tmp_path, callbacks=[Losses(), terminate])], **options)
    simple().fit(X, Y, callbacks=[Resume(tmp_path, callbacks=[parts])], **options)
    assert parts.losses == whole.losses


@pytest.fixture
def terminated():
    """A list that gets an item at each SIGTERM."""
    heard = []
    handler = signal.signal(signal.SIGTERM, lambda *_: heard.append(True))
    yield heard
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("left", [2, 6])
def test_fit_after_one_that_an_exception_ended(tmp_path, terminated, left):
    """It trains, whether the other one had gone on with new steps or still skipped old ones. SIGTERM acts as before."""

    class Stop(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

    with pytest.raises(Killed):
        fit(simple(), tmp_path, 3, every=1, callbacks=[Kill(10, "on_train_batch_end")])
    model = simple()
    with pytest.raises(KeyboardInterrupt):
        resume = Resume(tmp_path, every=1)
        model.fit(X, Y, batch_size=4, epochs=3, shuffle=False, verbose=0, callbacks=[resume, Stop()])
    resume._finish_writing()
    before = model.get_weights()[0]
    interrupt = keras.callbacks.LambdaCallback(on_train_end=lambda logs: os.kill(os.getpid(), signal.SIGTERM))
    assert len(model.fit(X, Y, batch_size=4, verbose=0, callbacks=[interrupt]).history["loss"]) == 1
    assert not np.array_equal(model.get_weights()[0], before)
    assert len(terminated) == 1
    for _ in range(2):  # the second time no `fit` has caught anything since
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            os.getpid()  # a handler runs before the next call at the latest


def test_a_resume_that_an_exception_ended_is_used_again(tmp_path, terminated):
    resume = Resume(tmp_path, callbacks=[Kill(2, "on_train_batch_end")])
    options = dict(batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[resume])
    with pytest.raises(Killed):
        simple().fit(X, Y, **options)
    resume.callbacks[0].event = None
    simple().fit(X, Y, **options)
    os.kill(os.getpid(), signal.SIGTERM)
    assert len(terminated) == 1


def test_metrics_that_are_not_one_number(tmp_path):
    def train(folder, kill):
        inputs = keras.Input((4,))
        model = keras.Model(inputs, keras.layers.Dense(2, "sigmoid", kernel_initializer="ones")(inputs))
        model.compile("sgd", "mse", metrics=[keras.metrics.F1Score(threshold=0.5)])
        resume = Resume(folder, callbacks=[kill], every=2)
        options = dict(batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[resume])
        try:
            return model.fit(X, (Y > 0).astype("float32"), **options).history["f1_score"]
        finally:
            resume._finish_writing()

    expected = train(tmp_path / "whole", Kill())
    with pytest.raises(Killed):
        train(tmp_path / "parts", Kill(9, "on_train_batch_end"))
    found = train(tmp_path / "parts", Kill())
    assert np.shape(found) == (2, 2)
    np.testing.assert_array_equal(found, expected)
