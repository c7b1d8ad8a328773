"""Every callback of Keras works with `training.Model`; one that a new version of Keras adds needs a case here."""

import functools
import http.server
import json
import threading

import keras
import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.training import Model, make_strategy

X = np.random.default_rng(0).normal(size=(8, 5, 4)).astype("float32")
Y = X.sum(2)
# Not for `callbacks=`, or made by `fit` itself.
BASES = {"Callback", "CallbackList", "History", "ProgbarLogger"}


def fit(callback, replicas=1, epochs=3, **arguments):
    with make_strategy(replicas).scope():
        inputs = keras.Input((5, 4))
        x = layers.TalkingHeadsAttention(num_heads=2, key_dim=3)(inputs, inputs)
        model = Model(inputs, keras.layers.Dense(1)(x)[..., 0])
        optimizer = keras.optimizers.SGD(arguments.pop("rate", 0.01), use_ema=arguments.pop("use_ema", False))
        model.compile(optimizer, "mse", run_eagerly=replicas == 1)
    arguments = {"y": Y, "batch_size": 4, "shuffle": False, "verbose": 0, **arguments}
    model.fit(X, epochs=epochs, callbacks=[callback], validation_data=(X, Y), **arguments)
    return model


def backup_and_restore(folder, fit):
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    callback = lambda: keras.callbacks.BackupAndRestore(folder)  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        fit(keras.callbacks.CallbackList([callback(), Stop()]))
    assert fit(callback()).history.epoch == [2]


def csv_logger(folder, fit):
    model = fit(keras.callbacks.CSVLogger(folder / "log.csv"))
    rows = np.genfromtxt(folder / "log.csv", delimiter=",", names=True)
    np.testing.assert_allclose(rows["val_loss"], model.history.history["val_loss"], rtol=1e-6)


def early_stopping(folder, fit):
    model = fit(keras.callbacks.EarlyStopping("loss", min_delta=1e6, patience=1, restore_best_weights=True), epochs=5)
    assert model.history.epoch == [0, 1]


def lambda_callback(folder, fit):
    batches = []
    fit(keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: batches.append(batch)), epochs=1)
    assert batches == [0, 1]


def learning_rate_scheduler(folder, fit):
    model = fit(keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)))
    np.testing.assert_allclose(model.history.history["learning_rate"], [0.1, 0.05, 0.1 / 3], rtol=1e-6)


def model_checkpoint(folder, fit):
    model = fit(keras.callbacks.ModelCheckpoint(folder / "model.keras"))
    loaded = keras.saving.load_model(folder / "model.keras")
    np.testing.assert_allclose(loaded.predict(X, verbose=0), model.predict(X, verbose=0), rtol=1e-5, atol=1e-6)


def orbax_checkpoint(folder, fit):
    pytest.importorskip("orbax.checkpoint", reason="needs orbax-checkpoint")
    fit(keras.callbacks.OrbaxCheckpoint(folder / "orbax", save_on_background=False))
    assert any((folder / "orbax").iterdir())


def reduce_lr_on_plateau(folder, fit):
    model = fit(keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=1e6))
    np.testing.assert_allclose(model.history.history["learning_rate"], [0.01, 0.01, 0.005], rtol=1e-6)


def remote_monitor(folder, fit):
    pytest.importorskip("requests", reason="RemoteMonitor needs requests")
    received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model = fit(keras.callbacks.RemoteMonitor(f"http://127.0.0.1:{server.server_port}", send_as_json=True))
        server.shutdown()
    assert [sent["loss"] for sent in received] == pytest.approx(model.history.history["loss"])


def swap_ema_weights(folder, fit):
    class Look(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            averages = [v for v in self.model.optimizer.variables if "average" in v.path]
            assert averages
            during.append([np.array(self.model.trainable_variables[0]), np.array(averages[0])])

    during = []
    fit(keras.callbacks.CallbackList([keras.callbacks.SwapEMAWeights(swap_on_epoch=True), Look()]), use_ema=True)
    assert not np.array_equal(*during[0])


def tensorboard(folder, fit):
    fit(keras.callbacks.TensorBoard(folder, histogram_freq=1, write_graph=False, profile_batch=0))
    assert {path.name for path in folder.iterdir()} == {"train", "validation"}


def terminate_on_nan(folder, fit):
    assert len(fit(keras.callbacks.TerminateOnNaN(), rate=1e30).history.epoch) < 3


CASES = {
    "BackupAndRestore": backup_and_restore,
    "CSVLogger": csv_logger,
    "EarlyStopping": early_stopping,
    "LambdaCallback": lambda_callback,
    "LearningRateScheduler": learning_rate_scheduler,
    "ModelCheckpoint": model_checkpoint,
    "OrbaxCheckpoint": orbax_checkpoint,
    "ReduceLROnPlateau": reduce_lr_on_plateau,
    "RemoteMonitor": remote_monitor,
    "SwapEMAWeights": swap_ema_weights,
    "TensorBoard": tensorboard,
    "TerminateOnNaN": terminate_on_nan,
}


def test_every_callback_of_keras_has_a_case():
    assert {name for name in dir(keras.callbacks) if name[0].isupper()} == CASES.keys() | BASES


@pytest.mark.parametrize("name", ["ReduceLROnPlateau", "SwapEMAWeights"])
def test_on_two_replicas(name, tmp_path):
    CASES[name](tmp_path, functools.partial(fit, replicas=2))


@pytest.mark.parametrize("name", CASES)
def test_on_one_replica(name, tmp_path):
    CASES[name](tmp_path, fit)
