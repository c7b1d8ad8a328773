"""The bias of the output layer, tied or not, in training and in decoding."""

import keras
import numpy as np
import pytest

from tests.models.small import array, check_close, make, sentences


@pytest.mark.parametrize("tie_output", [True, False])
def test_it_is_added(tie_output):
    model = make(output_bias=True, tie_output=tie_output)
    bias = model.tied_bias if tie_output else model.output_projection.bias
    with_bias = array(model(sentences()))
    value = array(bias)
    bias.assign(np.zeros_like(value))
    check_close(array(model(sentences())) + value, with_bias, 1e-5)


@pytest.mark.parametrize("tie_output", [True, False])
def test_decoding(tie_output):
    model, inputs = make(output_bias=True, tie_output=tie_output), sentences()
    expected = model(inputs)
    for kernels in (None, model.decoding_kernels()):
        cache = model.init_cache(inputs["source"], 6, kernels=kernels)
        logits, _ = model.decode_step(inputs["target"], cache, 0, kernels=kernels)
        check_close(logits, array(expected), 1e-5)


def test_saving(tmp_path):
    model = make(output_bias=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    check_close(loaded(sentences()), array(model(sentences())), 1e-6)
