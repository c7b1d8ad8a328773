"""Who the workers are, by the variables of each system that starts them."""

import json

import pytest

from keras_headattn.training import cluster_from_environment, make_strategy
from keras_headattn.training._distribution.cluster import expand_hosts


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


def test_slurm():
    found = cluster_from_environment(SLURM)
    hosts = ["node9", "node9", "node10", "node10", "gpu01", "gpu03", "gpu03", "gpu03"]
    ports = [23456, 23457, 23456, 23457, 23456, 23456, 23457, 23458]
    assert found["cluster"]["worker"] == [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
    assert found["task"] == {"type": "worker", "index": 3}


def test_slurm_tasks_dealt_out_in_turn():
    with pytest.raises(ValueError, match="distribution=block.*Received: rank 1 is task 0 of node10"):
        cluster_from_environment(SLURM | {"SLURM_PROCID": "1", "SLURM_LOCALID": "0"})


@pytest.mark.parametrize("text, hosts", [
    ("login", ["login"]),
    ("node[01-03,07]", ["node01", "node02", "node03", "node07"]),
    ("a1,b[2],c[9-11]-x", ["a1", "b2", "c9-x", "c10-x", "c11-x"]),
    ("rack[1-2]n[1,3]", ["rack1n1", "rack1n3", "rack2n1", "rack2n3"]),
])  # fmt: skip
def test_host_lists(text, hosts):
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize("environment, message", [
    ({}, "The environment names no workers"),
    ({"TF_CONFIG": "{"}, "must look like.*Received: {"),
    ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'}, "KeyError: 'task'"),
    ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}'}, "IndexError"),
    ({"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}'}, "KeyError"),
    (
        {"TF_CONFIG": '{"cluster": {"ps": ["b:1"], "worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'},
        "chief and worker. Received: ps",
    ),
    ({"SM_HOSTS": '["algo-1"]'}, "Received: SM_HOSTS=.*KeyError: 'SM_CURRENT_HOST'"),
    ({"SM_HOSTS": "algo-1", "SM_CURRENT_HOST": "algo-1"}, "SM_HOSTS must be a JSON list.*Received: SM_HOSTS=algo-1"),
    ({"SM_HOSTS": '["algo-1"]', "SM_CURRENT_HOST": "algo-2"}, "SM_CURRENT_HOST=algo-2"),
    ({name: SLURM[name] for name in SLURM if name != "SLURM_PROCID"}, "KeyError: 'SLURM_PROCID'"),
    (SLURM | {"SLURM_STEP_TASKS_PER_NODE": "2"}, "SLURM_STEP_TASKS_PER_NODE=2,.*ValueError"),
    (SLURM | {"SLURM_PROCID": "8"}, "SLURM_PROCID=8,.*IndexError"),
])  # fmt: skip
def test_what_cannot_be_used(environment, message):
    with pytest.raises(ValueError, match=message):
        cluster_from_environment(environment)


def test_one_worker_needs_no_cluster(monkeypatch):
    config = {"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert make_strategy(kind="multi_worker").num_replicas_in_sync == 1


@pytest.mark.parametrize("arguments, message", [
    (dict(kind="horovod"), "Received: kind='horovod'"),
    (dict(kind="multi_worker", replicas=2), "CUDA_VISIBLE_DEVICES.*Received: replicas=2"),
])  # fmt: skip
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_strategy(**arguments)
