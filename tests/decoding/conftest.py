"""Small models leave little behind: no garbage collection after each test."""

from tests.layers.conftest import fresh_keras_state  # noqa: F401
