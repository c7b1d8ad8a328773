"""A saved model never loads as another: settings of templates that are alike are not taken for the same object."""

import collections
import contextlib
import gc
import json
import os
import weakref
import zipfile

import keras
import numpy as np
import pytest

from keras_headattn.layers import AugmentedConv2D, DecoderBlock, EncoderBlock, EvolvingAttention
from keras_headattn.models import BiLSTMEncoder, Transformer
from keras_headattn.positions import BucketPositions

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

SAVES = int(os.environ.get("HEADATTN_SAVES", 5))
ENCODER = EvolvingAttention(2, 4, alpha=0.3, beta=0.2)
DECODER = EvolvingAttention(2, 4, alpha=0.0, beta=0.4)
CROSS = EvolvingAttention(2, 4, alpha=0.0, beta=0.6)


def transformer():
    ids = {name: keras.Input((None,), dtype="int32", name=name) for name in ("source", "target")}
    model = Transformer(
        9,
        num_layers=1,
        hidden_dim=8,
        intermediate_dim=8,
        attention=ENCODER,
        decoder_attention=DECODER,
        cross_attention=CROSS,
        relative_positions=BucketPositions(4, 8),
        feed_forward=None,
    )
    return keras.Model(ids, model(ids))


def blocks():
    x = keras.Input((4, 8))
    y = EncoderBlock(ENCODER, intermediate_dim=8, depth=0)(x)
    y = DecoderBlock(DECODER, intermediate_dim=8, cross_attention=[CROSS, ENCODER], depth=0)(y, [x, x])
    return keras.Model(x, DecoderBlock(CROSS, intermediate_dim=8, cross_attention=DECODER, depth=0)(y, x))


def convolutions():
    x = keras.Input((4, 4, 8))
    y = AugmentedConv2D(10, 3, EvolvingAttention(2, 4, beta=0.2, convolve_first=True))(x)
    return keras.Model(x, AugmentedConv2D(10, 3, EvolvingAttention(2, 4, beta=0.4, convolve_first=True))(y))


@contextlib.contextmanager
def collections_at_each_new_layer(monkeypatch):
    """The most that the garbage collector may do to ids."""
    make = keras.layers.Layer.__init__

    def init(self, *args, **kwargs):
        gc.collect()
        make(self, *args, **kwargs)

    gc.collect()
    gc.freeze()  # a collection is quicker
    monkeypatch.setattr(keras.layers.Layer, "__init__", init)
    yield
    monkeypatch.undo()
    gc.unfreeze()


def settings(config):
    """All that a configuration says of templates: the nested dictionaries of attention layers, in order."""
    if isinstance(config, dict):
        if config.get("class_name") == "EvolvingAttention":
            yield config["config"]["alpha"], config["config"]["beta"], config["config"]["role"]
        for value in config.values():
            yield from settings(value)
    elif isinstance(config, (list, tuple)):
        for value in config:
            yield from settings(value)


def objects(config):
    """The attention layers that a file says to be the same object as others: its number, and the settings."""
    if isinstance(config, dict):
        if config.get("class_name") == "EvolvingAttention" and "shared_object_id" in config:
            yield config["shared_object_id"], next(settings(config))
        for value in config.values():
            yield from objects(value)
    elif isinstance(config, (list, tuple)):
        for value in config:
            yield from objects(value)


@pytest.mark.parametrize("make", [transformer, blocks, convolutions])
def test_no_save_is_confused(make, tmp_path, monkeypatch):
    model = make()
    expected = list(settings(model.get_config()))
    assert len({*expected}) > 1
    for _ in range(SAVES):
        with collections_at_each_new_layer(monkeypatch):
            model.save(tmp_path / "model.keras")
        with zipfile.ZipFile(tmp_path / "model.keras") as file:
            config = json.loads(file.read("config.json"))
        assert list(settings(config)) == expected
        shared = collections.defaultdict(set)
        for name, setting in objects(config):
            shared[name].add(setting)
        assert all(len(different) == 1 for different in shared.values())
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert list(settings(loaded.get_config())) == expected
    for weight, other in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(weight, other)


def test_templates_that_are_one_object_in_a_file():
    """Where the settings are the same, which Keras may say, there is nothing to refuse."""
    config = keras.saving.serialize_keras_object(Transformer(9, attention=ENCODER, decoder_attention=ENCODER))
    for name in ("attention", "decoder_attention"):
        config["config"][name]["shared_object_id"] = 7
    with keras.src.saving.serialization_lib.ObjectSharingScope():
        model = keras.saving.deserialize_keras_object(config)
    assert model.templates["decoder_attention"].layer.beta == 0.2


def first_free_ids():
    """Returns a function that stands for `id` where an address goes to another object as soon as it is free."""
    held = []

    def number(obj):
        gc.collect()
        alive = [each() for each in held]
        place = next((i for i, each in enumerate(alive) if each is obj), None)
        if place is None:
            place = next((i for i, each in enumerate(alive) if each is None), len(held))
            held[place : place + 1] = [weakref.ref(obj)]
        return place

    return number


def test_directions_of_lstms_made_while_a_file_is_loaded(monkeypatch):
    """Keras knows objects by their addresses, which those that are gone leave to others."""
    made = []
    monkeypatch.setattr(keras.src.saving.serialization_lib, "id", first_free_ids(), raising=False)
    gc.freeze()  # only what is made here is collected, which is soon done
    with keras.src.saving.serialization_lib.ObjectSharingScope():
        for units in range(1, 8):
            made += BiLSTMEncoder(2, 1, units).bilstms
    gc.unfreeze()
    assert [each.forward_layer.units for each in made] == [*range(1, 8)]
    assert not any(each.forward_layer.go_backwards for each in made)
    assert all(each.backward_layer.go_backwards for each in made)
