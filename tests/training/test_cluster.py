"""Who the workers are, by the variables of each system that starts them."""

import json

import pytest

from keras_headattn.training import cluster_from_environment, make_strategy


def test_kubernetes():
    """As the training operator sets it: a chief, and what is of no use here."""
    cluster = {"chief": ["job-chief-0.default.svc:2222"], "worker": ["job-worker-0.default.svc:2222"], "ps": []}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 0}, "environment": "cloud"}
    found = cluster_from_environment({"TF_CONFIG": json.dumps(config), "SM_HOSTS": "ignored"})
    assert found == {"cluster": {job: cluster[job] for job in ("chief", "worker")}, "task": config["task"]}


def test_sagemaker():
    environment = {"SM_HOSTS": '["algo-2", "algo-1"]', "SM_CURRENT_HOST": "algo-2"}
    found = cluster_from_environment(environment)
    assert found["cluster"] == {"worker": ["algo-1:2222", "algo-2:2222"]}
    assert found["task"] == {"type": "worker", "index": 1}


SLURM = {
    "SLURM_STEP_NODELIST": "node[9-10],gpu[01,03]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2),1,3",
    "SLURM_JOB_ID": "123456",
    "SLURM_PROCID": "3",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "1",
}
RANKS = "SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"


def test_slurm():
    found = cluster_from_environment(SLURM)
    hosts = ["node9", "node9", "node10", "node10", "gpu01", "gpu03", "gpu03", "gpu03"]
    ports = [23456, 23457, 23456, 23457, 23456, 23456, 23457, 23458]
    assert found["cluster"]["worker"] == [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
    assert found["task"] == {"type": "worker", "index": 3}


@pytest.mark.parametrize("text, hosts", [
    ("login", ["login"]),
    ("node[01-03,07]", ["node01", "node02", "node03", "node07"]),
    ("a1,b[2],c[9-11]-x", ["a1", "b2", "c9-x", "c10-x", "c11-x"]),
    ("rack[1-2]n[1,3]", ["rack1n1", "rack1n3", "rack2n1", "rack2n3"]),
])  # fmt: skip
def test_host_lists(text, hosts):
    tasks = {"SLURM_STEP_TASKS_PER_NODE": f"1(x{len(hosts)})"} | dict.fromkeys(RANKS, "0")
    found = cluster_from_environment(SLURM | {"SLURM_STEP_NODELIST": text} | tasks)
    assert [worker.partition(":")[0] for worker in found["cluster"]["worker"]] == hosts


def test_one_worker_needs_no_cluster(monkeypatch):
    config = {"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert make_strategy(kind="multi_worker").num_replicas_in_sync == 1
