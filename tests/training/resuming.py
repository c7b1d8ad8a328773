"""Small runs of `fit` with `Resume`, and a way to kill them."""

import types

import keras
import numpy as np

from keras_headattn.training import Resume, make_strategy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(22, 4)).astype("float32")
Y = RNG.normal(size=(22, 2)).astype("float32")


class Killed(BaseException):
    """Not an `Exception`, so that nothing on the way handles it."""


class Kill(keras.callbacks.Callback):
    """Ends the process after so many steps of this `fit`, or at a named event of the epoch then."""

    def __init__(self, left=1000, event=None):
        super().__init__()
        self.steps = types.SimpleNamespace(left=left)  # no plain data, which `Resume` would restore
        self.event = event

    def on_train_batch_end(self, batch, logs=None):
        self.steps.left -= 1
        self._at("on_train_batch_end")

    def on_test_batch_end(self, batch, logs=None):
        self._at("on_test_batch_end")

    def on_epoch_end(self, epoch, logs=None):
        self._at("on_epoch_end")

    def _at(self, event):
        if self.steps.left <= 0 and event == self.event:
            raise Killed


def simple(units=2, optimizer="sgd", replicas=1):
    with make_strategy(replicas).scope():
        inputs = keras.Input((4,))
        model = keras.Model(inputs, keras.layers.Dense(units)(inputs))
        model.compile(optimizer, "mse")
    return model


def fit(model, folder, epochs=1, callbacks=(), initial_epoch=0, **options):
    resume = Resume(folder, callbacks=callbacks, **options)
    target = Y[:, : model.output_shape[1]]
    try:
        arguments = dict(batch_size=4, initial_epoch=initial_epoch, epochs=epochs, shuffle=False, verbose=0)
        return model.fit(X, target, callbacks=[resume], **arguments)
    except Killed:
        resume._finish_writing()
        raise
