"""The steps of every recipe before it trains."""

import contextlib
import os
import sys

import keras

from keras_headattn.training import is_chief, leave_together, make_strategy
from recipes.engine.gpus import tell_of_hidden_gpus
from recipes.engine.lock import locked


@contextlib.contextmanager
def ready_to_train(config, check, kind="mirrored"):
    """A strategy, in a process that is seeded and, within this context, the only one that trains in the run's folder.

    Of several workers the first alone writes and prints, and all end when the last is done.

    Args:
        config: with `replicas`, `seed`, `precision` and `run`.
        check: function that raises an error if something does not fit, before anything is read or written.
        kind: see `make_strategy`.
    """
    strategy = make_strategy(config.replicas, kind)
    if not is_chief(strategy):
        sys.stdout = open(os.devnull, "w")  # all workers would say the same
    tell_of_hidden_gpus()
    check()
    keras.utils.set_random_seed(config.seed)
    keras.config.set_dtype_policy(config.precision)
    taken = f"Another process trains in this folder. Wait for it, or give another --run. Received: run={config.run}"
    with locked(config.run, taken) if is_chief(strategy) else contextlib.nullcontext():
        yield strategy
        leave_together(strategy)
