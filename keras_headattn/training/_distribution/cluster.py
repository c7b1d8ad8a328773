"""The workers of a training run, read from the environment."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

_PORT = 2222  # the default of TensorFlow and of Kubernetes' training operator
_JOBS = ("chief", "worker")


def cluster_from_environment(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Reads the addresses of all workers and this process's place among them from environment variables.

    The first one set applies: `TF_CONFIG` (Kubernetes' training operator, SageMaker's
    `multi_worker_mirrored_strategy`), `SM_HOSTS` and `SM_CURRENT_HOST` (any SageMaker job), or Slurm's (`srun`).

    Args:
        environment: dictionary of variables. Default `None`: `os.environ`.

    Returns:
        Dictionary like `TF_CONFIG`: `"cluster"` has the addresses of each job (`chief`, `worker`), `"task"` the
        `"type"` and `"index"` of this process.

    Raises:
        ValueError: if none is set or it cannot be read, or if a task does not train.

    >>> cluster_from_environment({"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-2"})
    {'cluster': {'worker': ['algo-1:2222', 'algo-2:2222']}, 'task': {'type': 'worker', 'index': 1}}
    """
    environment = os.environ if environment is None else environment
    if environment.get("TF_CONFIG"):
        return _from_tf_config(environment["TF_CONFIG"])
    if environment.get("SM_HOSTS"):
        return _from_sagemaker(environment)
    if environment.get("SLURM_STEP_NODELIST"):
        return _from_slurm(environment)
    raise ValueError(
        "The environment names no workers. Set TF_CONFIG, or start the processes with srun, Kubernetes' training "
        "operator or SageMaker. Received: none of TF_CONFIG, SM_HOSTS and SLURM_STEP_NODELIST"
    )


def _workers(addresses, index):
    return {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}


def _from_tf_config(text):
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        kind, index = task["type"], int(task["index"])
        cluster = {job: list(addresses) for job, addresses in cluster.items() if addresses}
        cluster[kind][index]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(
            'TF_CONFIG must look like {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
            f'"index": 0}}}}. Received: {text} ({type(error).__name__}: {error})'
        ) from error
    if unknown := set(cluster) - set(_JOBS):
        raise ValueError(f"TF_CONFIG must have only the jobs chief and worker. Received: {', '.join(sorted(unknown))}")
    return {"cluster": cluster, "task": {"type": kind, "index": index}}


def _from_sagemaker(environment):
    try:
        hosts = sorted(json.loads(environment["SM_HOSTS"]))
        index = hosts.index(environment["SM_CURRENT_HOST"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"SM_HOSTS must be a JSON list of hosts, and SM_CURRENT_HOST one of them. {_received(environment, 'SM_')} "
            f"({type(error).__name__}: {error})"
        ) from error
    return _workers([f"{host}:{_PORT}" for host in hosts], index)


def _from_slurm(environment):
    """Unlike TensorFlow's `SlurmClusterResolver`, keeps Slurm's order of hosts and needs no `nvidia-smi`."""
    try:
        hosts = expand_hosts(environment["SLURM_STEP_NODELIST"])
        counts = []
        for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", environment["SLURM_STEP_TASKS_PER_NODE"]):
            counts += [int(count)] * int(times or 1)
        # Jobs that share a host need different ports.
        port = 20_000 + int(environment.get("SLURM_JOB_ID", 0)) % 10_000
        tasks = [(host, local_id) for host, count in zip(hosts, counts, strict=True) for local_id in range(count)]
        rank = int(environment["SLURM_PROCID"])
        expected = hosts[int(environment["SLURM_NODEID"])], int(environment["SLURM_LOCALID"])
        task = tasks[rank]
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(
            "Start the processes by srun, which sets SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, SLURM_PROCID, "
            f"SLURM_NODEID and SLURM_LOCALID. {_received(environment, 'SLURM_')} ({type(error).__name__}: {error})"
        ) from error
    if task != expected:
        raise ValueError(
            "The tasks of a host must have consecutive ranks: start them by `srun --distribution=block`. "
            f"Received: rank {rank} is task {expected[1]} of {expected[0]}"
        )
    return _workers([f"{host}:{port + local_id}" for host, local_id in tasks], rank)


def _received(environment, prefix):
    return "Received: " + ", ".join(f"{name}={value}" for name, value in environment.items() if name.startswith(prefix))


def expand_hosts(text):
    """Expands Slurm's abbreviated lists of hosts.

    >>> expand_hosts("n[9-11],gpu[01,03]-ib")
    ['n9', 'n10', 'n11', 'gpu01-ib', 'gpu03-ib']
    """
    names = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text)
    return [host for name in names for host in _expand(name)]


def _expand(name):
    brackets = re.search(r"\[(.*?)\]", name)
    if not brackets:
        return [name]
    hosts = []
    for numbers in brackets[1].split(","):
        first, _, last = numbers.partition("-")
        for number in range(int(first), int(last or first) + 1):
            hosts += _expand(f"{name[: brackets.start()]}{number:0{len(first)}d}{name[brackets.end() :]}")
    return hosts
