"""Layers and models made in a `keras.RematScope` compute the same, and compute it again in the backward pass."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn import layers, models
from keras_headattn.training import Model
from tests.layers.harness import CASES, KEYS, check_close, cross_inputs, each, randomize, self_input

NAMES = "multi_head", "talking", "evolving", "mixture_of_heads", "disentangled", "options"
MODES = {
    "full": dict(mode="full"),
    "larger_than": dict(mode="larger_than", output_size_threshold=10),
    "list_of_layers": dict(mode="list_of_layers", layer_names=["here"]),
}
IDS = np.random.default_rng(0).integers(1, 20, (2, 5)).astype("int32")


def bert(**arguments):
    sizes = dict(hidden_dim=8, intermediate_dim=16, num_layers=2, num_heads=2, max_length=8, seed=1, dropout=0.2)
    return models.Bert(20, **{**sizes, "attention": "evolving", **arguments})


def results(layer, *inputs, compiled=None, **call):
    """Outputs, losses, gradients and states of a step of training."""

    def step():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = keras.tree.flatten(layer(*inputs, training=True, **call))
            loss = sum(tf.reduce_sum(tf.sin(tf.cast(y, "float32"))) for y in outputs) + sum(layer.losses)
        sources = [*(v.value for v in layer.trainable_variables), *(x for x in inputs if x.dtype.is_floating)]
        gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
        return [*outputs, loss, *map(tf.convert_to_tensor, gradients)]

    inputs = [tf.convert_to_tensor(x) for x in inputs]
    found = step() if compiled is None else tf.function(step, jit_compile=compiled)()
    return [np.array(tf.cast(x, "float32")) for x in [*found, *layer.non_trainable_variables]]


def check_rematerialized(make, *inputs, scope, tolerance=1e-5, compiled=None, **call):
    plain = make()
    with keras.RematScope(**scope):
        layer = make()
        layer(*inputs)
    plain(*inputs)
    plain.set_weights(randomize(layer).get_weights())
    expected = results(plain, *inputs, **call)
    found = results(layer, *inputs, compiled=compiled, **call)
    for one, other in zip(found, expected, strict=True):
        check_close(one, other, tolerance)


@each([case for case in CASES if case.name in NAMES])
@pytest.mark.parametrize("mode", MODES)
def test_attention(case, mode):
    mask = np.arange(KEYS) < [[KEYS], [4]]
    call = dict(key_mask=mask, use_causal_mask=True, return_attention_scores=True)
    make = lambda: case.make(dropout=0.2, seed=3, name="here")  # noqa: E731
    check_rematerialized(make, *cross_inputs(), scope=MODES[mode], **call)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("make, inputs", [
    (lambda: layers.TalkingHeadsAttention(2, 4), [self_input(), self_input(1)]),
    (lambda: layers.EncoderBlock(layers.RealFormerAttention(3, 4), 16, dropout=0.0, depth=0), [self_input()]),
    (lambda: bert(attention_dropout=0.0, dropout=0.0), [IDS]),
], ids=["attention", "block", "bert"])  # fmt: skip
def test_graphs(make, inputs, compiled):
    check_rematerialized(make, *inputs, scope=MODES["full"], compiled=compiled)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_bfloat16")
    make = lambda: layers.TalkingHeadsAttention(2, 4, qk_norm=True, use_sinks=True)  # noqa: E731
    check_rematerialized(make, self_input(), self_input(1), scope=MODES["full"], tolerance=3e-2)


@pytest.mark.parametrize("mode, threshold, count", [
    ("full", 0, 2),
    ("larger_than", 79, 2),
    ("larger_than", 80, 0),  # an output of a block has 80 numbers
    ("activations", 0, 0),
])  # fmt: skip
def test_the_backward_pass_computes_each_layer_once(mode, threshold, count, monkeypatch):
    calls = []
    score = layers.Attention.score
    monkeypatch.setattr(layers.Attention, "score", lambda *args: calls.append(0) or score(*args))
    with keras.RematScope(mode=mode, output_size_threshold=threshold):
        model = bert(attention=layers.TalkingHeadsAttention(2, 4))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(IDS, training=True)["sequence_output"])
    calls.clear()
    tape.gradient(loss, model.trainable_variables)
    assert len(calls) == count


def test_inference_and_caches_stay():
    with keras.RematScope(mode="full"):
        layer = layers.MultiHeadAttention(3, 4, role="decoder")
    x = keras.ops.convert_to_tensor(self_input())
    expected, cache = layer(x, x, use_causal_mask=True), layer.init_cache(2, 5)
    output, _ = layer(x, x, cache=cache, index=0, use_causal_mask=True)
    check_close(np.array(output), np.array(expected), 1e-5)


@pytest.mark.slow
def test_training_of_a_functional_model():
    histories = []
    for mode in (None, "full"):
        keras.utils.set_random_seed(0)
        with keras.RematScope(mode=mode):
            classifier = models.EncoderClassifier(bert(), 2, dropout=0.0)
            inputs = keras.Input((None,), dtype="int32")
            model = Model(inputs, classifier(inputs))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        histories.append(model.fit(IDS, np.array([0, 1]), epochs=3, verbose=0).history["loss"])
    assert histories[1] == pytest.approx(histories[0], rel=1e-5)
