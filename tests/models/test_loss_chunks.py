"""Models train in the same way with and without the logits of a whole batch in memory."""

import keras
import numpy as np
import pytest

from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models import T5, Bert, ElectraPretraining, MaskedLM, MaskedLMPretraining, Transformer
from keras_headattn.training import Model, make_strategy
from tests.layers.harness import array
from tests.models import electra
from tests.refusals import refused

VOCABULARY, CHUNK = 50, 5  # of 28 target tokens
RANDOM = np.random.default_rng(0)
INPUTS = {"source": RANDOM.integers(1, VOCABULARY, (4, 9)), "target": RANDOM.integers(1, VOCABULARY, (4, 7))}
LABELS = RANDOM.integers(0, VOCABULARY, (4, 7))
WEIGHTS = (LABELS > 5).astype("float32")
SIZES = dict(num_layers=1, hidden_dim=16, intermediate_dim=32, num_heads=4, dropout=0.2, seed=1)
MODELS = {
    "tied": (Transformer, {}),
    "tied_bias": (Transformer, dict(output_bias=True, target_vocabulary_size=VOCABULARY)),
    "added_losses": (Transformer, dict(attention="mixture_of_heads", tie_output=False, output_bias=True)),
    "t5": (T5, {}),
}


class Distributed(Transformer, Model):
    """A Transformer for several replicas."""


def make(cls, weights=None, **arguments):
    model = cls(VOCABULARY, **{**SIZES, **arguments})
    model.build()
    if weights:
        model.set_weights(weights)
    return model


def compiled(model, **arguments):
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="accuracy")] if model.loss_chunk_size is None else None
    model.compile(keras.optimizers.SGD(0.5), LabelSmoothedCrossentropy(0.1), weighted_metrics=metrics, **arguments)
    return model


def fit(model):
    common = dict(batch_size=4, shuffle=False, verbose=0, validation_data=(INPUTS, LABELS, WEIGHTS))
    return model.fit(INPUTS, LABELS, sample_weight=WEIGHTS, epochs=2, **common).history


def check_histories(found, expected, rtol=1e-5):
    assert found.keys() == expected.keys() == {"loss", "accuracy", "val_loss", "val_accuracy"}
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=rtol, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
def test_fit(name):
    cls, arguments = MODELS[name]
    whole = make(cls, **arguments)
    chunks = make(cls, whole.get_weights(), loss_chunk_size=CHUNK, **arguments)
    how = dict(run_eagerly=name != "tied")  # which is quicker
    check_histories(fit(compiled(chunks, **how)), fit(compiled(whole, **how)))
    for one, other in zip(chunks.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_other_calls_return_logits():
    model = make(Transformer, loss_chunk_size=CHUNK)
    fit(compiled(model))
    logits = model.predict(INPUTS, verbose=0)
    assert logits.shape == model(INPUTS, training=True).shape == (4, 7, VOCABULARY)
    plain = make(Transformer, model.get_weights())
    np.testing.assert_allclose(logits, plain(INPUTS), atol=1e-5)


def test_steps_leave_calls_as_they_were_after_an_error():
    model = make(Transformer, loss_chunk_size=CHUNK)
    model.compile("sgd", LabelSmoothedCrossentropy())
    with refused("`inputs`"):
        model.train_on_batch(INPUTS["source"], LABELS)
    assert not model.needs_states and model(INPUTS).shape == (4, 7, VOCABULARY)


class Doubled(LabelSmoothedCrossentropy):
    def call(self, y_true, y_pred):
        return 2 * super().call(y_true, y_pred)


def test_losses_that_chunks_would_change():
    model = make(Transformer, loss_chunk_size=CHUNK)
    with refused("`loss_weights` must be None", "0.5"):
        model.compile("sgd", LabelSmoothedCrossentropy(), loss_weights=0.5)
    with refused("`loss` must be", "Doubled"):
        model.compile("sgd", Doubled())


@pytest.mark.parametrize("reduction", ["sum", "mean_with_sample_weight"])
def test_reductions(reduction):
    whole = make(Transformer, dropout=0.0)
    chunks = make(Transformer, whole.get_weights(), dropout=0.0, loss_chunk_size=CHUNK)
    losses = []
    for model in (whole, chunks):
        model.compile("sgd", LabelSmoothedCrossentropy(0.1, reduction=reduction))
        found = model.evaluate(INPUTS, LABELS, sample_weight=WEIGHTS, verbose=0, return_dict=True)
        losses.append(found["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_it_is_kept_in_files(tmp_path):
    model = make(Transformer, loss_chunk_size=CHUNK, dropout=0.0)
    model.compile("adam", LabelSmoothedCrossentropy(0.2), run_eagerly=True)
    model.train_on_batch(INPUTS, LABELS)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.loss_chunk_size == CHUNK and loaded.loss.label_smoothing == 0.2
    logs = [each.train_on_batch(INPUTS, LABELS, return_dict=True) for each in (model, loaded)]
    assert logs[1] == pytest.approx(logs[0], rel=1e-5)


def test_in_half_precision():
    whole = make(Transformer, dtype="mixed_bfloat16")
    chunks = make(Transformer, whole.get_weights(), loss_chunk_size=CHUNK, dtype="mixed_bfloat16")
    check_histories(*(fit(compiled(model, run_eagerly=True)) for model in (chunks, whole)), rtol=1e-2)


@pytest.mark.slow
def test_two_replicas_with_xla_train_as_one_without_chunks():
    histories, weights = [], make(Transformer).get_weights()
    for replicas, chunk in ((2, CHUNK), (1, None)):
        with make_strategy(replicas).scope():
            model = make(Distributed, weights, dropout=0.0, loss_chunk_size=chunk)
            compiled(model, jit_compile=replicas == 2)
        histories.append(fit(model))
    check_histories(*histories)


# Pre-training


def masked_lm(**arguments):
    encoder = Bert(
        electra.VOCABULARY, 12, 10, num_layers=1, num_heads=3, max_length=electra.LENGTH, pooler=False, **electra.CALM
    )
    return MaskedLMPretraining(MaskedLM(encoder), electra.MASK, electra.SPECIAL, seed=1, **arguments)


PRETRAINING = {
    "masked": masked_lm,
    "electra": lambda **arguments: electra.make(ElectraPretraining, seed=1, **electra.CALM, **arguments),
}


@pytest.mark.parametrize("name", PRETRAINING)
def test_pretraining(name):
    """Tokens that are masked and sampled are the same, too."""
    whole, chunks = PRETRAINING[name](), PRETRAINING[name](loss_chunk_size=4)
    for model in (whole, chunks):
        model.build()
    chunks.set_weights(whole.get_weights())
    outputs = whole(electra.texts()), chunks(electra.texts())
    assert outputs[0].keys() - outputs[1].keys() == {"mask_logits"}
    for key, value in outputs[1].items():
        np.testing.assert_allclose(array(value), array(outputs[0][key]), atol=1e-5, err_msg=key)
    logs = []
    for model in (whole, chunks):
        model.compile(keras.optimizers.SGD(0.1))
        logs.append([model.train_on_batch(electra.texts(), return_dict=True) for _ in range(2)])
    for expected, found in zip(*logs, strict=True):
        assert found == pytest.approx(expected, rel=1e-4)
    again = type(chunks).from_config(chunks.get_config())
    assert again.loss_chunk_size == 4
