"""Heads of `Bert`: equations, training, compilation, precision, files, symbolic and empty inputs."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import RealFormerAttention
from keras_headattn.models import Bert, EncoderClassifier, MaskedLM, ReplacedTokenDetector, SpanAnswerer
from keras_headattn.utils import flatten_layers
from tests.models.encoders import (
    ALONE,
    EVOLVING,
    HEADS_OF,
    VOCABULARY,
    WIDTH,
    inputs_of,
    make,
    make_head,
    pairs,
    paths,
    sentences,
)
from tests.models.small import array, check_close, randomize

each_head = pytest.mark.parametrize("head", HEADS_OF)


@pytest.mark.parametrize("head", [head for head in HEADS_OF if head != "modernbert"])
def test_heads(head):
    """Their equations, in NumPy; that of ModernBERT is in test_modernbert.py."""
    model = make_head(head)
    inputs = inputs_of(model)
    given = {name: value for name, value in inputs.items() if name not in model.head_inputs}
    outputs = {name: array(value) for name, value in model.encoder(given).items()}
    dense = lambda layer, x: x @ array(layer.kernel) + array(layer.bias)  # noqa: E731
    gelu = lambda x: array(keras.activations.gelu(x))  # noqa: E731
    x, is_real = outputs["sequence_output"], given["token_ids"] != model.encoder.pad_id
    if head == "masked":
        x = gelu(dense(model.hidden, x))
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        x = x * array(model.norm.gamma) + array(model.norm.beta)
        logits = x @ array(model.encoder.token_embedding.embeddings).T + array(model.output_bias)
        check_close(model(given), logits, 1e-5)
        expected = np.take_along_axis(logits, inputs["mask_positions"][:, :, None], axis=1)
    elif head == "span":
        logits = np.swapaxes(dense(model.output_projection, x), 1, 2)
        check_close(model(given), np.where(is_real[:, None], logits, -1e9), 1e-5)
        expected = np.where((inputs["answer_mask"] * is_real)[:, None] == 1, logits, -1e9)
    elif head == "tokens":
        expected = dense(model.output_projection, x)
    elif head == "replaced":
        expected = dense(model.output_projection, gelu(dense(model.hidden, x)))[..., 0]
    else:
        first = x[:, 0]
        if head == "mean":  # of all but padding, which is not 0
            assert not is_real.all()
            first = np.stack([states[real].mean(axis=0) for states, real in zip(x, is_real, strict=True)])
        hidden = {
            "bert": lambda _: outputs["pooled_output"],
            "electra": lambda x: gelu(dense(model.hidden, x)),
            "linear": lambda x: x,
        }
        expected = hidden.get(head, lambda x: np.tanh(dense(model.hidden, x)))(first)
        expected = dense(model.output_projection, expected)
        assert expected.shape == (3, 1 if head == "electra" else 3)
    check_close(model(inputs), expected, 1e-5)


def test_parameters_with_a_head_of_2000():
    """Printed: 110.4M. In place of the pooler, with the classes of a task of two."""
    with tf.Graph().as_default():
        model = EncoderClassifier(Bert.from_size("bert_base", attention="evolving", pooler=False), 2, head_dim=2000)
        model.build()
    assert model.count_params() == 109_482_240 - 590_592 + 14_388 + 768 * 2000 + 2000 + 2000 * 2 + 2
    assert round(model.count_params() / 1e6, 2) == 110.45


def labels_of(model):
    if isinstance(model, MaskedLM):
        return np.array([[1, 2], [3, 4], [5, 6]])
    if isinstance(model, SpanAnswerer):
        return np.array([[3, 4], [0, 0], [2, 5]])
    if isinstance(model, ReplacedTokenDetector):
        return (sentences(seed=1) > 6).astype("float32")
    return np.array([0, 2, 1]) if model.num_outputs == 3 else np.array([0.5, -1.0, 2.0])


def loss_of(model):
    if isinstance(model, ReplacedTokenDetector):
        return keras.losses.BinaryCrossentropy(from_logits=True)
    if isinstance(model, EncoderClassifier) and model.num_outputs == 1:
        return keras.losses.MeanSquaredError()
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.mark.parametrize(
    "head, attention, jit_compile",
    [
        ("bert", EVOLVING, False),
        ("own_pooler", RealFormerAttention, False),
        ("roberta", EVOLVING, False),
        ("electra", "multi_head", False),
        ("masked", EVOLVING, True),
        ("replaced", "talking_heads", False),
        ("span", EVOLVING, False),
    ],
)
def test_training(head, attention, jit_compile):
    """The loss falls, and every weight moves; with XLA the loss is that of eager mode."""
    model = make_head(head, randomly=False, attention=attention, dropout=0.0, attention_dropout=0.0, seed=1)
    inputs, labels = inputs_of(model), labels_of(model)
    before = model.get_weights()
    model.compile(keras.optimizers.Adam(0.03), loss_of(model), jit_compile=jit_compile, run_eagerly=not jit_compile)
    at_first = float(loss_of(model)(labels, model(inputs)))
    losses = [model.train_on_batch(inputs, labels) for _ in range(10)]
    assert losses[-1] < 0.9 * losses[0]  # of the last, the mean of all
    for variable, old in zip(model.weights, before, strict=True):
        assert np.abs(array(variable) - old).max() > 0 or "key/bias" in variable.path, variable.path
    if jit_compile:
        assert losses[0] == pytest.approx(at_first, rel=1e-5)


def test_the_first_step_is_traced_once(monkeypatch):
    steps = []
    step = EncoderClassifier.train_step
    monkeypatch.setattr(EncoderClassifier, "train_step", lambda self, data: steps.append(data) or step(self, data))
    model = EncoderClassifier(make(num_layers=1, attention=ALONE), 3)
    model.compile("adam", loss_of(model), jit_compile=False)
    model.fit(pairs(batch=4), np.array([0, 2, 1, 1]), verbose=0)
    assert len(steps) == 1


def test_two_replicas():
    """The loss and the weights of a step are those of one."""
    results = []
    for strategy in (None, tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])):
        with strategy.scope() if strategy else tf.device("CPU:0"):
            encoder = make(num_layers=1, attention=ALONE, dropout=0.0, attention_dropout=0.0)
            model = EncoderClassifier(encoder, 3, dropout=0.0)
            model.build()
            randomize(model)
            model.compile(keras.optimizers.SGD(0.1), loss_of(model), jit_compile=False)
        inputs = pairs(batch=4)
        data = tf.data.Dataset.from_tensors((inputs, np.array([0, 2, 1, 1]))).unbatch().batch(4)
        loss = model.fit(data, shuffle=False, verbose=0).history["loss"][0]
        results.append((loss, [array(weight) for weight in model.trainable_weights]))
    (loss, weights), (other_loss, other_weights) = results
    assert abs(loss - other_loss) < 1e-5
    for one, other in zip(weights, other_weights, strict=True):
        check_close(one, other, 1e-5)


@pytest.mark.parametrize("head", ["bert", "roberta", "masked", "replaced"])
def test_mixed_precision(head):
    """Outputs of heads are in float32; weights too, and a sentence may be padding alone."""
    dtype = "bfloat16" if head == "roberta" else "float16"
    keras.config.set_dtype_policy(f"mixed_{dtype}")
    mixed = make_head(head, num_layers=1, attention=ALONE)
    keras.config.set_dtype_policy("float32")
    model = make_head(head, num_layers=1, attention=ALONE)
    inputs = inputs_of(model)
    logits = mixed(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert all(weight.dtype == "float32" for weight in mixed.trainable_weights)
    assert {layer.compute_dtype for block in mixed.encoder.blocks for layer in flatten_layers(block)} == {dtype}
    check_close(logits, model(inputs), 0.02 if dtype == "float16" else 0.15)
    inputs["token_ids"][0] = model.encoder.pad_id
    assert np.isfinite(array(mixed(inputs))).all()


@each_head
def test_file_of_a_head(head, tmp_path):
    model = make_head(head, attention=functools.partial(EVOLVING, map_initializer="identity"), seed=2)
    expected, inputs = model(inputs_of(model)), inputs_of(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(loaded(inputs)), array(expected))
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())
    assert paths(loaded.encoder) == paths(model.encoder)


def test_symbolic():
    model = make_head("masked")
    names = ("token_ids", "segment_ids", "mask_positions")
    symbolic = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    output = model(symbolic)
    assert (output.shape, output.dtype) == ((None, None, VOCABULARY), "float32")
    check_close(keras.Model(symbolic, output)(inputs_of(model)), model(inputs_of(model)), 1e-5)
    outputs = make("roberta")(keras.Input((None,), dtype="int32"))
    assert outputs["sequence_output"].shape == (None, None, WIDTH)


def test_empty_batch():
    for head in ("roberta", "masked"):
        model = make_head(head)
        inputs = {name: value[:0] for name, value in inputs_of(model).items()}
        assert 0 == model(inputs).shape[0]
