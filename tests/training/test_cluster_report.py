"""What is reported of clusters; training with them on two replicas, and after an interruption."""

import keras
import numpy as np
import pytest

from keras_headattn.layers import DisentangledMaskAttention
from keras_headattn.training import ClusterReport, Model, Resume, make_strategy

X = np.random.default_rng(0).normal(size=(16, 5, 8)).astype("float32")


def make_model(strategy=None, **options):
    keras.utils.set_random_seed(0)
    strategy = strategy or make_strategy(1)
    with strategy.scope():
        x = keras.Input((5, 8))
        attention = DisentangledMaskAttention(2, 4, num_clusters=3, name="attention", **options)
        model = Model(x, attention(x, x))
        model.compile("adam", "mse")
    return model


def fit(model, *callbacks, epochs=2):
    return model.fit(X, X, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)).history


def test_logs():
    history = fit(make_model(), ClusterReport())
    assert {"shared_information", "kept_information", "divergence", "diversity"} <= set(history)
    assert all(
        1 <= least <= mean <= 3 for least, mean in zip(history["least_clusters"], history["clusters"], strict=True)
    )
    assert history["divergence"][1] != history["divergence"][0] > 0


def far(mixture):
    """All clusters of the second head but one are too far for any token."""
    centres = np.array(mixture.centres)
    centres[1, 1:] = 1e3
    mixture.centres.assign(centres)


def alike(mixture):
    """Head 1 has the same cluster three times: each has a third of the tokens."""
    centres = np.array(mixture.centres)
    centres[1, 1:] = centres[1, 0]
    mixture.centres.assign(centres)


@pytest.mark.parametrize("change", [far, alike])
def test_it_warns_of_a_collapse(change):
    model = make_model()
    change(model.get_layer("attention").mixture)
    with pytest.warns(UserWarning, match="by 1 of 3 mixtures: .*: attention head 2. A larger weight .* `diversity`"):
        history = fit(model, ClusterReport(), epochs=1)
    assert history["least_clusters"][0] < 1.01


@pytest.mark.parametrize("jit_compile", [False, True])
def test_two_replicas_are_as_one(jit_compile):
    """With what is not trained: steps and averages."""
    found = []
    for replicas in (1, 2):
        model = make_model(make_strategy(replicas))
        model.jit_compile = jit_compile
        history = fit(model, ClusterReport())
        found.append(({variable.path: np.array(variable) for variable in model.weights}, history))
    (one, history), (two, other) = found
    assert float(one["attention/steps"]) == 4
    for path, value in one.items():
        np.testing.assert_allclose(two[path], value, atol=2e-5, err_msg=path)
    for name, values in history.items():
        np.testing.assert_allclose(other[name], values, atol=2e-4, err_msg=name)


def test_resumed_is_as_uninterrupted(tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 3:
                raise KeyboardInterrupt

    whole = make_model()
    fit(whole, Resume(tmp_path / "whole", callbacks=[ClusterReport()]))
    with pytest.raises(KeyboardInterrupt):
        fit(make_model(), Resume(tmp_path / "cut", callbacks=[ClusterReport()], every=1), Stop())
    again = make_model()
    fit(again, Resume(tmp_path / "cut", callbacks=[ClusterReport()], every=1))
    for one, other in zip(whole.weights, again.weights, strict=True):
        np.testing.assert_array_equal(np.array(other), np.array(one), err_msg=one.path)
