"""Labelled texts of TensorFlow Datasets."""

import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from recipes.engine.texts.data import read_tfds_labelled
from tests.refusals import refused


@pytest.fixture
def fake_tfds(monkeypatch):
    """Stands in for tensorflow_datasets, with a data set of two pairs."""
    examples = {"premise": ["a cat", "two "], "hypothesis": ["b", "c"], "label": np.array([1, -1])}
    features = dict.fromkeys(examples) | {"label": types.SimpleNamespace(names=["entailment", "neutral"])}

    def load(name, split, with_info):
        assert (name, split, with_info) == ("snli", "train", True)
        return tf.data.Dataset.from_tensor_slices(examples), types.SimpleNamespace(features=features)

    monkeypatch.setitem(sys.modules, "tensorflow_datasets", types.SimpleNamespace(load=load, download=None))


def test_tfds(fake_tfds):
    found = read_tfds_labelled("snli", "train", "premise", "label", "hypothesis")
    assert (found.texts, found.second_texts, found.labels) == (["a cat", "two"], ["b", "c"], ["neutral", "-1"])
    with refused("premise, hypothesis, label", "'text'"):
        read_tfds_labelled("snli", "train", "text", "label")
