"""Exact resumption of training."""

import concurrent.futures
import contextlib
import inspect
import pathlib
import signal
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn._private import build_metrics, call_in_order, set_initial_epoch
from keras_headattn._validation import check_positive
from keras_headattn.training._distribution.workers import gather, num_workers
from keras_headattn.training._resume import snapshot
from keras_headattn.training._resume.checkpoint_folder import CheckpointFolder
from keras_headattn.training._resume.signals import FirstSignal


class Resume(keras.callbacks.CallbackList):
    """Callback that saves a run's full state, so that the same `fit` continues after the process is killed.

    On a CPU the result is the same, bit for bit, as without the interruption. Saved are the variables of model, metrics
    and optimizer, random generators (also Python's, NumPy's and Keras's global ones), the position in the data, the
    history and the state of other callbacks. Batches already trained on are read again and skipped. A model that is
    compiled with another learning rate goes on with it.

    The data's order may depend on the epoch only: use `fit(shuffle=False)`, and data that is the same in every epoch or
    has an attribute `epoch`.

    Args:
        folder: str or path of the checkpoints; empty for a new run, and used by one process at a time.
        data: argument of `fit` whose order changes: `data.epoch` is set before each epoch. Default `None`.
        callbacks: Keras callbacks whose state is saved too, such as `EarlyStopping`; do not give them to `fit` as well.
            Their state is all attributes that are numbers, texts, arrays, or lists and dictionaries of these.
            Attributes named like a constructor argument are saved only if they change in training, and never for
            Keras's own callbacks.
        every: int, steps between checkpoints, besides the end of each epoch. Default `None`: only there.
        keep: int, checkpoints to keep. If the newest is damaged, the one before is used. Default 2.

    The first Ctrl-C (SIGINT) or SIGTERM saves the state and ends training with `KeyboardInterrupt` or
    `SystemExit(143)`; the second ends it at once. During validation and callbacks at the end of an epoch, the state
    before them is saved. Signals are caught in the main thread only.

    Several workers need a shared folder, continue from the newest step that all have, and end together after a signal.

    Raises:
        ValueError: in `fit`, if the checkpoints are of another model, optimizer, data set or number of replicas, cannot
            be read, are seen by some workers only, or are in use by another process.
        OSError: in `fit`, if the folder cannot be written to; existing checkpoints are kept.
        KeyboardInterrupt, SystemExit: in `fit`, after a signal, when the state is saved.

    >>> import tempfile
    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> x, y = keras.ops.ones((8, 4)), keras.ops.zeros((8, 1))
    >>> resume = Resume(tempfile.mkdtemp(), callbacks=[keras.callbacks.EarlyStopping("loss")], every=1000)
    >>> history = model.fit(x, y, shuffle=False, epochs=2, verbose=0, callbacks=[resume])
    """

    def __init__(
        self,
        folder: Path,
        data: Any = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        every: int | None = None,
        keep: int = 2,
    ):
        if not isinstance(callbacks, (list, tuple)) or not all(
            isinstance(callback, keras.callbacks.Callback) for callback in callbacks
        ):
            raise ValueError(f"`callbacks` must be a list of Keras callbacks. Received: callbacks={callbacks}")
        super().__init__(list(callbacks))
        call_in_order(self)
        if every is not None:
            check_positive("every", every)
        check_positive("keep", keep)
        if data is not None and not hasattr(data, "epoch"):
            raise ValueError(f"`data` must have an attribute `epoch`, which sets its order. Received: data={data}")
        self.folder = pathlib.Path(folder)
        self.data = data
        self.every = every
        self.keep = keep
        self._signal = FirstSignal(self._is_training, self._on_signal)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if getattr(self, "model", None) is None:
            raise ValueError(f"`Resume` must be given in a list, callbacks=[resume]. Received: callbacks={self}")
        self._settings = snapshot.take_settings(self.callbacks)
        super().on_train_begin(logs)
        self._warn_of_shuffling()
        self._epoch_logs, self._logs = [], {}
        self._batch = 0
        self._first_epoch = self._arguments().get("initial_epoch", 0)
        self._after_steps = None
        self._build()
        self._strategy = self.model.distribute_strategy
        self._run = snapshot.describe(self.model)
        self._rate = snapshot.rate_of(self.model.optimizer)
        self._place = {
            "replicas": self._strategy.num_replicas_in_sync,
            "steps_per_execution": self.model.steps_per_execution,
            "batches an epoch": self.params.get("steps"),
        }
        if num_workers(self._strategy) > 1:
            self._place["workers"] = num_workers(self._strategy)
        self._checkpoints = CheckpointFolder(self.folder, self.keep, self._run, self._place, self._strategy)
        self._checkpoints.lock()
        try:
            self._checkpoint = self._checkpoints.newest()
        except BaseException:
            self._checkpoints.unlock()
            raise
        self._train_function = self.model.train_function
        if self._checkpoint:
            self._restore()
            state = self._checkpoint[0]
            set_initial_epoch(self.model, self.params["epochs"] if state["stopped"] else state["epoch"])
            if self.params.get("verbose"):
                print(f"Continuing after {state['epoch']} epochs and {self._batch} batches.")
        else:
            # Fails now, not after hours, if the folder cannot be written to.
            self._checkpoints.write(self._take(self._first_epoch, 0))
        self._writer = concurrent.futures.ThreadPoolExecutor(1)
        self._writing = None
        self._signal.catch()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._is_to_exit():
            self._exit()
        set_initial_epoch(self.model, None)  # Keras has read it
        self._epoch = epoch
        if self.data is not None:
            self.data.epoch = epoch
        super().on_epoch_begin(epoch, logs)
        if self._batch:
            self.model.train_function, self._skipped_from = self._skip_batches, None
        else:
            self._checkpoint = None

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._is_skipping():
            super().on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._is_skipping():
            if self._is_to_exit():
                self._end_skipping()
                self._exit()
            if batch + 1 >= self._batch:
                self._end_skipping()
                build_metrics(self.model, self._skipped)  # Keras makes them in the first step
                snapshot.restore(snapshot.metrics_of(self.model), self._checkpoint[1])
                self._restore()  # again, as callbacks may reset when an epoch begins
                self._checkpoint = None
            return
        if self._writing and self._writing.done():
            self._finish_writing()  # raises its error now, not after the epoch
        super().on_train_batch_end(batch, logs)
        self._logs = _values(logs)
        self._batch = batch + 1
        if self._is_to_exit():
            self._exit(self._take(self._epoch, self._batch))
        if self.every and self._batch % self.every < self.model.steps_per_execution:
            self._save(self._take(self._epoch, self._batch))

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Validation resets the metrics, so a signal saves the state before it.
        self._after_steps = self._take(self._epoch, self._batch)
        super().on_test_begin(logs)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_test_batch_end(batch, logs)
        if self._is_to_exit():
            self._exit(self._after_steps)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._after_steps = self._after_steps or self._take(self._epoch, self._batch)
        if self._is_to_exit():
            self._exit(self._after_steps)
        self._finish_writing()
        for callback in self.callbacks:  # `CallbackList` would pass copies and lose what they add
            callback.on_epoch_end(epoch, logs)
        self._after_steps = None
        self._batch = 0
        self._epoch_logs.append(_values(logs))
        # Training does not end here after a signal, as later callbacks are still to be called.
        self._save(self._take(epoch + 1, 0))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_end(logs)
        if self._is_to_exit():
            self._exit()
        self._finish_writing()
        self._writer.shutdown()
        self._checkpoints.unlock()
        self._signal.release()
        set_initial_epoch(self.model, None)
        self._complete(self.model.history)

    def _warn_of_shuffling(self):
        arguments = self._arguments()
        if not arguments.get("shuffle"):
            return
        x = arguments.get("x")
        if isinstance(x, keras.utils.PyDataset) or all(hasattr(leaf, "shape") for leaf in keras.tree.flatten(x)):
            warnings.warn(
                "`fit` shuffles the data, and another process cannot repeat that order: a run that goes on within an "
                "epoch will not end as an uninterrupted one. Give `fit` shuffle=False and data whose order depends "
                f"on the number of the epoch. Received: shuffle={arguments['shuffle']!r} with x of type {type(x)}",
                stacklevel=2,
            )

    def _arguments(self) -> dict[str, Any]:
        """Returns the arguments of the running `fit`."""
        return next(self._calls_of_fit(inspect.currentframe()), {})

    def _calls_of_fit(self, frame):
        """Yields the arguments of each running `fit` of the model, Keras's own first."""
        calls = (call for call, _ in traceback.walk_stack(frame) if call.f_code.co_name == "fit")
        return (call.f_locals for call in calls if call.f_locals.get("self") is self.model)

    def _build(self):
        """Builds what Keras would build in the first step."""
        if not self.model.built:
            raise ValueError(
                f"`model` must be built: call it on a batch first. Received: {self.model.name}, which is not built"
            )
        if self.model.optimizer is not None and not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)

    def _complete(self, history):
        """Adds earlier epochs to the history that `fit` returns."""
        history.epoch = list(range(self._first_epoch, self._first_epoch + len(self._epoch_logs)))
        history.history = {}
        for logs in self._epoch_logs:
            for name, value in logs.items():
                history.history.setdefault(name, []).append(value)

    def _take(self, epoch, batch):
        """Returns the state before batch number `batch` of `epoch`, as `(state, arrays)`."""
        state = {
            "epoch": epoch,
            "first_epoch": self._first_epoch,
            "batch": batch,
            "rate": self._rate,
            "stopped": bool(self.model.stop_training),
            "logs": self._logs,
            "history": list(self._epoch_logs),
            "callbacks": snapshot.take_memory(self.callbacks, self._settings),
            "random": snapshot.take_random_state(),
            "run": self._run,
            "place": self._place,
        }
        return state, snapshot.take(snapshot.variables_of(self.model) | snapshot.metrics_of(self.model))

    def _restore(self):
        state, arrays = self._checkpoint
        snapshot.restore(snapshot.variables_of(self.model), arrays)
        snapshot.restore_memory(self.callbacks, self._settings, state["callbacks"])
        snapshot.restore_random_state(state["random"])
        self._epoch_logs, self._logs = list(state["history"]), state["logs"]
        self._first_epoch, self._batch = state["first_epoch"], state["batch"]
        if self._rate != state["rate"]:  # another one is given now
            self.model.optimizer.learning_rate = self._rate

    def _save(self, checkpoint):
        self._finish_writing()
        gather([0], self._strategy)  # all have written the previous one before any deletes older ones
        self._writing = self._writer.submit(self._checkpoints.write, checkpoint)

    def _finish_writing(self):
        if self._writing:
            self._writing.result()
        self._writing = None

    def _is_skipping(self):
        return self.model.train_function == self._skip_batches

    def _end_skipping(self):
        self.model.train_function, self._skipped_from = self._train_function, None

    def _skip_batches(self, iterator):
        """Reads the batches of training steps without training on them."""
        if self._skipped_from is None:
            self._skipped_from = iterator
        if iterator is not self._skipped_from:  # another `fit`, after one that ended while skipping
            self.model.train_function = self._train_function
            return self._train_function(iterator)
        with contextlib.suppress(StopIteration, tf.errors.OutOfRangeError):  # the last steps may be fewer
            for _ in range(self.model.steps_per_execution):
                self._skipped = next(iterator)
        return self._logs

    def _is_training(self, frame):
        callbacks = next(self._calls_of_fit(frame), {}).get("callbacks")
        return self in getattr(callbacks, "callbacks", ())

    def _on_signal(self):
        # Nothing of the end of an epoch is kept before all of it is done, and it may take long. Several workers would
        # wait for each other: they end at the next step.
        if self._after_steps and num_workers(self._strategy) == 1:
            self._exit(self._after_steps)

    def _is_to_exit(self):
        """Returns True if any worker has received a signal."""
        return gather([self._signal.number], self._strategy).any()

    def _exit(self, checkpoint=None):
        """Ends training after writing `checkpoint`, if given."""
        self._signal.release()
        self._finish_writing()
        signal_number = int(gather([self._signal.number], self._strategy).max())
        if checkpoint:
            self._checkpoints.write(checkpoint)
        self._checkpoints.unlock()
        if signal_number == signal.SIGINT:
            raise KeyboardInterrupt(f"The state is saved in {self.folder}. The same `fit` goes on from there.")
        raise SystemExit(128 + signal_number)  # as a shell reports it


def _values(logs):
    """Converts Keras's logs: numbers to floats, tensors to arrays."""
    return {name: np.asarray(value) if np.ndim(value) else float(value) for name, value in (logs or {}).items()}
