"""Training step with disentangled mask attention, compared with multi-head attention in the same Transformer.

    python -m benchmarks.disentangled [--quick]
    python -m benchmarks.disentangled --memory

A step is forward pass, loss, backward pass and Adam update by `train_on_batch`, compiled by XLA. Its memory is the
process's peak during a step minus that before. `--memory` turns oneDNN off, whose allocator keeps freed memory, and
times nothing.
"""

import argparse
import os

from benchmarks import timing
from benchmarks.steps import LENGTH, SENTENCES, SIZES, training_step

CASES = {
    "multi-head": None,
    "disentangled, no losses": dict.fromkeys(
        ("shared_information", "kept_information", "divergence", "diversity"), 0.0
    ),
    "disentangled": {},
    "disentangled, 12 clusters": {"num_clusters": 12},
}


def step(options, heads, **size):
    """Returns a function that makes one training step of a new model and returns its seconds."""
    import keras

    from keras_headattn.layers import DisentangledMaskAttention, MultiHeadAttention

    key_dim = size["hidden_dim"] // heads
    if options is None:
        attention = MultiHeadAttention(heads, key_dim)
    else:
        attention = DisentangledMaskAttention(heads, key_dim, **options)
    return training_step(keras.optimizers.Adam(1e-4), attention=attention, **size)


def seconds(steps, limits):
    """Returns rows of seconds and ratios."""
    rounds = timing.run_rounds(steps, "multi-head", min_rounds=3, max_spread=0.02, **limits)
    for case in steps:
        ratio, spread = rounds.ratio(case, "multi-head")
        yield case, f"{rounds.median(case):.2f}", f"{ratio:.2f} ± {spread:.0%}"


def megabytes(steps):
    """Returns rows of memory and ratios."""
    for step in steps.values():
        step()  # compiles
    taken = {case: timing.memory(step) for case, step in steps.items()}
    for case, memory in taken.items():
        yield case, f"{memory:,.0f}", f"{memory / taken['multi-head']:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds of one size; writes nothing")
    parser.add_argument("--memory", action="store_true", help="memory in place of time")
    options = parser.parse_args()
    limits = dict(max_rounds=3) if options.quick else dict(max_rounds=15, max_seconds=100)
    timing.limit_threads(timing.cores())
    if options.memory:
        os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    rows = []
    for name, size in SIZES.items():
        steps = {case: step(arguments, **size) for case, arguments in CASES.items()}
        measured = megabytes(steps) if options.memory else seconds(steps, limits)
        rows += [[f"{name}, {size['heads']} heads", *row] for row in measured]
        if options.quick:
            break
    kind, unit = ("memory", "MB a step") if options.memory else ("time", "s a step")
    timing.report(
        None if options.quick else f"disentangled_{kind}",
        f"# {kind.capitalize()} of a training step with disentangled mask attention",
        f"Transformers of 6 + 6 layers of width 512 on {SENTENCES} x {LENGTH} tokens either side; {timing.cores()} "
        "threads; 4 clusters where nothing else is said.",
        timing.table(["size", "", unit, "ratio"], rows),
        *[] if options.memory else [timing.SPREAD],
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
