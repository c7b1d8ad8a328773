"""Choosing devices. The test run has split the CPU into four."""

import subprocess
import sys

import tensorflow as tf

from keras_headattn.training import default_jit, make_strategy
from keras_headattn.training._distribution import devices
from tests.refusals import refused


def test_one_replica_is_the_default_strategy():
    assert make_strategy(1) is tf.distribute.get_strategy()


def test_two_replicas_on_a_cpu():
    strategy = make_strategy(2)
    assert strategy.num_replicas_in_sync == 2
    assert make_strategy(2) is strategy


def test_models_of_different_shapes_in_one_process():
    """Two default MirroredStrategies on the same devices mistake each other's messages."""
    for size in (3, 5):
        strategy = make_strategy(2)
        with strategy.scope():
            variable = tf.Variable(tf.zeros(size), aggregation=tf.VariableAggregation.SUM)
        strategy.run(tf.function(lambda: variable.assign_add(tf.ones_like(variable))))  # noqa: B023
        assert variable.numpy().tolist() == [2.0] * size


def test_gpus(monkeypatch):
    physical = {"GPU": ["GPU:0", "GPU:1"], "CPU": ["CPU:0"]}
    monkeypatch.setattr(tf.config, "list_physical_devices", physical.get)
    monkeypatch.setattr(devices, "_mirrored", lambda *args: args)
    assert make_strategy() == ("GPU", 2)
    assert make_strategy(2) == ("GPU", 2)
    assert make_strategy(1) is tf.distribute.get_strategy()
    with refused("replicas", 3):
        make_strategy(3)


def test_xla_is_for_gpus():
    class Devices:
        num_replicas_in_sync = 2
        extended = type("Extended", (), {"worker_devices": ("/device:GPU:0", "/device:GPU:1")})

    assert default_jit(Devices())
    assert not default_jit(make_strategy(2))
    assert not default_jit()


def test_splits_a_fresh_cpu():
    code = "from keras_headattn.training import make_strategy; print(make_strategy(3).num_replicas_in_sync)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "3", ran.stderr
