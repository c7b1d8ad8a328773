"""Processes that train one model together."""

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_headattn._private import set_worker_timeouts
from keras_headattn.training._distribution.rendezvous import wait_for_all

WORKER_LOST = 138  # by which Kubernetes' training operator restarts a program
_HEARTBEAT = 60  # seconds of silence after which a machine counts as lost
_CONNECT = 120  # seconds for TensorFlow to connect the workers
# TensorFlow's errors when a worker is lost.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


class WorkersStrategy(tf.distribute.MultiWorkerMirroredStrategy):
    """Strategy that splits every batch over the workers, as a single process would over its replicas."""

    def experimental_distribute_dataset(self, dataset, options=None):
        # TensorFlow's default gives each worker different files if there are several.
        policies = tf.data.experimental.AutoShardPolicy
        if dataset.options().experimental_distribute.auto_shard_policy == policies.AUTO:
            by_batch = tf.data.Options()
            by_batch.experimental_distribute.auto_shard_policy = policies.DATA
            dataset = dataset.with_options(by_batch)
        return super().experimental_distribute_dataset(dataset, options)


def connect(cluster, timeout):
    """Waits for all workers and returns their strategy, or exits with code 138. Call it before any operation."""
    spec, task = tf.train.ClusterSpec(cluster["cluster"]), cluster["task"]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec,
        task_type=task["type"],
        task_id=task["index"],
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        rpc_layer="grpc",
    )
    try:
        wait_for_all(_addresses(resolver), _index(resolver), timeout)
        signal.alarm(2 * _CONNECT)  # TensorFlow may wait forever for a worker that ends now
        set_worker_timeouts({job: spec.num_tasks(job) for job in spec.jobs}, _CONNECT, _HEARTBEAT)
        strategy = WorkersStrategy(resolver)
        signal.alarm(0)
    except (TimeoutError, tf.errors.OpError) as error:
        _end(f"Not all workers came within {timeout:g} seconds. Restart all of them. Received: {cluster}", error)
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # TensorFlow catches and ignores it
    return strategy


def num_workers(strategy):
    """Returns the number of processes of a strategy."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    return max(1, len(_addresses(strategy.cluster_resolver)))


def worker_index(strategy):
    """Returns the index of this process; the first, 0, writes shared files."""
    return 0 if num_workers(strategy) == 1 else _index(strategy.cluster_resolver)


def _addresses(resolver):
    jobs = resolver.cluster_spec().as_dict()
    return [*jobs.get("chief", []), *jobs.get("worker", [])]


def _index(resolver):
    before = 0 if resolver.task_type == "chief" else len(resolver.cluster_spec().as_dict().get("chief", []))
    return before + resolver.task_id


def is_chief(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Returns True in the first or only worker, which writes shared files: results, logs, models.

    Args:
        strategy: `tf.distribute.Strategy`. Default `None`: the current one.

    >>> is_chief()
    True
    """
    return worker_index(strategy or tf.distribute.get_strategy()) == 0


def gather(values: Sequence[float], strategy: tf.distribute.Strategy) -> np.ndarray:
    """Returns the numbers of all workers, float64 `(num_workers, n)`. All must call it at the same point.

    Args:
        values: n numbers, the same n in each worker.
        strategy: `tf.distribute.Strategy`.

    >>> bool(gather([False], tf.distribute.get_strategy()).any())
    False
    """
    values = np.array(values, "float64")[None]
    if num_workers(strategy) == 1:
        return values
    with ends_with_the_others(strategy):
        return _gatherer(strategy)(values).numpy()


@functools.cache
def _gatherer(strategy):
    # Traced once for each n; `strategy.gather` alone is traced in each call.
    return tf.function(lambda values: strategy.gather(tf.identity(values), axis=0), autograph=False)


def leave_together(strategy: tf.distribute.Strategy) -> None:
    """Waits until all workers have called it. Call it last: a worker that ends earlier counts as lost.

    Args:
        strategy: `tf.distribute.Strategy`.

    >>> leave_together(tf.distribute.get_strategy())
    """
    gather([0], strategy)
    if num_workers(strategy) > 1:
        # Whoever gets here knows that all have come. The first to hear of the second meeting may leave before its
        # word has reached the others, and they need not hear it.
        with contextlib.suppress(*_LOST):
            _gatherer(strategy)(np.zeros((1, 1)))


@contextlib.contextmanager
def ends_with_the_others(strategy):
    """Exits with a message and code 138 when another worker is lost."""
    try:
        yield
    except tf.errors.OpError as error:
        if num_workers(strategy) == 1 or not isinstance(error, _LOST):
            raise
        _end(
            f"Another worker has ended or cannot be reached. Restart all {num_workers(strategy)} workers, and training "
            "goes on from their checkpoints.",
            error,
        )


def _end(message, error):
    reason = str(error).partition("\n")[0][:300]
    print(f"{message} ({type(error).__name__}: {reason})", file=sys.stderr)
    raise SystemExit(WORKER_LOST) from error
