"""A training step with repulsive attention against the same Transformer without, and with head regularizers.

    python -m benchmarks.repulsive_cost [--quick]

A step is forward pass, loss, backward pass and update by Adam through `train_on_batch`, compiled by XLA. An et al. 2020
measured 1.13 to 1.18 times the step without repulsion for it, and 1.29 to 1.35 times for regularizers (their table 2).
"""

import argparse
import dataclasses
import gc

from benchmarks import timing
from benchmarks.steps import LENGTH, SENTENCES, SIZES, training_step

HEADS = (16, 64)  # of one size, "small"
SCALED = ("SVGD", "SPOS", "SVGD, first layers")


@dataclasses.dataclass(frozen=True)
class Case:
    """A row: a way to train, named as in the report."""

    name: str
    repulsive: dict | None = None
    regularizer: str | None = None


PLAIN = Case("plain")
CASES = [
    Case("SVGD", {"method": "svgd"}),
    Case("SPOS", {"method": "spos"}),
    Case("SVGD, first layers", {"method": "svgd", "layers": "first"}),
    Case("SPOS, first layers", {"method": "spos", "layers": "first"}),
    Case("Frobenius", regularizer="Frobenius"),
    Case("Disagreement", regularizer="Disagreement"),
    Case("CosineSimilarity", regularizer="CosineSimilarity"),
]


def step(case, heads, **size):
    """Function that makes one training step of a new model and returns its seconds."""
    import keras

    from keras_headattn import regularizers
    from keras_headattn.layers import MultiHeadAttention
    from keras_headattn.optimizers import Repulsive

    regularizer = getattr(regularizers, case.regularizer)() if case.regularizer else None
    attention = MultiHeadAttention(heads, size["hidden_dim"] // heads, head_regularizer=regularizer)
    optimizer = keras.optimizers.Adam(1e-4)
    if case.repulsive:
        optimizer = Repulsive(optimizer, seed=0, verbose=False, **case.repulsive)
    return training_step(optimizer, attention=attention, **size)


def measure(cases, size, limits):
    """Rows of seconds, those of a plain step, and their ratio. One model at a time is beside the plain one: all at once
    would take more than 24 GB."""
    plain = step(PLAIN, **size)
    for case in cases:
        rounds = timing.run_rounds({"plain": plain, "case": step(case, **size)}, "plain", **limits)
        ratio, spread = rounds.ratio("case", "plain")
        yield case.name, f"{rounds.median('case'):.2f}", f"{rounds.median('plain'):.2f}", f"{ratio:.3f} ± {spread:.1%}"
        gc.collect()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds of a small size; writes nothing")
    options = parser.parse_args()
    limits = dict(max_rounds=3) if options.quick else dict(max_rounds=25, max_seconds=100)
    limits |= dict(min_rounds=3, max_spread=0.01)
    timing.limit_threads(timing.cores())
    rows, scaling = [], []
    for name, size in SIZES.items():
        rows += [[f"{name}, {size['heads']} heads", *row] for row in measure(CASES, size, limits)]
        if options.quick:
            break
    scaled = [case for case in CASES if case.name in SCALED]
    for heads in HEADS:
        scaling += [[str(heads), *row] for row in measure(scaled, SIZES["small"] | {"heads": heads}, limits)]
        if options.quick:
            break
    timing.report(
        None if options.quick else "repulsive_cost",
        "# Cost of repulsive attention",
        f"Transformers of 6 + 6 layers of width 512 on {SENTENCES} x {LENGTH} tokens either side; {timing.cores()} "
        "threads. Ratios to the same step without repulsion or regularizer.",
        timing.table(["size", "", "s a step", "plain", "ratio"], rows),
        "More heads, of the small size:",
        timing.table(["heads", "", "s a step", "plain", "ratio"], scaling),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
