"""`AdamWeightDecay` against ELECTRA's own program and against its equations, and in the rest of Keras."""

import contextlib
import functools
import json

import keras
import numpy as np
import pytest

from keras_headattn.models import Bert, EncoderClassifier
from keras_headattn.optimizers import AdamWeightDecay, LinearDecay, Repulsive, layerwise_rates

HEADS = 3


@pytest.fixture
def program(golden):
    return golden("electra_optimizer.npz")


# Parts of its names, and those of a `Bert`.
OURS = {
    "embeddings/word_embeddings": "token_embedding/embeddings",
    "embeddings/LayerNorm": "embedding_norm",
    "embeddings_project": "embedding_projection",
    "encoder/layer_": "block_",
}


def of_program(data, run):
    """Its weights, by its names, with our paths; kernels of attention have an axis of heads."""
    found = {}
    for name in (name.removeprefix(f"{run}.") for name in data.files if name.startswith(f"{run}.")):
        path = functools.reduce(lambda path, part: path.replace(*part), OURS.items(), name)
        value = data[f"initial.{name}"]
        with contextlib.ExitStack() as scopes:
            *outer, leaf = path.split("/")
            for each in outer:
                scopes.enter_context(keras.name_scope(each))
            shape = (12, HEADS, 4) if "/self/" in name and leaf == "kernel" else value.shape
            found[name] = keras.Variable(value.reshape(shape), name=leaf)
        assert found[name].path == path
    return found


@pytest.mark.parametrize("run", ["pretraining", "finetuning", "repulsive"])
def test_program(program, run):
    """Eight steps, the first at a rate of 0; of fine-tuning by layers; and with heads that repel, as they do there."""
    settings = json.loads(str(program["meta_json"]))["runs"][run]
    layerwise = run == "finetuning"
    schedule = LinearDecay(settings["learning_rate"], 3 if layerwise else 4, 12, decay_in_warmup=True)
    rates = layerwise_rates(2, settings["layerwise_lr_decay_power"]) if layerwise else None
    optimizer = AdamWeightDecay(schedule, settings["weight_decay_rate"], rates=rates, global_clipnorm=1.0)
    if run == "repulsive":
        optimizer = Repulsive(
            optimizer,
            step_size=settings["stepsize"],
            repulsive_weight=settings["d_kernel_weight"],
            select="electra/.*block_0/",
            grouping="interleaved",
            bandwidth="code",
            verbose=False,
        )
    weights = of_program(program, run)
    optimizer.build(list(weights.values()))
    for step in range(8):
        gradients = [program[f"gradient.{name}"][step].reshape(weight.shape) for name, weight in weights.items()]
        optimizer.apply([keras.ops.convert_to_tensor(gradient) for gradient in gradients])
        for name, weight in weights.items():
            expected = program[f"{run}.{name}"][step].reshape(weight.shape)
            np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), expected, rtol=0, atol=1e-6, err_msg=name)


# --------------------------------------------------------------------------------------- equations and rates


def classifier(**arguments):
    calm = dict(dropout=0.0, attention_dropout=0.0)
    encoder = Bert(11, 8, 8, num_layers=2, num_heads=2, max_length=6, embedding_dim=4, pooler=False, **calm)
    model = EncoderClassifier(encoder, 2, "linear", dropout=0.0, **arguments)
    model.build()
    return model


def test_equations():
    """Three steps in NumPy, with a factor and without decay where the name says so."""
    rng = np.random.default_rng(0)
    weights = [keras.Variable(rng.normal(size=4), name=name) for name in ("kernel", "gamma", "slow")]
    expected = [keras.ops.convert_to_numpy(weight).astype("float64") for weight in weights]
    optimizer = AdamWeightDecay(0.1, 0.05, rates={"slow": 0.25}, beta_1=0.8, beta_2=0.9, epsilon=1e-3)
    mean, square = np.zeros((3, 4)), np.zeros((3, 4))
    for _ in range(3):
        gradients = rng.normal(size=(3, 4)).astype("float32")
        optimizer.apply([keras.ops.convert_to_tensor(each) for each in gradients], weights)
        mean, square = 0.8 * mean + 0.2 * gradients, 0.9 * square + 0.1 * gradients**2
        for index, (factor, decay) in enumerate(((1, 0.05), (1, 0), (0.25, 0.05))):
            direction = mean[index] / (np.sqrt(square[index]) + 1e-3) + decay * expected[index]
            expected[index] = expected[index] - 0.1 * factor * direction
    for weight, value in zip(weights, expected, strict=True):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), value, atol=1e-6)


@pytest.mark.parametrize("skipped", [0, 1])
def test_layerwise_rates(skipped):
    """Each weight of a model moves by its factor, as all gradients have one sign; the head by 1."""
    model = classifier()
    optimizer = AdamWeightDecay(1.0, 0.0, rates=layerwise_rates(2, 0.5, skipped), epsilon=0.0)
    before = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_weights]
    optimizer.apply([keras.ops.ones_like(weight) for weight in model.trainable_weights], model.trainable_weights)
    top = {"embedding": 3 + skipped, "block_0": 2 + skipped, "block_1": 1 + skipped, "output_projection": 0}
    assert len(before) == 5 + 2 + 2 * 16 + 2
    for weight, old in zip(model.trainable_weights, before, strict=True):
        power = next(power for name, power in top.items() if name in weight.path)
        moved = (old - keras.ops.convert_to_numpy(weight)) / (0.1 / 0.001**0.5)
        np.testing.assert_allclose(moved, 0.5**power, rtol=1e-5, err_msg=weight.path)


def test_decay_left_out():
    """By another choice than the default one."""
    weights = [keras.Variable([1.0], name=name) for name in ("kernel", "bias")]
    optimizer = AdamWeightDecay(0.1, 0.5)
    optimizer.exclude_from_weight_decay(var_names=["kernel"])
    optimizer.apply([keras.ops.zeros((1,))] * 2, weights)
    assert [float(weight.numpy()[0]) for weight in weights] == pytest.approx([1.0, 0.95])


# -------------------------------------------------------------------------------------------- rest of Keras

DATA = np.random.default_rng(0).integers(1, 11, (12, 6)).astype("int32"), np.arange(12) % 2


def trained(optimizer, epochs=2, batch_size=6, **compiling):
    keras.utils.set_random_seed(0)
    model = classifier()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, **(compiling or {"run_eagerly": True}))
    model.fit(*DATA, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0)
    return model


def check_equal(one, other, atol=2e-6):
    for mine, theirs in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=atol)


def make(**arguments):
    return AdamWeightDecay(LinearDecay(0.01, 2, 20), rates=layerwise_rates(2), global_clipnorm=1.0, **arguments)


def test_xla_equals_eager():
    check_equal(trained(make(epsilon=1e-3), jit_compile=True), trained(make(epsilon=1e-3)), atol=1e-5)


def test_accumulation():
    """The mean over parts of a batch, and rows of an embedding that were looked up several times, as over all of it."""
    whole = trained(AdamWeightDecay(0.01, epsilon=1e-3), batch_size=12)
    parts = trained(AdamWeightDecay(0.01, epsilon=1e-3, gradient_accumulation_steps=2), batch_size=6)
    check_equal(parts, whole)


def test_saved_model_goes_on_where_it_was(tmp_path):
    model = trained(make())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    config = model.optimizer.get_config()
    assert loaded.optimizer.get_config() == config and config["rates"] == layerwise_rates(2)
    for one in (model, loaded):
        one.run_eagerly = True
        one.fit(*DATA, epochs=2, batch_size=6, shuffle=False, verbose=0)
    check_equal(model, loaded, atol=0)
