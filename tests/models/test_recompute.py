"""Recomputed blocks train as others do, with less memory."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers, models
from keras_headattn.training import Model, make_strategy
from tests.layers.harness import check_close

RANDOM = np.random.default_rng(0)
INPUTS = {"source": RANDOM.integers(0, 50, (4, 9)), "target": RANDOM.integers(0, 50, (4, 7))}
SIZES = dict(num_layers=2, hidden_dim=16, intermediate_dim=32, num_heads=4, dropout=0.2, seed=1)
MODELS = {
    "transformer": (models.Transformer, dict(source_vocabulary_size=50, attention="disentangled_mask")),
    "evolving": (models.Transformer, dict(source_vocabulary_size=50, attention="evolving")),
    "t5": (models.T5, dict(vocabulary_size=50)),
}


def pair(name, **sizes):
    cls, arguments = MODELS[name]
    kept = cls(**arguments, **{**SIZES, **sizes})
    kept(INPUTS)
    recomputed = cls.from_config({**kept.get_config(), "recompute": True})
    recomputed(INPUTS)
    recomputed.set_weights(kept.get_weights())
    return kept, recomputed


@pytest.mark.parametrize("name", MODELS)
def test_gradients(name):
    results = []
    for model in pair(name):
        with tf.GradientTape() as tape:
            logits = model(INPUTS, training=True)
            loss = tf.reduce_sum(tf.sin(logits)) + sum(model.losses)
        results.append([loss, *tape.gradient(loss, [variable.value for variable in model.trainable_variables])])
        states = [variable for variable in model.non_trainable_variables]
        results[-1] += [tf.cast(state, "float32") for state in states]  # seeds move on, averages too
    for one, other in zip(*results, strict=True):
        check_close(tf.convert_to_tensor(other), tf.convert_to_tensor(one), 1e-5)


@pytest.mark.slow
def test_two_replicas_with_xla_train_as_one_that_keeps_everything():
    histories = []
    for replicas, recompute in ((1, False), (2, True)):
        with make_strategy(replicas).scope():
            cls, arguments = MODELS["t5"]
            model = cls(**arguments, **{**SIZES, "dropout": 0.0, "num_layers": 1}, recompute=recompute)
            inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
            trainer = Model(inputs, model(inputs))
            model.set_weights([np.cos(np.arange(w.size)).reshape(w.shape) / 4 for w in model.get_weights()])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            trainer.compile(keras.optimizers.SGD(0.1), loss, jit_compile=recompute)
            fit = trainer.fit(INPUTS, INPUTS["target"], epochs=3, batch_size=4, shuffle=False, verbose=0)
            histories.append(fit.history["loss"])
    assert histories[1] == pytest.approx(histories[0], rel=1e-4)


def test_intermediates_are_those_of_the_call():
    _, model = pair("t5")
    _, found = model(INPUTS, training=True, return_intermediates=True)
    assert found["encoder_0/attention"]["weights"].shape == (4, 4, 9, 9)


def test_bert_passes_it_on():
    encoder = models.Bert(50, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, recompute=True)
    assert encoder.blocks[0].recompute
    assert layers.EncoderBlock.from_config(encoder.blocks[0].get_config()).recompute
