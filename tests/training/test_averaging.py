import keras
import numpy as np
import pytest

from keras_headattn.training import average_weights
from tests.refusals import refused


def save(folder, values, model):
    paths = [folder / f"{number}.weights.h5" for number in range(len(values))]
    for path, value in zip(paths, values, strict=True):
        model.set_weights([np.full((2, 3), value, "float32"), np.full(3, -value, "float32")])
        model.save_weights(path)
    return paths


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])


def test_the_mean_is_taken_in_float64(tmp_path, model):
    # In float32, 1e8 + 1 is 1e8.
    average_weights(model, save(tmp_path, [1e8, 1.0, -1e8, 2.0], model))
    np.testing.assert_array_equal(model.get_weights()[0], np.full((2, 3), 0.75))
    np.testing.assert_array_equal(model.get_weights()[1], np.full(3, -0.75))


def test_one_file_is_loaded_as_it_is(tmp_path, model):
    paths = save(tmp_path, [0.1, 0.7], model)
    average_weights(model, paths[:1])
    np.testing.assert_array_equal(model.get_weights()[0], np.full((2, 3), 0.1, "float32"))


def test_whole_numbers_are_the_last_files(tmp_path):
    class Counter(keras.layers.Layer):
        def build(self, shape):
            self.count = self.add_weight(shape=(), dtype="int32", initializer="zeros")

        def call(self, x):
            return x

    model = keras.Sequential([keras.Input((2,)), Counter()])
    paths = [tmp_path / "a.weights.h5", tmp_path / "b.weights.h5"]
    for count, path in zip((4, 7), paths, strict=True):
        model.set_weights([np.array(count)])
        model.save_weights(path)
    average_weights(model, paths)
    assert model.get_weights()[0] == 7


def test_a_missing_file_changes_nothing(tmp_path, model):
    paths = save(tmp_path, [1.0, 2.0], model)
    with refused("paths", "nothing.weights.h5", FileNotFoundError):
        average_weights(model, [paths[0], tmp_path / "nothing.weights.h5"])
    assert model.get_weights()[0][0, 0] == 2.0
