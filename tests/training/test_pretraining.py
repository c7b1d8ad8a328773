"""Pre-training on two replicas and by XLA, and after an interruption."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.models import ElectraPretraining
from keras_headattn.optimizers import AdamWeightDecay
from keras_headattn.training import Model, Resume, make_strategy
from tests.layers.harness import array, check_close, randomize
from tests.models.electra import CALM, given_masks, given_numbers, make, texts


class Distributed(ElectraPretraining, Model):
    """As docs/pretraining.md makes it."""


def trained(replicas, jit_compile, eager=False, counts=True):
    """Weights and losses after steps with given masks, from a `Dataset` of the batches of both replicas."""
    keras.utils.set_random_seed(0)
    with make_strategy(replicas).scope():
        model = make(Distributed, num_layers=1, seed=1, **CALM)
        model.build()
        randomize(model)
        optimizer = AdamWeightDecay(0.01, rates={"generator": 0.5}, global_clipnorm=0.1)
        model.compile(optimizer, jit_compile=jit_compile, run_eagerly=eager)
    inputs = given_masks(model, rows=12)
    data = tf.data.Dataset.from_tensor_slices(inputs).batch(6)
    data = data.map(model.with_counts) if counts else data
    with given_numbers(0.5):
        history = model.fit(data, epochs=2, shuffle=False, verbose=0).history
    return [array(weight) for weight in model.trainable_weights], history


@pytest.fixture(scope="module")
def on_one():
    return trained(1, False, eager=True)


def test_two_replicas_and_xla(on_one):
    """With given masks, rows of different lengths and the counts of the batch, all is as eagerly on one."""
    weights, history = trained(2, True)
    for name, values in on_one[1].items():
        assert history[name] == pytest.approx(values, rel=2e-5, abs=1e-6), name
    for weight, expected in zip(weights, on_one[0], strict=True):
        check_close(weight, expected, 2e-5)


def test_replicas_without_counts(on_one):
    """Each divides by its own, which differ."""
    _, history = trained(2, False, eager=True, counts=False)
    assert history["loss"][0] == pytest.approx(on_one[1]["loss"][0], rel=0.2)
    assert history["loss"][0] != pytest.approx(on_one[1]["loss"][0], rel=1e-4)


def test_replicas_draw_other_masks():
    """Both have the same texts; their masks differ, and so do their samples."""
    with make_strategy(2).scope():
        model = make(Distributed, num_layers=1, seed=1, **CALM)
        model.build()
        model.compile("sgd", jit_compile=False)
    model.compute_metrics = lambda x, y, y_pred, sample_weight=None: {"positions": y_pred["mask_positions"][0]}
    ids = np.tile(np.r_[2, np.arange(5, 22), 3, 0], (2, 1)).astype("int32")

    def step():
        return model.distribute_strategy.run(model.train_step, args=({"token_ids": tf.constant(ids[:1])},))

    model.optimizer.build(model.trainable_variables)
    found = tf.function(step)()["positions"]
    seen = [array(value).tolist() for value in model.distribute_strategy.experimental_local_results(found)]
    assert len(seen) == 2 and seen[0] != seen[1]


class Interrupt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 3:
            raise KeyboardInterrupt


def test_resumed_masks_are_those_of_an_uninterrupted_run(tmp_path):
    """Dropout, masks and samples are drawn."""

    def fit(*callbacks):
        keras.utils.set_random_seed(0)
        model = make(Distributed, num_layers=1, seed=1)
        model.build()
        model.compile(AdamWeightDecay(1e-3), run_eagerly=True)
        model.fit(texts(), batch_size=3, epochs=3, shuffle=False, verbose=0, callbacks=[*callbacks])
        return model

    with pytest.raises(KeyboardInterrupt):
        fit(Resume(tmp_path, every=1), Interrupt())
    for mine, theirs in zip(fit(Resume(tmp_path, every=1)).weights, fit().weights, strict=True):
        np.testing.assert_array_equal(array(mine), array(theirs))
