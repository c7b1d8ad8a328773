"""A script of a user, which `test_interruptions.py` interrupts: FOLDER EVENT SECONDS, for which it waits there."""

import os
import pathlib
import signal
import sys
import time

import keras

from keras_headattn.training import Resume
from tests.training.resuming import X, Y


class Wait(keras.callbacks.Callback):
    """Writes the number of the process to a file, and waits for seconds."""

    def __init__(self, path, seconds):
        super().__init__()
        self.path, self.seconds = path, seconds

    def wait(self, batch, logs=None):
        if batch == 2 and not self.path.exists():
            self.path.write_text(str(os.getpid()))
            time.sleep(self.seconds)


def train(folder, event=None, seconds=0.0):
    """Weights, state of the optimizer, and history after two epochs of six steps and three batches of validation."""
    wait = Wait(folder / "reached", seconds)
    if event:
        setattr(wait, event, wait.wait)
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    x = keras.layers.Dropout(0.3, seed=5)(keras.layers.Dense(8)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(2)(x))
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    history = model.fit(
        X,
        Y,
        batch_size=4,
        epochs=2,
        validation_data=(X, Y),
        validation_batch_size=8,
        shuffle=False,
        verbose=0,
        callbacks=[Resume(folder / "checkpoints"), wait],
    ).history
    return model.get_weights(), [variable.numpy() for variable in model.optimizer.variables], history


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background of a shell
    train(pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
