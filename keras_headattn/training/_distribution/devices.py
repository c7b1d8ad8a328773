"""The devices to train on."""

import functools

import tensorflow as tf

from keras_headattn.training._distribution.cluster import cluster_from_environment
from keras_headattn.training._distribution.workers import connect


def make_strategy(replicas: int | None = None, kind: str = "mirrored", timeout: int = 600) -> tf.distribute.Strategy:
    """Chooses the distribution strategy: all GPUs, else the CPU.

    Args:
        replicas: Number of copies of the model. `None`: one on each GPU, or one on the CPU. A number takes
            the first GPUs; without GPUs it splits the CPU into as many logical devices, which is for trying
            things out.
        kind: `"mirrored"`: the devices of this machine. `"multi_worker"`: those of several processes, on one
            or several machines, each of which runs the same program. `cluster_from_environment` says which.
            Make this strategy before anything else of TensorFlow runs; each worker takes all GPUs it sees.
        timeout: Seconds to wait for the other workers. Defaults to 600.

    Returns:
        A `tf.distribute.MirroredStrategy` or `MultiWorkerMirroredStrategy`, or for one replica TensorFlow's
        default strategy.

    Raises:
        ValueError: if there are fewer GPUs than replicas, TensorFlow has already set up the CPU otherwise, or
            the environment does not name the workers.
        SystemExit: with code 138, after a message, if not all workers came in time.

    Example:

    >>> make_strategy(1).num_replicas_in_sync
    1
    """
    if replicas is not None and (not isinstance(replicas, int) or replicas < 1):
        raise ValueError(f"`replicas` must be a positive integer or None. Received: replicas={replicas}")
    if kind not in ("mirrored", "multi_worker"):
        raise ValueError(f'`kind` is "mirrored" or "multi_worker". Received: kind={kind!r}')
    if kind == "multi_worker":
        return _multi_worker(replicas, timeout)
    gpus = tf.config.list_physical_devices("GPU")
    if replicas is None:
        replicas = max(1, len(gpus))
    if gpus and replicas > len(gpus):
        raise ValueError(
            f"Ask for at most as many replicas as there are GPUs, {len(gpus)}. Received: replicas={replicas}"
        )
    if replicas == 1:
        return tf.distribute.get_strategy()
    if not gpus:
        _split_cpu(replicas)
    return _mirrored("GPU" if gpus else "CPU", replicas)


def _multi_worker(replicas, timeout):
    if replicas is not None:
        raise ValueError(
            "Each worker takes all GPUs it sees; CUDA_VISIBLE_DEVICES hides some. "
            f'Received: replicas={replicas} with kind="multi_worker"'
        )
    cluster = cluster_from_environment()
    if sum(map(len, cluster["cluster"].values())) == 1:
        return make_strategy()
    return connect(cluster, timeout)


# One strategy a process: messages between the devices of a second one would be taken for those of the first.
@functools.cache
def _mirrored(kind, replicas):
    devices = [f"{kind}:{index}" for index in range(replicas)]
    if kind == "GPU":
        return tf.distribute.MirroredStrategy(devices)
    # TensorFlow's default stays broken for the rest of the process once one step has failed.
    return tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())


def default_jit(strategy: tf.distribute.Strategy | None = None) -> bool:
    """Whether XLA is worth it: yes on GPUs, no on a CPU, where plain graphs run as fast and start sooner.

    Args:
        strategy: A `tf.distribute.Strategy`. Defaults to the current one.
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
            f"TensorFlow is running with {len(tf.config.list_logical_devices('CPU'))} logical CPU devices. "
            f"Call `make_strategy` before any tensor is made. Received: replicas={replicas}"
        ) from error
