"""What one replica runs: assignments come after it, random numbers differ, shapes are compiled once."""

import os
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.training import make_strategy
from keras_headattn.training._distribution.replica import ReplicaFunction
from tests.refusals import refused

ON_TWO = pytest.mark.parametrize("jit_compile", [False, True])


def on_replicas(function, jit_compile):
    """Runs a function on both replicas; returns a function that returns what each of them returned."""
    strategy = make_strategy(2)
    replica_function = ReplicaFunction(function, jit_compile)
    run = tf.function(lambda: strategy.run(replica_function))
    return lambda: [value.numpy() for value in strategy.experimental_local_results(run())]


@ON_TWO
def test_random_numbers_differ_between_replicas_and_steps(jit_compile):
    with make_strategy(2).scope():
        dropout = keras.layers.Dropout(0.5, seed=1)
    draw = on_replicas(lambda: dropout(tf.ones(64), training=True), jit_compile)
    masks = draw() + draw()
    assert len({mask.tobytes() for mask in masks}) == 4
    # What is saved with the model is what it is without replicas.
    for copy in dropout.seed_generator.state.value.values:
        np.testing.assert_array_equal(copy, [1, 2])


def test_random_numbers_without_a_seed_are_refused():
    with refused("SeedGenerator", "seed=None"):
        on_replicas(lambda: keras.random.uniform((4,)), False)()


@ON_TWO
def test_assignments_are_seen_inside_and_carried_out_after(jit_compile):
    with make_strategy(2).scope():
        mean, total, count = (keras.Variable(0.0, trainable=False, aggregation=how) for how in ("none", "sum", "mean"))

    def function():
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, "float32")
        for variable in (mean, total, count):
            variable.assign(variable + 1.0)
            variable.assign(variable + replica)
        return mean + 0.0

    assert on_replicas(function, jit_compile)() == [1.0, 2.0]
    for variable, expected in ((mean, 1.5), (total, 3.0), (count, 1.5)):
        assert [copy.numpy() for copy in variable.value.values] == [expected, expected]


BUCKETS = """
    import sys
    from keras_headattn.training import cache_compilations
    from keras_headattn.training._distribution.compilations import count_compilations
    cache_compilations(sys.argv[1])
    import keras
    import numpy as np
    from keras_headattn.training import Compilations, Model, make_strategy

    class Buckets(keras.utils.PyDataset):
        lengths = [4, 6, 8, 6, 8, 4]
        def __len__(self):
            return len(self.lengths)
        def __getitem__(self, index):
            return np.ones((4, self.lengths[index]), "int32"), np.ones((4, 1), "float32")

    with make_strategy(int(sys.argv[2])).scope():
        ids = keras.Input((None,), dtype="int32")
        pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(5, 3)(ids))
        model = Model(ids, keras.layers.Dense(1)(pooled))
        model.compile("adam", "mse", metrics=["mae"], jit_compile=True)

    def fit(**kwargs):
        history = model.fit(Buckets(), verbose=0, callbacks=[Compilations(sys.argv[1])], **kwargs).history
        print(*history["compilations"], count_compilations(sys.argv[1]))

    fit(epochs=2)
    fit(validation_data=Buckets())
    Buckets.lengths = [10, 4]
    fit()
"""


def test_one_compilation_for_each_length_and_replica(tmp_path):
    replicas = 2
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BUCKETS), str(tmp_path / "compiled programs"), str(replicas)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    # Of training steps, epoch by epoch, then all: validation has programs of its own.
    expected = [[3, 3, 3], [0, 6], [1, 7]]
    found = [[int(number) / replicas for number in line.split()] for line in ran.stdout.splitlines()]
    assert found == expected
