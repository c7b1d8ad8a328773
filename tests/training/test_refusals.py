"""Arguments of callbacks and devices that are refused, models that callbacks cannot use, and odd environments."""

import functools
import json

import keras
import numpy as np
import tensorflow as tf

from keras_headattn import training
from tests.refusals import refusals, values
from tests.training.test_cluster import SLURM


def fitted(callbacks, *layers):
    """A fit of a model of Keras's own with the callbacks."""

    def fit():
        model = keras.Sequential([*layers, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(np.ones((2, 4)), np.ones((2, 1)), shuffle=False, verbose=0, callbacks=callbacks)

    return fit


def environment(variables, **more):
    variables = variables | {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in more.items()
    }
    return lambda: training.cluster_from_environment(variables)


def of_tensorflow(kind="worker", index=0, **cluster):
    return environment({}, TF_CONFIG={"cluster": cluster, "task": {"type": kind, "index": index}})


test_callbacks = refusals(
    (lambda: training.average_weights(None, []), "paths", "none"),
    (lambda: training.TimeLimit(0), "seconds", 0),
    (lambda: training.Utilization(6, 0), "peak_flops", 0),
    *values(functools.partial(training.TensorBoardCurves, "none"), profile_steps=((10,), (0, 2), (5, 4))),
    (lambda: training.write_projector("none", {"a": (np.eye(5), ["b"])}), "embeddings", "1 labels for 5 rows of a"),
    *values(functools.partial(training.Resume, "none"), every=(0, 0.5), keep=(0,), data=([],), callbacks=([3],)),
    (lambda: training.Resume("none", callbacks=keras.callbacks.History()), "callbacks", "History"),
    (lambda: training.HeadStatistics("none", picture="heads.png"), "attend", "heads.png"),
    *values(functools.partial(training.AttentionImages, "none", dict), every=(0, -1, 1.5)),
    (lambda: training.Resume("none", callbacks=[keras.callbacks.History]), "callbacks", "History"),
)

test_models = refusals(
    (fitted([training.Compilations()], keras.Input((4,))), "training.Model", "folder=None"),
    (fitted([training.GradientNorm()], keras.Input((4,))), "training.Model", "Sequential"),
    (fitted([training.ClusterReport()], keras.Input((4,))), "DisentangledMaskAttention", "model="),
    (fitted([training.Resume("none")]), "model", "which is not built"),
    (lambda: fitted(training.Resume("none"), keras.Input((4,)))(), "list", "callbacks="),
)

test_devices = refusals(
    *values(training.make_strategy, replicas=(0, -1, 1.5), kind=("horovod",)),
    (lambda: training.make_strategy("2"), "replicas", "replicas='2'"),
    (lambda: (tf.constant(0), training.make_strategy(5)), "4 logical", "replicas=5"),
    (lambda: training.make_strategy(2, kind="multi_worker"), "CUDA_VISIBLE_DEVICES", "replicas=2"),
    (lambda: (tf.constant(0), training.cache_compilations("none")), "cache", "folder=none", RuntimeError),
)

test_environments = refusals(
    (environment({}), "TF_CONFIG", "none of TF_CONFIG"),
    (environment({"TF_CONFIG": "{"}), "TF_CONFIG", "{"),
    (environment({}, TF_CONFIG={"cluster": {"worker": ["a:1"]}}), "TF_CONFIG", "KeyError: 'task'"),
    (of_tensorflow(worker=["a:1"], index=1), "TF_CONFIG", "IndexError"),
    (of_tensorflow(worker=["a:1"], kind="evaluator"), "TF_CONFIG", "KeyError: 'evaluator'"),
    (of_tensorflow(worker=["a:1"], ps=["b:1"]), "chief and worker", "ps"),
    (environment({}, SM_HOSTS=["algo-1"]), "SM_HOSTS", "KeyError: 'SM_CURRENT_HOST'"),
    (environment({}, SM_HOSTS="algo-1", SM_CURRENT_HOST="algo-1"), "SM_HOSTS", "SM_HOSTS=algo-1"),
    (environment({}, SM_HOSTS=["algo-1"], SM_CURRENT_HOST="algo-2"), "SM_HOSTS", "SM_CURRENT_HOST=algo-2"),
    (environment({name: SLURM[name] for name in SLURM if name != "SLURM_PROCID"}), "srun", "KeyError: 'SLURM_PROCID'"),
    (environment(SLURM, SLURM_STEP_TASKS_PER_NODE="2"), "srun", "SLURM_STEP_TASKS_PER_NODE=2,"),
    (environment(SLURM, SLURM_PROCID="8"), "srun", "SLURM_PROCID=8,"),
    (environment(SLURM, SLURM_PROCID="1", SLURM_LOCALID="0"), "--distribution=block", "rank 1 is task 0 of node10"),
)
