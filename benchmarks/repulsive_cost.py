"""Training step with repulsive attention and with head regularizers, compared with the plain Transformer.

    python -m benchmarks.repulsive_cost small [--quick]
    python -m benchmarks.repulsive_cost base
    python -m benchmarks.repulsive_cost heads

`heads` is `small` with 16 and 64 heads. The models of each take up to 20 GB. A step is forward pass, loss, backward
pass and Adam update by `train_on_batch`, compiled by XLA. An et al. 2020 (table 2) measured 1.13 to 1.18 times the
plain step for repulsion, and 1.29 to 1.35 times for regularizers.
"""

import argparse
import dataclasses

from benchmarks import timing
from benchmarks.steps import LENGTH, SENTENCES, SIZES, training_step


@dataclasses.dataclass(frozen=True)
class Case:
    """Row of the report: a way to train, with its name."""

    name: str
    repulsive: dict | None = None
    regularizer: str | None = None


PLAIN = Case("plain")
CASES = [
    PLAIN,
    Case("SVGD", {"method": "svgd"}),
    Case("SPOS", {"method": "spos"}),
    Case("SVGD, first layers", {"method": "svgd", "layers": "first"}),
    Case("SPOS, first layers", {"method": "spos", "layers": "first"}),
    Case("Frobenius", regularizer="Frobenius"),
    Case("Disagreement", regularizer="Disagreement"),
    Case("CosineSimilarity", regularizer="CosineSimilarity"),
]
SCALED = [case for case in CASES if case.name in ("plain", "SVGD", "SPOS", "SVGD, first layers")]
PLANS = {  # cases, size, heads
    **{name: [(CASES, name, size["heads"])] for name, size in SIZES.items()},
    "heads": [(SCALED, "small", 16), (SCALED, "small", 64)],
}


def step(case, heads, **size):
    """Returns a function that makes one training step of a new model and returns its seconds."""
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


def measure(cases, size, heads, limits):
    """Returns rows of seconds and of their ratio to a plain step."""
    steps = {case.name: step(case, **SIZES[size] | {"heads": heads}) for case in cases}
    rounds = timing.run_rounds(steps, PLAIN.name, **limits)
    rows = []
    for name in steps:
        ratio, spread = rounds.ratio(name, PLAIN.name)
        rows.append([f"{size}, {heads} heads", name, f"{rounds.median(name):.2f}", f"{ratio:.3f} ± {spread:.1%}"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", choices=PLANS, help="what is measured")
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    options = parser.parse_args()
    limits = dict(max_rounds=3) if options.quick else dict(max_rounds=25, max_seconds=240)
    limits |= dict(min_rounds=3, max_spread=0.01)
    timing.limit_threads(timing.cores())
    rows = [row for plan in PLANS[options.plan] for row in measure(*plan, limits)]
    timing.report(
        None if options.quick else f"repulsive_cost_{options.plan}",
        f"# Cost of repulsive attention: {options.plan}",
        f"Transformers of 6 + 6 layers of width 512 on {SENTENCES} x {LENGTH} tokens either side; {timing.cores()} "
        "threads. Ratios to the same step without repulsion or regularizer.",
        timing.table(["size", "", "s a step", "ratio"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
