"""Faults of stock Keras on several replicas, and their outcomes there and here.

    python -m benchmarks.replicas [--replicas 2 4]

Replicas are logical CPU devices. Weights are compared with those of stock Keras on one replica after the same batches,
up to TOLERANCE for another order of float32 sums.
"""

import argparse
import dataclasses
import functools

import numpy as np

from benchmarks import timing

TOLERANCE = 2e-6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 4)).astype("float32")
Y = RNG.normal(size=(16, 3)).astype("float32")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a training: True if right, with a description."""

    passed: bool
    text: str


def outcome(fault, cls, replicas, jit_compile=False):
    """Trains a model of class `cls` on which `fault`, one of `FAULTS`, may show, and returns an `Outcome`."""
    try:
        return FAULTS[fault](cls, replicas, jit_compile)
    except Exception as error:  # what TensorFlow raises depends on where it gave up
        return Outcome(False, f"fails ({type(error).__name__})")


def train(cls, replicas, jit_compile, optimizer, x=X, y=Y, batch_size=8, epochs=2, layers=()):
    """Trains a small model with `layers` before its last one, and returns it."""
    import keras

    from keras_headattn.training import make_strategy

    keras.utils.set_random_seed(0)
    with make_strategy(replicas).scope():
        inputs = hidden = keras.Input(x.shape[1:])
        for layer in layers:
            hidden = layer()(hidden)
        model = cls(inputs, keras.layers.Dense(y.shape[1])(hidden))
        model.compile(optimizer(keras.optimizers), "mse", jit_compile=jit_compile)
    model.fit(x, y, batch_size=batch_size, epochs=epochs, shuffle=False, verbose=0)
    return model


def same_weights(**options):
    """Compares the weights with those of one replica."""

    @functools.cache
    def expected():
        import keras

        return train(keras.Model, 1, False, **options).get_weights()

    def run(cls, replicas, jit_compile):
        weights = train(cls, replicas, jit_compile, **options).get_weights()
        off = max(float(np.abs(ours - theirs).max()) for ours, theirs in zip(weights, expected(), strict=True))
        return Outcome(off <= TOLERANCE, "same weights" if off <= TOLERANCE else f"weights off by {off:.1g}")

    return run


def compiled(cls, replicas, jit_compile):
    return same_weights(optimizer=lambda optimizers: optimizers.Adam(0.01))(cls, replicas, True)


def infinite_gradient(cls, replicas, jit_compile):
    """Checks that loss scaling skips a step with an infinite gradient on the last replica."""
    import keras

    y = Y.copy()
    y[-1] = 3e38
    options = dict(y=y, batch_size=16, epochs=1)
    model = train(
        cls, replicas, jit_compile, lambda optimizers: optimizers.LossScaleOptimizer(optimizers.SGD(0.1)), **options
    )
    start = train(keras.Model, 1, False, lambda optimizers: optimizers.SGD(0.0), **options | dict(y=Y)).get_weights()
    same = all(np.array_equal(ours, theirs) for ours, theirs in zip(model.get_weights(), start, strict=True))
    return Outcome(same, "step skipped" if same else "the weights become NaN")


def dropout(cls, replicas, jit_compile):
    """Checks dropout with one row a replica, where a weight's gradient shows how many replicas kept its input."""
    import keras

    model = train(
        cls,
        replicas,
        jit_compile,
        lambda optimizers: optimizers.SGD(1.0),
        x=np.ones((replicas, 64), "float32"),
        y=np.full((replicas, 1), 1e3, "float32"),
        batch_size=replicas,
        epochs=1,
        layers=[lambda: keras.layers.Dropout(0.5, seed=1)],
    )
    values = {round(float(value), 2) for value in model.get_weights()[0][:, 0]}
    kept = np.unique(np.round(np.array(sorted(values)) / max(values), 1))
    passed = len(kept) > 2
    return Outcome(passed, "a mask each" if passed else "one mask for all")


def batch_normalization(cls, replicas, jit_compile):
    import keras

    model = train(
        cls,
        replicas,
        jit_compile,
        lambda optimizers: optimizers.SGD(0.01),
        layers=[lambda: keras.layers.BatchNormalization()],
    )
    mean = model.layers[1].moving_mean.value
    copies = [copy.numpy() for copy in mean.values] if replicas > 1 else [mean.numpy()]
    off = max(float(np.abs(copy - copies[0]).max()) for copy in copies)
    return Outcome(not off, f"statistics differ by {off:.1g}" if off else "statistics agree")


FAULTS = {
    "`jit_compile=True`": compiled,
    "`gradient_accumulation_steps`": same_weights(
        optimizer=lambda optimizers: optimizers.SGD(0.1, gradient_accumulation_steps=2)
    ),
    "`ema_overwrite_frequency`": same_weights(
        optimizer=lambda optimizers: optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=3)
    ),
    "`clipnorm`": same_weights(optimizer=lambda optimizers: optimizers.SGD(1.0, clipnorm=0.05)),
    "`global_clipnorm`": same_weights(optimizer=lambda optimizers: optimizers.SGD(1.0, global_clipnorm=0.05)),
    "`clipvalue`": same_weights(optimizer=lambda optimizers: optimizers.SGD(1.0, clipvalue=0.01)),
    "an infinite gradient under a loss scale": infinite_gradient,
    "`Dropout`": dropout,
    "`BatchNormalization`": batch_normalization,
    "batches of 7 rows": same_weights(optimizer=lambda optimizers: optimizers.SGD(0.1), batch_size=7),
    "a last batch of 5 rows": same_weights(optimizer=lambda optimizers: optimizers.SGD(0.1), x=X[:13], y=Y[:13]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[2, 4], help="[2 4]")
    numbers = parser.parse_args().replicas
    timing.limit_threads(1)
    import keras

    from keras_headattn.training import Model, make_strategy

    make_strategy(max(numbers))
    columns = [("stock Keras", keras.Model, False), ("here", Model, False), ("here, XLA", Model, True)]
    rows = []
    for fault in FAULTS:
        for replicas in numbers:
            outcomes = [outcome(fault, cls, replicas, jit_compile) for _, cls, jit_compile in columns]
            rows.append([fault, replicas, *(result.text for result in outcomes)])
            print(*rows[-1], sep=" | ", flush=True)
    timing.report(
        "replicas",
        "# Faults on several replicas",
        f"After 4 to 6 steps of a small model. Same weights: as stock Keras on one replica, to {TOLERANCE}.",
        timing.table(["", "replicas", *(name for name, _, _ in columns)], rows),
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
