"""Cost of guards and callbacks: the time of the same `fit` with each, as a ratio.

    python -m benchmarks.guards [--quick]

A run is one epoch of a small Transformer without XLA, timed from the end of its first step, which may trace its graph.
Replicas are logical CPU devices with one thread; measured there is the guard of several replicas, gradients summed
before clipping and batches weighted by their rows.
"""

import argparse
import pathlib
import tempfile
import time

import numpy as np

from benchmarks import timing

STEPS, BATCH_SIZE, LENGTH, VOCABULARY = 11, 32, 24, 4000
PLAIN = "`keras.Model`"


def make(cls, replicas=1):
    """Returns a function that runs `fit` on a new model of class `cls` with given callbacks and returns seconds."""
    import keras

    from keras_headattn.models import Transformer
    from keras_headattn.training import make_strategy

    rng = np.random.default_rng(0)
    source, target, labels = rng.integers(4, VOCABULARY, (3, STEPS * BATCH_SIZE, LENGTH), "int32")
    with make_strategy(replicas).scope():
        inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in ("source", "target")}
        transformer = Transformer(VOCABULARY, num_layers=2, hidden_dim=128, intermediate_dim=256)
        model = cls(inputs, transformer(inputs))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-4), loss, jit_compile=False)

    def run(*callbacks):
        x = {"source": source, "target": target}
        starts = []
        first_step = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: starts.append(time.perf_counter())
        )
        callbacks = [*callbacks, first_step]
        model.fit(x, labels, batch_size=BATCH_SIZE, shuffle=False, verbose=0, callbacks=callbacks)
        return time.perf_counter() - starts[0]

    return run


def on_one_replica(root):
    """Returns functions by name; each runs an epoch and writes to a folder beneath `root`."""
    import keras

    from keras_headattn.training import Compilations, GradientNorm, HeadStatistics, Model, Resume

    def new():
        return tempfile.mkdtemp(dir=root)

    # Each has a model of its own: the gradient's norm is a part of the graph.
    plain, ours, resumed, often, watched, normed = (make(cls) for cls in (keras.Model, *[Model] * 5))
    return {
        PLAIN: plain,
        "`training.Model`": ours,
        "and `Resume`, which saves at the end": lambda: resumed(Resume(new())),
        "and `Resume(every=5)`": lambda: often(Resume(new(), every=5)),
        "and `GradientNorm`": lambda: normed(GradientNorm()),
        "and `TensorBoard`, `Compilations`, `HeadStatistics`": lambda: watched(
            Compilations(), keras.callbacks.TensorBoard(new(), write_graph=False), HeadStatistics(new())
        ),
    }


def on_two_replicas(root):
    import keras

    from keras_headattn.training import Model

    return {PLAIN: make(keras.Model, 2), "`training.Model`": make(Model, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    quick = parser.parse_args().quick
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(min_rounds=10, max_rounds=30, max_seconds=240)
    timing.limit_threads(1)
    from keras_headattn.training import make_strategy

    make_strategy(2)  # splits the CPU before anything runs on it
    rows = []
    with tempfile.TemporaryDirectory() as root:
        for replicas, cases in (("one replica", on_one_replica), ("two replicas", on_two_replicas)):
            runs = cases(pathlib.Path(root))
            rounds = timing.run_rounds(runs, PLAIN, **limits)
            rows += [_row(replicas, rounds, name) for name in runs]
    timing.report(
        None if quick else "guards",
        "# Cost of guarding and watching a run",
        f"Transformer of 2 + 2 blocks, 128 wide; {STEPS - 1} steps of {BATCH_SIZE} x {LENGTH} tokens and the end of "
        "their epoch, one thread. Of what happens once an epoch, such as saving at its end, a longer epoch has less.",
        timing.table(["", "", "ms a step", f"to {PLAIN}"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


def _row(replicas, rounds, name):
    ratio, spread = rounds.ratio(name, PLAIN)
    return [replicas, name, f"{1e3 * rounds.median(name) / (STEPS - 1):.0f}", f"{ratio:.2f} ± {spread:.0%}"]


if __name__ == "__main__":
    main()
