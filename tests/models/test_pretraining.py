"""`ElectraPretraining` and `MaskedLMPretraining`: their losses, training, precision, files."""

import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.layers import EvolvingAttention
from keras_headattn.models import Bert, ElectraPretraining, MaskedLM, MaskedLMPretraining
from keras_headattn.optimizers import AdamWeightDecay, Repulsive
from tests.layers.harness import array, check_close, randomize
from tests.models.electra import CALM, LENGTH, MASK, SPECIAL, VOCABULARY, given_masks, given_numbers, make, texts

EVOLVING = functools.partial(EvolvingAttention, alpha=0.1, beta=0.1)


def make_masked(cls=MaskedLMPretraining, **arguments):
    encoder = Bert(VOCABULARY, 12, 10, num_layers=1, num_heads=3, max_length=LENGTH, pooler=False, **arguments)
    return cls(MaskedLM(encoder), MASK, SPECIAL, seed=1)


MAKE = {"electra": functools.partial(make, seed=1), "masked": make_masked}
each_model = pytest.mark.parametrize("make_model", MAKE.values(), ids=MAKE)


# ----------------------------------------------------------------------------------------------- what it is


@pytest.mark.parametrize(
    "size, discriminator, generator",
    [
        ("electra_small", 13_549_057, 647_162),  # measured on the original program
        ("electra_base", 108_891_648 + 768 * 768 + 2 * 768 + 1, None),
    ],
)
def test_parameters(size, discriminator, generator):
    """In a graph, whose variables are not made."""
    with tf.Graph().as_default():
        model = ElectraPretraining.from_size(size, 103, (101, 102))
        model.build()
    assert model.discriminator.count_params() == discriminator
    encoder = model.generator.encoder
    if generator:
        assert model.count_params() - discriminator == generator
        assert (encoder.num_layers, encoder.hidden_dim, encoder.intermediate_dim, encoder.num_heads) == (12, 64, 256, 1)
    else:
        assert (encoder.num_layers, encoder.hidden_dim, encoder.intermediate_dim, encoder.num_heads) == (
            12,
            256,
            1024,
            4,
        )


def test_published_small_size():
    """Its generator is as wide as its discriminator: 9,573,818 parameters besides the embeddings."""
    with tf.Graph().as_default():
        model = ElectraPretraining.from_size("electra_small", 103, (101, 102), generator_share=1.0)
        model.build()
    assert model.count_params() - model.discriminator.count_params() == 9_573_818


def test_initial_weights():
    """Glorot's uniform numbers for the projections of embeddings and the last layer, else normal ones of 0.02."""
    model = make(hidden_dim=48, embedding_dim=32, vocabulary_size=200)
    model.build()
    uniform = (model.generator.encoder.embedding_projection, model.discriminator.encoder.embedding_projection)
    for layer in (*uniform, model.discriminator.output_projection):
        limit = np.sqrt(6 / sum(layer.kernel.shape))
        kernel = np.abs(array(layer.kernel))
        assert kernel.max() <= limit and kernel.max() > 0.8 * limit
    others = (model.generator.hidden, model.discriminator.hidden, model.generator.encoder.blocks[1].feed_forward.inner)
    for layer in others:
        kernel = array(layer.kernel)
        assert np.abs(kernel).max() <= 0.04 + 1e-6 and 0.015 < kernel.std() < 0.02


@each_model
def test_added_losses_count(make_model):
    """Those of attention and of regularizers."""
    model = make_model(attention="disentangled_mask")
    inputs = texts()
    outputs = model(inputs, training=True)
    total, added = float(model.compute_loss(inputs, None, outputs)), sum(map(float, model.losses))
    assert added > 0 and total - added == pytest.approx(oracle(model, inputs, outputs)["loss"], rel=1e-5)


def oracle(model, inputs, outputs):
    """Losses and measures of logits, in NumPy."""
    out = {name: np.asarray(keras.ops.convert_to_numpy(x)) for name, x in outputs.items()}
    ids, is_real, weights = inputs["token_ids"], inputs["token_ids"] != 0, out["mask_weights"]
    logits = out["mask_logits"].astype("float64")
    labels = np.take_along_axis(ids, out["mask_positions"], axis=1)
    log_softmax = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(log_softmax, labels[..., None], axis=-1)[..., 0]
    mean = lambda x: (x * weights).sum() / weights.sum()  # noqa: E731
    found = {"generator_loss": mean(losses), "masked_accuracy": mean(logits.argmax(-1) == labels)}
    if "replaced_ids" not in out:
        return found | {"loss": found["generator_loss"]}
    text = ids.copy()
    for row, column in zip(*np.nonzero(weights), strict=True):
        text[row, out["mask_positions"][row, column]] = out["sampled_ids"][row, column]
    np.testing.assert_array_equal(out["replaced_ids"], text)
    replaced, scores = text != ids, out["replaced_logits"].astype("float64")
    np.testing.assert_array_equal(out["replaced_labels"], replaced)
    found["discriminator_loss"] = np.log1p(np.exp(np.where(replaced, -scores, scores)))[is_real].mean()
    found["sampled_accuracy"] = mean(out["sampled_ids"] == labels)
    found["replaced_share"] = replaced[is_real].mean()
    guesses, truth = scores[is_real] > 0, replaced[is_real]
    found["detection_accuracy"] = (guesses == truth).mean()
    found["detection_precision"] = (guesses & truth).sum() / max(1, guesses.sum())
    found["detection_recall"] = (guesses & truth).sum() / truth.sum()
    order = scores[is_real][truth][:, None] - scores[is_real][~truth]
    found["detection_auc"] = (order > 0).mean()
    return found | {"loss": found["generator_loss"] + 50 * found["discriminator_loss"]}


@each_model
def test_losses_and_measures(make_model):
    """Those of an evaluation, in NumPy; it draws nothing, and gives the same once more."""
    model, inputs = make_model(), texts()
    model.build()
    randomize(model)
    model.compile("sgd", run_eagerly=True)
    if isinstance(model, ElectraPretraining):  # half of its guesses are that a token was replaced; sure ones, for AUC
        kernel, bias = model.discriminator.output_projection.trainable_weights
        kernel.assign(10 * kernel)
        bias.assign(bias - np.median(array(model(inputs)["replaced_logits"])[inputs["token_ids"] > 0]))
    expected = oracle(model, inputs, model(inputs))
    assert "loss" in expected and expected.get("detection_recall", 0.5) > 0
    state = array(model.seed_generator.state)
    for _ in range(2):
        found = model.evaluate(inputs, batch_size=len(inputs["token_ids"]), verbose=0, return_dict=True)
        assert set(found) <= set(expected)
        for name, value in found.items():
            assert value == pytest.approx(expected[name], rel=1e-4, abs=0.03 if name == "detection_auc" else 1e-6), name
    np.testing.assert_array_equal(array(model.seed_generator.state), state)


def test_embeddings_are_shared():
    """A step's gradients of both networks add up in them, and none passes through the samples."""
    model = make(**CALM)
    model.build()
    one, other = model.generator.encoder, model.discriminator.encoder
    assert one.token_embedding is other.token_embedding and one.embedding_norm is other.embedding_norm
    inputs = given_masks(model)
    with tf.GradientTape(persistent=True) as tape, given_numbers(0.5):
        outputs = model(inputs)
        both = model.compute_loss(inputs, y_pred=outputs)
        weights = outputs["mask_weights"]
        generator = keras.ops.sum(outputs["mask_losses"] * weights) / keras.ops.sum(weights)
        discriminator = both - generator
    table = one.token_embedding.embeddings.value
    found = [tf.convert_to_tensor(tape.gradient(loss, table)) for loss in (both, generator, discriminator)]
    check_close(found[0], found[1] + found[2], 1e-5)
    assert all(np.abs(array(gradient)).max() > 1e-3 for gradient in found)
    own = [weight.value for weight in one.trainable_weights if "/generator/" in weight.path]
    assert len(own) == 2 + 2 * 16
    assert not any(np.any(gradient) for gradient in tape.gradient(discriminator, own) if gradient is not None)


@pytest.mark.parametrize("attention", [EVOLVING, "talking_heads"])
def test_any_attention(attention):
    """In either network; padding changes no loss."""
    model = make(attention=attention, generator_attention=attention, **CALM)
    model.build()
    names = {"EvolvingAttention", "TalkingHeadsAttention"}
    assert all(
        type(head.encoder.blocks[1].attention).__name__ in names for head in (model.generator, model.discriminator)
    )
    inputs = given_masks(randomize(model))
    shorter = {name: x if name.startswith("mask_") else np.delete(x, np.s_[-2:], 1) for name, x in inputs.items()}
    keep = (inputs["token_ids"] != 0).sum(axis=1) <= LENGTH - 2
    losses = []
    for given in (inputs, shorter):
        given = {name: x[keep] for name, x in given.items()}
        with given_numbers(0.5):
            losses.append(float(model.compute_loss(given, y_pred=model(given))))
    assert keep.any() and losses[0] == pytest.approx(losses[1], rel=1e-5)


# ------------------------------------------------------------------------------------------------- training


@each_model
def test_training(make_model):
    """What is masked follows from what is before it; every weight moves."""
    keras.utils.set_random_seed(0)  # weights, and the order of rows in `fit`
    model = make_model()
    rows = np.arange(256)[:, None] + np.arange(LENGTH - 2)
    ids = np.pad(5 + rows % (VOCABULARY - 5), ((0, 0), (1, 1)), constant_values=((0, 0), (2, 3))).astype("int32")
    model.build()
    before = [array(weight) for weight in model.trainable_weights]
    model.compile(AdamWeightDecay(3e-3, global_clipnorm=1.0), jit_compile=False)
    history = model.fit({"token_ids": ids}, batch_size=32, epochs=15, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]
    assert history["masked_accuracy"][-1] > history["masked_accuracy"][0]
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.abs(array(weight) - old).max() > 0 or "key/bias" in weight.path, weight.path


def test_repulsive_heads():
    """Of the discriminator's first layer alone."""
    model = make(seed=1)
    inner = AdamWeightDecay(1e-3, global_clipnorm=1.0)
    optimizer = Repulsive(
        inner, step_size=0.01, repulsive_weight=0.1, select=r"discriminator/.*block_0/", verbose=False
    )
    model.compile(optimizer, run_eagerly=True)
    model.fit(texts(), verbose=0)
    assert len(optimizer._head_axes) == 3
    paths = [weight.path for weight in model.trainable_weights if "block_0/attention/query/kernel" in weight.path]
    assert sorted(path.split("/")[1] for path in paths) == ["discriminator", "generator"]


# ---------------------------------------------------------------------------------- precision, files, errors


def test_bfloat16():
    """Logits, samples and losses are in float32, and near those of float32."""
    model = make(seed=1, **CALM)
    model.build()
    randomize(model)
    keras.config.set_dtype_policy("mixed_bfloat16")
    mixed = make(seed=1, **CALM)
    mixed.build()
    mixed.set_weights(model.get_weights())
    inputs = given_masks(model)
    with given_numbers(0.5):
        outputs, expected = mixed(inputs), model(inputs)
        loss = mixed.compute_loss(inputs, y_pred=outputs)
        check_close(loss, model.compute_loss(inputs, y_pred=expected), 0.5)
    assert {name for name, x in outputs.items() if keras.backend.standardize_dtype(x.dtype) == "bfloat16"} == set()
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    assert mixed.discriminator.encoder.blocks[0].compute_dtype == "bfloat16"
    mixed.compile("adam", run_eagerly=True)
    assert np.isfinite(mixed.fit(texts(), verbose=0).history["loss"][0])


@each_model
def test_files(make_model, tmp_path):
    """A model that is loaded computes the same; its masks are those of its seed."""
    model = make_model()
    model.compile(AdamWeightDecay(1e-3), run_eagerly=True)
    model.fit(texts(), verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())
    assert [weight.path for weight in loaded.weights] == [weight.path for weight in model.weights]
    inputs = texts()
    first, second = (array(each(inputs)["mask_logits"]) for each in (model, loaded))
    np.testing.assert_array_equal(first, second)
    found = [keras.ops.convert_to_numpy(each.draw_masks(inputs)["masked_ids"]) for each in (make_model(), loaded)]
    np.testing.assert_array_equal(*found)
    if isinstance(loaded, ElectraPretraining):
        assert loaded.generator.encoder.token_embedding is loaded.discriminator.encoder.token_embedding
    model.save_weights(tmp_path / "weights.weights.h5")
    again = make_model()
    again.build()
    again.load_weights(tmp_path / "weights.weights.h5")
    np.testing.assert_array_equal(array(again(inputs)["mask_logits"]), first)
