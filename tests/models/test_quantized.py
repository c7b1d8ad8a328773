"""Quantized models in files."""

import keras
import pytest

from tests.layers.test_quantized import quantized_layers
from tests.models.test_output_shapes import MODELS

pytestmark = [
    pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method"),
    pytest.mark.filterwarnings("ignore:Invalid quantization mode"),  # of embeddings: float8
]


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "int8") for name in MODELS), ("Transformer", "int4"), ("EncoderClassifier", "float8")]
)
def test_every_model(name, mode, tmp_path):
    model, inputs = MODELS[name]()
    if name in ("Transformer", "GraphWriter"):  # shared by tests
        model = keras.models.clone_model(model)
    model(inputs)
    model.quantize(mode)
    before = keras.tree.map_structure(keras.ops.convert_to_numpy, model(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert quantized_layers(loaded) == quantized_layers(model) and mode in quantized_layers(model).values()
    after = keras.tree.map_structure(keras.ops.convert_to_numpy, loaded(inputs))
    keras.tree.map_structure(lambda x, y: (x == y).all() or pytest.fail(name), before, after)
