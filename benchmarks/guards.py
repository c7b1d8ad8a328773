"""What the guards of training cost: the time of the same `fit` with each of them, as a ratio.

    python -m benchmarks.guards [--quick]

A run is one epoch of 20 steps of the tiny Transformer. The guard of several replicas (gradients summed before they are
clipped, accumulated and checked; weighted rows; copies that agree) is measured on two logical CPU devices.
"""

import argparse
import tempfile

import numpy as np

from benchmarks import timing

STEPS, BATCH_SIZE, LENGTH, VOCABULARY = 20, 32, 24, 4000


def make(cls, replicas):
    """A function that runs `fit` with the callbacks it is given."""
    import keras

    from keras_headattn.layers import MultiHeadAttention
    from keras_headattn.models import Transformer
    from keras_headattn.training import make_strategy

    rng = np.random.default_rng(0)
    source, target, labels = rng.integers(4, VOCABULARY, (3, STEPS * BATCH_SIZE, LENGTH), "int32")
    with make_strategy(replicas).scope():
        inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in ("source", "target")}
        transformer = Transformer(
            VOCABULARY, num_layers=4, hidden_dim=128, intermediate_dim=256, attention=MultiHeadAttention(4, 32)
        )
        model = cls(inputs, transformer(inputs))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-4), loss, jit_compile=False)

    def run(*callbacks):
        x = {"source": source, "target": target}
        model.fit(x, labels, batch_size=BATCH_SIZE, shuffle=False, verbose=0, callbacks=list(callbacks))

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    quick = parser.parse_args().quick
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(min_rounds=8, max_rounds=30, max_seconds=300)
    timing.limit_threads(1)
    import keras

    from keras_headattn.training import Model, Resume, make_strategy

    make_strategy(2)

    def saving(every):
        with tempfile.TemporaryDirectory() as folder:
            ours(Resume(folder, every=every))

    stock, ours = make(keras.Model, 1), make(Model, 1)
    stock_on_two, ours_on_two = make(keras.Model, 2), make(Model, 2)
    comparisons = {
        "one replica": {
            "`keras.Model`": stock,
            "`training.Model`": ours,
            "with `Resume`, saving twice": lambda: saving(None),
            f"with `Resume`, saving {STEPS // 5 + 2} times": lambda: saving(5),
        },
        "two replicas": {"`keras.Model`": stock_on_two, "`training.Model`": ours_on_two},
    }
    rows = []
    for title, cases in comparisons.items():
        rounds = timing.run_rounds(
            {name: timing.timed(case) for name, case in cases.items()}, "`keras.Model`", **limits
        )
        for name in cases:
            ratio, spread = rounds.ratio(name, "`keras.Model`")
            rows.append([f"{title}: {name}", f"{rounds.median(name) / STEPS * 1e3:.0f}", f"{ratio:.2f} ± {spread:.0%}"])
    timing.report(
        None if quick else "guards",
        "# Cost of the guards of training",
        f"Tiny Transformer (4 + 4 layers, 128 wide), batches of {BATCH_SIZE} x {LENGTH} tokens, {STEPS} steps, "
        "one thread.",
        timing.table(["", "ms a step", "to `keras.Model`"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
