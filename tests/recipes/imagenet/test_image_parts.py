"""The parts of the recipe of image classification."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from recipes.engine.run import Run
from recipes.imagenet import modelling
from recipes.imagenet.__main__ import RECIPE
from recipes.imagenet.data import load_training, load_validation, training_batches, validation_batches
from recipes.imagenet.evaluation import report_damaged
from recipes.imagenet.map_classifier import make_map_classifier
from recipes.imagenet.modelling import make_classifier
from recipes.imagenet.settings import ImageNetConfig
from recipes.imagenet.train import classifier_optimizer, read_tests
from tests.recipes.commands import train_here
from tests.recipes.imagenet.image_files import make_folder
from tests.refusals import refused

DIGITS = RECIPE.named_config("digits")
TINY = dataclasses.replace(
    DIGITS,
    model_arguments=DIGITS.model_arguments | {"filters": 4},
    image_size=8,
    max_images=64,
    batch_size=16,
    epochs=2,
    decay_epochs=(1,),
)

MODERN = TINY.changed(
    {
        "model": "vit_tiny",
        "attention": "evolving",
        "model_arguments": dict(patch_size=4, hidden_dim=8, intermediate_dim=8, num_layers=2, stochastic_depth=0.5),
        "optimizer": "adamw",
        "optimizer_arguments": dict(use_ema=True, ema_momentum=0.8),
        "schedule": "cosine",
        "learning_rate": 0.1,
        "label_smoothing": 0.1,
        "rand_augment": 5,
        "random_erasing": 0.5,
        "mixup": 0.8,
        "cutmix": 1.0,
        "export": None,
    }
)


@pytest.mark.parametrize("name", ["imagenet", "cifar10", "tiny_imagenet", "digits", "vit_tiny", "resnet50_modern"])
def test_named_configurations_load(name):
    assert isinstance(RECIPE.named_config(name), ImageNetConfig)


def test_the_settings_of_the_paper():
    config = RECIPE.named_config("imagenet")
    assert (config.optimizer_arguments["momentum"], config.weight_decay, config.batch_size, config.epochs) == (
        0.9,
        1e-4,
        32,
        100,
    )
    assert config.evaluation_side == 256
    schedule = classifier_optimizer(config, 10, 8)._learning_rate
    rates = [float(schedule(10 * epoch)) for epoch in (0, 2.5, 5, 29.9, 30, 60, 80, 90)]
    np.testing.assert_allclose(rates, [0, 0.064, 0.128, 0.128, 0.0128, 1.28e-3, 1.28e-4, 1.28e-5], rtol=1e-5)
    assert classifier_optimizer(config, 10, 1)._learning_rate.peak == pytest.approx(0.016)


def test_modern_settings_of_the_papers():
    """Rates of so many images a step; each falls as a cosine."""
    for name, optimizer, replicas, peak in (("vit_tiny", "AdamW", 8, 1e-3), ("resnet50_modern", "Lamb", 8, 5e-3)):
        config = RECIPE.named_config(name)
        made = classifier_optimizer(config, 10, replicas)
        assert type(made).__name__ == optimizer and made.weight_decay == config.weight_decay
        rates = [float(made._learning_rate(10 * epoch)) for epoch in (0, 2.5, 5, 152.5, 300, 310)]
        np.testing.assert_allclose(rates, peak * np.array([0, 0.5, 1, 0.5, 0, 0]), atol=1e-3 * peak)
    assert RECIPE.named_config("resnet50_modern").batch_size * 8 == 2048
    schedule = classifier_optimizer(MODERN.changed({"warmup_epochs": 0.0}), 10, 1)._learning_rate
    np.testing.assert_allclose([schedule(0), schedule(10)], [0.1 / 16, 0.05 / 16], rtol=1e-5)


def test_decoupled_weight_decay_is_of_kernels_alone():
    """A step without gradients: kernels shrink by rate and decay, and nothing else does."""
    config = MODERN.changed({"warmup_epochs": 0.0, "weight_decay": 0.5, "attention": "multi_head"})
    model = make_classifier(config, 10)
    assert model.losses == []
    before = [weight.numpy() for weight in model.trainable_weights]
    optimizer = classifier_optimizer(config, 10, 1)
    optimizer.apply([0 * weight for weight in model.trainable_weights], model.trainable_weights)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        share = 1 - 0.5 * 0.1 / 16 if weight.name == "kernel" else 1
        np.testing.assert_allclose(weight, share * old, rtol=1e-5, err_msg=weight.path)


def test_vision_transformers():
    """Without an attention they have multi-head attention, with the heads of their size or of the settings."""
    config = ImageNetConfig(model="vit_small", image_size=32)
    assert config.attention == "multi_head" and config.attention_shape == (384, 6)
    changed = {"attention": "talking_heads", "num_heads": 4, "model_arguments": {"attention_dropout": 0.1}}
    attention = modelling.make_attention(config.changed(changed))
    assert (type(attention).__name__, attention.num_heads, attention.key_dim) == ("TalkingHeadsAttention", 4, 96)
    assert attention.dropout == 0.1
    with refused("--num-heads", "num_heads=5 for a width of 384"):
        RECIPE.check(dataclasses.replace(config, num_heads=5))
    model = make_classifier(MODERN.changed({"optimizer": "sgd", "weight_decay": 0.1}), 10)
    assert model(tf.zeros((2, 8, 8, 3), tf.uint8)).shape == (2, 10) and len(model.losses) > 10


def test_ablations():
    """By the arguments of the layer: no skip connection with alpha 0, no convolution with beta 0."""
    config = ImageNetConfig(attention="evolving", attention_arguments={"alpha": 0.7, "beta": 0.0, "kernel_size": 5})
    attention = modelling.make_attention(config)
    assert (attention.alpha, attention.beta, attention.kernel_size) == (0.7, 0, 5)


def test_a_share_for_validation(tmp_path, capsys):
    """The same images each time, none of them trained on; of other images that are evaluated, all."""
    make_folder(tmp_path / "train", each=10)
    make_folder(tmp_path / "new" / "validation", each=3)
    (tmp_path / "train" / "cat" / "a.tif").touch()
    config = TINY.changed({"built_in": False, "images": str(tmp_path), "validation": "0.2"})
    RECIPE.check_files(config)
    train, *parts = (load_training(config), *(load_validation(config, ["cat", "dog"]) for _ in range(2)))
    names = [[part.name(index) for index in range(len(part))] for part in (train, *parts)]
    assert [len(part) for part in names] == [16, 4, 4] and names[1] == names[2] and len({*names[0], *names[1]}) == 20
    assert capsys.readouterr().out.count("train: 1 file is not an image by its name: .tif") == 3
    run = Run(tmp_path / "run", RECIPE)
    run.save_config(config)
    run.keep("classes.txt", "cat\ndog\n")
    tests = read_tests(run, config.changed({"images": str(tmp_path / "new")}))
    assert [len(test) for test in tests.values()] == [6]
    with refused("--validation", "0.99 of 20"):
        load_training(config.changed({"validation": "0.99"}))


@pytest.mark.parametrize("attention", ["none", "multi_head", "evolving"])
def test_networks(attention):
    """The widths that are not given are the model's; logits are float32; pixels are normalised inside."""
    model = make_classifier(TINY.changed({"attention": attention}), 10)
    names = [weight.path for weight in model.weights]
    assert any("map_kernel" in name for name in names) == (attention == "evolving")
    assert any("height_embeddings" in name for name in names) == (attention != "none")
    found = model(tf.zeros((2, 8, 8, 3), tf.uint8))
    assert found.shape == (2, 10) and found.dtype == "float32"
    norms = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
    assert norms and all(layer.momentum == 0.9 for layer in norms)


@pytest.mark.parametrize("attention", ["none", "multi_head", "evolving"])
def test_weight_decay_is_in_the_loss(attention):
    """Of all weights but batch normalisation's."""
    config = TINY.changed({"attention": attention, "weight_decay": 0.02})
    model = make_classifier(config, 10)
    squares = [np.square(w.numpy()).sum() for w in model.trainable_weights if w.name not in ("gamma", "beta")]
    np.testing.assert_allclose(model.losses, 0.01 * np.array(squares), rtol=1e-5)
    assert make_classifier(dataclasses.replace(config, weight_decay=0.0), 10).losses == []


@pytest.fixture
def folders(tmp_path):
    """A data set of a folder for each split, with a damaged image in each."""
    for split in ("train", "val"):
        folder = make_folder(tmp_path / split, each=8)
        (folder / "cat" / "03.png").write_bytes(b"damaged")
    return tmp_path


def test_data_of_folders(folders):
    config = dataclasses.replace(
        TINY, built_in=False, images=str(folders), validation="val", batch_size=4, max_images=None
    )
    source = load_training(config)
    validation = load_validation(config, source.class_names)
    for augmentation in ("inception", "pad_crop", "none"):
        batches = training_batches(dataclasses.replace(config, augmentation=augmentation), source, 2)
        shapes = [images.shape.as_list() for images, _ in batches.dataset()]
        assert shapes == [[8, 8, 8, 3]] * 2
    labels = [labels.numpy() for _, labels, _ in validation_batches(config, validation, 2).dataset()]
    assert np.concatenate(labels).tolist() == [0] * 7 + [1] * 8 + [0]


def test_classes_of_a_file(folders, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("dog\ncat\n")
    config = dataclasses.replace(TINY, built_in=False, images=str(folders), class_names=str(names))
    assert load_training(config).class_names == ["dog", "cat"]


def test_damaged_images_are_reported_once(folders, tmp_path, capsys):
    config = dataclasses.replace(TINY, built_in=False, images=str(folders), validation="val", max_images=None)
    batches = validation_batches(config, load_validation(config, ["cat", "dog"]))
    for _ in range(2):
        list(batches.dataset())
        report_damaged(tmp_path / "damaged.txt", batches)
    name = str(folders / "val" / "cat" / "03.png")
    assert (tmp_path / "damaged.txt").read_text().startswith(f"{name}\t") and capsys.readouterr().out.count(name) == 1


class Stop(keras.callbacks.Callback):
    """Ends training within the second epoch, as a kill would."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 6:
            raise KeyboardInterrupt


def test_resumed_is_as_uninterrupted(tmp_path, monkeypatch):
    config = MODERN.changed({"callback_arguments": {"save_steps": 2}, "run": str(tmp_path / "whole")})
    whole, history = train_here(RECIPE, config, monkeypatch)
    config = dataclasses.replace(config, run=str(tmp_path / "stopped"))
    with pytest.raises(KeyboardInterrupt):
        train_here(RECIPE, config, monkeypatch, Stop())
    again, other = train_here(RECIPE, config, monkeypatch)
    keras.tree.map_structure(np.testing.assert_array_equal, again, whole)
    assert other == history and len(history) == 2


class Overflow(keras.callbacks.Callback):
    """Makes the second epoch begin with a weight that is too large."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            self.model.trainable_variables[0].assign(self.model.trainable_variables[0] * np.inf)


def test_a_loss_that_is_not_finite_leaves_earlier_epochs(tmp_path, monkeypatch):
    with refused("step 1 of epoch 2", "loss=nan"):
        train_here(RECIPE, TINY.changed({"attention": "none", "run": str(tmp_path)}), monkeypatch, Overflow())
    run = RECIPE.run_of(tmp_path)
    assert len(run.history()) == 1 and list(run.checkpoints.glob("epoch-001.weights.h5")) and run.has_checkpoint()


class Averages(keras.callbacks.Callback):
    """Moving averages of the trained weights, and the weights before and after an epoch's end."""

    def __init__(self, momentum):
        super().__init__()
        self.momentum, self.averages, self.ends = momentum, None, []

    def on_train_batch_end(self, batch, logs=None):
        now = [np.float64(weight) for weight in self.model.trainable_variables]
        old = now if self.averages is None else self.averages
        self.averages = [self.momentum * a + (1 - self.momentum) * b for a, b in zip(old, now, strict=True)]
        self.last = now

    def on_epoch_end(self, epoch, logs=None):
        self.ends.append((self.last, [np.float64(weight) for weight in self.model.trainable_variables]))


def test_averaged_weights_are_validated_and_saved(tmp_path, monkeypatch):
    """The run's model is the average; training itself goes on with its own weights."""
    averages = Averages(0.8)
    config = MODERN.changed({"run": str(tmp_path), "replicas": 2, "batch_size": 8, "attention": "multi_head"})
    train_here(RECIPE, config, monkeypatch, averages)
    run = Run(tmp_path, RECIPE)
    model = run.load_model()
    for weight, average in zip(model.trainable_variables, averages.averages, strict=True):
        np.testing.assert_allclose(weight, average, rtol=1e-4, atol=1e-6)
    for trained, restored in averages.ends:
        keras.tree.map_structure(np.testing.assert_array_equal, trained, restored)
    found = run.scores()["validation"]
    assert found["accuracy"] == pytest.approx(run.history()[-1]["val_accuracy"], abs=1e-3)


def test_two_replicas_in_mixed_precision(tmp_path, monkeypatch):
    """On two devices the images a step are twice as many; here in steps that XLA compiles."""
    given = dict(
        attention="none",
        batch_size=8,
        replicas=2,
        compile_arguments=dict(jit_compile=True),
        precision="mixed_bfloat16",
        epochs=1,
    )
    config = TINY.changed(given | {"run": str(tmp_path), "export": None})
    weights, history = train_here(RECIPE, config, monkeypatch)
    assert np.isfinite(history[0]["loss"]) and all(weight.dtype == "float32" for weight in weights)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["precision"] == "mixed_bfloat16" and (tmp_path / "model.keras").exists()
    with np.load(sorted((tmp_path / "checkpoints").glob("epoch-*.npz"))[-1]) as arrays:
        assert len(arrays.files) > 20


def test_map_classifier_is_trained():
    model = make_map_classifier((6, 6, 2), classes=3, filters=12)
    convolutions = [layer for layer in model.layers if getattr(layer, "kernel_size", None) == (3, 3)]
    assert len(convolutions) == 12
    model.compile("adam", "sparse_categorical_crossentropy")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 24)
    maps = rng.random((24, 6, 6, 2)) + labels[:, None, None, None]
    losses = model.fit(maps, labels, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
