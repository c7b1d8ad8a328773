"""What the workers of `test_workers.py` run, and the process they are compared with."""

import os
import pathlib
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(21, 4)).astype("float32")
Y = RNG.normal(size=(21, 3)).astype("float32")
BATCH = 8  # the last batch of an epoch has five rows


class Signal(keras.callbacks.Callback):
    """Sends the process a signal after so many steps of this `fit`."""

    def __init__(self, number, steps):
        super().__init__()
        self.number, self.left = number, steps

    def on_train_batch_end(self, batch, logs=None):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), self.number)


def make_model(strategy, stateful):
    """With all that has a state, or only what several replicas compute as one does."""
    from keras_headattn.training import Model

    keras.utils.set_random_seed(0)
    with strategy.scope():
        inputs = keras.Input((4,))
        x = keras.layers.Dense(5, activation="tanh")(inputs)
        if stateful:
            x = keras.layers.Dropout(0.3, seed=5)(keras.layers.BatchNormalization()(x))
        model = Model(inputs, keras.layers.Dense(3)(x))
        model.compile(
            keras.optimizers.Adam(0.01, global_clipnorm=0.05, use_ema=True, ema_overwrite_frequency=4),
            "mse",
            metrics=["mae", keras.metrics.RootMeanSquaredError(name="rmse")],
            jit_compile=False,
        )
    return model


def dataset(folder):
    """The rows by their numbers in three files, of which TensorFlow would give each worker one."""
    paths = [f"{folder}/{number}.txt" for number in range(3)]
    for path, rows in zip(paths, np.split(np.arange(len(X)), 3), strict=True):
        pathlib.Path(path).write_text("".join(f"{row}\n" for row in rows))
    rows = tf.data.TextLineDataset(paths).map(lambda line: tf.strings.to_number(line, tf.int32))
    rows = rows.apply(tf.data.experimental.assert_cardinality(len(X)))  # Keras warns if it must count
    return rows.map(lambda row: (tf.gather(X, row), tf.gather(Y, row))).batch(BATCH)


def train(strategy):
    """Everything a model can do: its results by name."""
    model = make_model(strategy, stateful=False)
    with tempfile.TemporaryDirectory() as folder:
        history = model.fit(dataset(folder), epochs=2, shuffle=False, verbose=0, validation_data=(X, Y)).history
    scores = model.evaluate(X, Y, batch_size=BATCH, verbose=0, return_dict=True)
    return {
        **{f"weight {number}": array for number, array in enumerate(model.get_weights())},
        **{f"history {name}": values for name, values in history.items()},
        **{f"score {name}": value for name, value in scores.items()},
        "predictions": model.predict(X, batch_size=BATCH, verbose=0),
    }, model


def resume(strategy, folder, callbacks=()):
    """The run that is interrupted, and goes on: its results by name."""
    from keras_headattn.training import Resume

    model = make_model(strategy, stateful=True)
    history = model.fit(
        X,
        Y,
        batch_size=BATCH,
        epochs=3,
        shuffle=False,
        verbose=0,
        callbacks=[Resume(folder, callbacks=callbacks, every=1)],
    ).history
    return {
        **{f"weight {number}": array for number, array in enumerate(model.get_weights())},
        **{f"optimizer {number}": variable.numpy() for number, variable in enumerate(model.optimizer.variables)},
        **{f"history {name}": values for name, values in history.items()},
    }


def main(task, tf_config, output, folder=None, interruption=None):
    """One worker: its results go to `output`.npz, and what it prints to `output`.txt."""
    log = os.open(f"{output}.txt", os.O_CREAT | os.O_WRONLY, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["TF_CONFIG"] = tf_config
    from keras_headattn.training import is_chief, leave_together, make_strategy

    strategy = make_strategy(kind="multi_worker", timeout=600)
    if task == "train":
        results, model = train(strategy)
        if is_chief(strategy):
            model.save(f"{output}.keras")
    else:
        results = resume(strategy, folder, [Signal(*interruption)] if interruption else [])
    np.savez(f"{output}.npz", **results)
    leave_together(strategy)
    print(f"{os.times().user + os.times().system:.1f} s of CPU time", file=sys.stderr)
