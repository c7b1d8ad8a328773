"""The inverse-square-root schedule against the paper's formula."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.optimizers import InverseSquareRoot, LinearDecay, StepDecay


def paper(step, model_dim, warmup_steps):
    """Vaswani et al. 2017, eq. 3; steps count from 1."""
    return model_dim**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


@pytest.mark.parametrize("model_dim, warmup_steps", [(512, 4000), (160, 1), (300, 8000)])
def test_formula(model_dim, warmup_steps):
    schedule = InverseSquareRoot.for_width(model_dim, warmup_steps)
    for update in (1, 2, warmup_steps - 1, warmup_steps, warmup_steps + 1, 10 * warmup_steps, 1_000_000):
        if update > 0:
            np.testing.assert_allclose(schedule(update - 1), paper(update, model_dim, warmup_steps), rtol=1e-5)


def test_factor():
    one, two = InverseSquareRoot.for_width(64, 10), InverseSquareRoot.for_width(64, 10, factor=2.0)
    for step in (0, 9, 50):
        np.testing.assert_allclose(two(step), 2 * np.float32(one(step)), rtol=1e-6)


def test_rises_to_its_peak_and_falls():
    rates = [float(InverseSquareRoot(3e-3, 5)(step)) for step in range(20)]
    assert int(np.argmax(rates)) == 4
    np.testing.assert_allclose(rates[4], 3e-3, rtol=1e-6)
    np.testing.assert_allclose(np.diff(rates[:5]), 6e-4, rtol=1e-5)
    assert (np.diff(rates[4:]) < 0).all()
    np.testing.assert_allclose(rates[19], 1.5e-3, rtol=1e-6)


def test_what_an_optimizer_uses():
    """Plain gradient descent on one weight, in a graph compiled by XLA: the learning rates add up."""
    schedule = InverseSquareRoot(0.5, 2)
    optimizer = keras.optimizers.SGD(schedule)
    weight = keras.Variable(0.0)
    optimizer.build([weight])
    step = tf.function(lambda: optimizer.apply([tf.constant(1.0)]), jit_compile=True)
    for _ in range(3):
        step()
    expected = 0.5 * (0.5 + 1.0 + np.sqrt(2 / 3))
    np.testing.assert_allclose(-float(weight.numpy()), expected, rtol=1e-5)


def test_config_round_trip():
    schedule = InverseSquareRoot(2e-4, 300)
    config = json.loads(json.dumps(keras.optimizers.schedules.serialize(schedule)))
    clone = keras.optimizers.schedules.deserialize(config)
    assert type(clone) is InverseSquareRoot
    assert clone.get_config() == schedule.get_config() == {"peak": 2e-4, "warmup_steps": 300}


def test_steps_down():
    """Warm-up from 0, then 0.1 times as much at each boundary, on step numbers as the optimizer has them."""
    schedule = StepDecay(0.2, 4, (6, 9))
    rates = [float(schedule(np.int64(step))) for step in range(11)]
    expected = [0.0, 0.05, 0.1, 0.15, 0.2, 0.2, 0.02, 0.02, 0.02, 0.002, 0.002]
    np.testing.assert_allclose(rates, expected, rtol=1e-5)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert again.get_config() == json.loads(json.dumps(schedule.get_config()))
    np.testing.assert_allclose([float(StepDecay(0.2, 0, ())(step)) for step in (0, 5)], 0.2, rtol=1e-6)


def test_linear_decay():
    schedule = LinearDecay(0.2, 4, 10)
    np.testing.assert_allclose(
        [float(schedule(step)) for step in range(12)],
        [0, 0.05, 0.1, 0.15, 0.2, *(0.2 * (10 - step) / 6 for step in range(5, 11)), 0],
        atol=1e-7,
    )
    assert float(LinearDecay(0.2, 0, 4)(0)) == pytest.approx(0.2)
    from_the_start = LinearDecay(0.2, 4, 10, decay_in_warmup=True)
    expected = [0.2 * max(0, 1 - step / 10) * min(1, step / 4) for step in range(12)]
    np.testing.assert_allclose([float(from_the_start(step)) for step in range(12)], expected, atol=1e-7)
    assert LinearDecay.from_config(from_the_start.get_config()).decay_in_warmup
    clone = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert type(clone) is LinearDecay and clone.get_config() == schedule.get_config()
