"""The devices to train on."""

import functools

import tensorflow as tf

from keras_headattn.training._distribution.cluster import cluster_from_environment
from keras_headattn.training._distribution.workers import connect


def make_strategy(replicas: int | None = None, kind: str = "mirrored", timeout: int = 600) -> tf.distribute.Strategy:
    """Returns a distribution strategy for all GPUs, or the CPU.

    Args:
        replicas: int, copies of the model: on as many GPUs or, without GPUs, logical CPU devices (for tests). Default
            `None`: one for each GPU, or one on the CPU.
        kind: `"mirrored"` for this machine, or `"multi_worker"` for several processes that run the same program, see
            `cluster_from_environment`; make it before other operations. Each worker takes all GPUs it sees. Default
            `"mirrored"`.
        timeout: int, seconds to wait for other workers. Default 600.

    Returns:
        A `tf.distribute.MirroredStrategy` or `MultiWorkerMirroredStrategy`; TensorFlow's default for one replica.

    Raises:
        ValueError: if there are too few GPUs, the CPU is already set up otherwise, or the environment names no workers.
        SystemExit: with code 138, if not all workers join in time.

    >>> make_strategy(1).num_replicas_in_sync
    1
    """
    if replicas is not None and (not isinstance(replicas, int) or replicas < 1):
        raise ValueError(f"`replicas` must be a positive integer or None. Received: replicas={replicas!r}")
    if kind not in ("mirrored", "multi_worker"):
        raise ValueError(f'`kind` must be "mirrored" or "multi_worker". Received: kind={kind!r}')
    if kind == "multi_worker":
        return _multi_worker(replicas, timeout)
    gpus = tf.config.list_physical_devices("GPU")
    if replicas is None:
        replicas = max(1, len(gpus))
    if gpus and replicas > len(gpus):
        raise ValueError(f"`replicas` must be at most the number of GPUs, {len(gpus)}. Received: replicas={replicas}")
    if replicas == 1:
        return tf.distribute.get_strategy()
    if not gpus:
        _split_cpu(replicas)
    return _mirrored("GPU" if gpus else "CPU", replicas)


def _multi_worker(replicas, timeout):
    if replicas is not None:
        raise ValueError(
            "`replicas` must be None, as each worker uses all GPUs it sees; hide some with CUDA_VISIBLE_DEVICES. "
            f'Received: replicas={replicas!r} with kind="multi_worker"'
        )
    cluster = cluster_from_environment()
    if sum(map(len, cluster["cluster"].values())) == 1:
        return make_strategy()
    return connect(cluster, timeout)


# One strategy a process: a second one's messages between devices would be mistaken for the first one's.
@functools.cache
def _mirrored(kind, replicas):
    devices = [f"{kind}:{index}" for index in range(replicas)]
    if kind == "GPU":
        return tf.distribute.MirroredStrategy(devices)
    # TensorFlow's default reduction stays broken once a step has failed.
    return tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())


def default_jit(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Returns True if XLA pays off: on GPUs, but not on a CPU.

    Args:
        strategy: `tf.distribute.Strategy`. Default `None`: the current one.
    """
    strategy = strategy or tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        return bool(tf.config.list_logical_devices("GPU"))
    return all("GPU" in device for device in strategy.extended.worker_devices)


def _split_cpu(replicas):
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        if len(tf.config.get_logical_device_configuration(cpu) or []) < replicas:
            parts = [tf.config.LogicalDeviceConfiguration()] * replicas
            tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        raise ValueError(
            "`make_strategy` must be called before any tensor is made: TensorFlow is running with "
            f"{len(tf.config.list_logical_devices('CPU'))} logical CPU devices. Received: replicas={replicas}"
        ) from error
