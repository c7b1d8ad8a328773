"""Sizes and other numbers of NumPy are numbers: layers and models keep Python's, which JSON can hold."""

import json

import keras
import numpy as np
import pytest

from keras_headattn import layers, models
from keras_headattn.decoding import Searcher
from tests.layers.harness import CASES
from tests.layers.test_wrong_arguments import OTHERS
from tests.models import graphs
from tests.models.small import shared
from tests.models.test_output_shapes import MODELS, encoder

MAKE = {case.name: case.make for case in CASES}
MAKE |= {cls.__name__: lambda cls=cls: cls(**OTHERS[cls]) for cls in OTHERS}
MAKE |= {name: lambda make=make: make()[0] for name, make in MODELS.items()}
MAKE |= {
    "Searcher": lambda: Searcher(shared(), 2, 0.5, 6, suppress=[0], num_samples=2, temperature=0.5, top_k=3, top_p=0.5),
    "DCTransformer": lambda: models.DCTransformer(2, 9, num_layers=1),
    "MaskedLMPretraining": lambda: models.MaskedLMPretraining(
        models.MaskedLM(encoder(pooler=False)), mask_id=4, special_ids=[0]
    ),
    "TransformerEncoder": lambda: models.TransformerEncoder(9, 8, 8, num_layers=1, num_heads=2),
    "BiLSTMEncoder": lambda: models.BiLSTMEncoder(9, 8, 4),
}


def as_numpy(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_numpy, value))
    kinds = {int: np.int64, float: np.float64}
    return kinds[type(value)](value) if type(value) in kinds else value


@pytest.mark.parametrize("name", MAKE)
def test_configurations(name):
    made = MAKE[name]()
    config = made.get_config()
    again = type(made).from_config({key: as_numpy(value) for key, value in config.items()})
    assert json.dumps(again.get_config(), sort_keys=True) == json.dumps(config, sort_keys=True)


def test_what_was_refused():
    assert layers.MultiHeadAttention(np.int64(2), np.int64(4), dropout=np.float32(0.1)).dropout == np.float32(0.1)
    model = models.Transformer(np.int64(30), num_layers=1, hidden_dim=np.int32(8), intermediate_dim=8, num_heads=2)
    assert type(model.source_vocabulary_size) is int and keras.saving.serialize_keras_object(model)
    assert graphs.shared().hidden_dim
