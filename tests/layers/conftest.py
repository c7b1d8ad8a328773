"""The fixture of tests/conftest.py without its garbage collection, which here takes longer than the tests."""

import keras
import pytest


@pytest.fixture(autouse=True)
def fresh_keras_state():
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session(free_memory=False)
