"""Time of training from `keras_headattn.data`, relative to the same batches from `tf.data.Dataset.from_generator`.

    python -m benchmarks.generators [--quick] [--preload /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4]

The second makes glibc return every freed buffer of 128 KiB or more to the system; the first undoes that up to 32 MiB,
and another allocator keeps larger ones, too. An epoch of ten batches of a small language model is timed, for each
dataset in a process of its own.
"""

import argparse
import contextlib
import functools
import os

from benchmarks import timing
from benchmarks.language_model_heads import VOCABULARY, head_model
from benchmarks.language_models import ids

BATCHES = 10
SHAPES = (12, 64), (32, 256)  # rows and tokens of a batch
PRELOADED = "dataset_of, other allocator"


class TokenRows(list):
    """Batches, with the attribute that `dataset_of` sets."""

    fault = None


def epochs(kind):
    """Returns functions that train for an epoch, by shape of the batches."""
    import tensorflow as tf

    from keras_headattn._tensorflow import untuned
    from keras_headattn.data import dataset_of

    cases = {}
    for rows, length in SHAPES:
        tokens = ids(rows, length + 1, VOCABULARY)
        batches = TokenRows([(tokens[:, :-1], tokens[:, 1:])] * BATCHES)
        spec = (tf.TensorSpec((rows, length), tf.int32),) * 2
        if kind.startswith("dataset_of"):
            dataset = dataset_of(batches, spec)
        else:
            dataset = tf.data.Dataset.from_generator(lambda batches=batches: iter(batches), output_signature=spec)
            dataset = untuned(dataset.apply(tf.data.experimental.assert_cardinality(BATCHES)).prefetch(2))
        trainer, _ = head_model("multi_head", length)
        cases[f"{kind}, {rows} x {length}"] = functools.partial(trainer.fit, dataset, shuffle=False, verbose=0)
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    parser.add_argument("--preload", help="library of another allocator, for a third measurement")
    args = parser.parse_args()
    quick, kinds = args.quick, ["from_generator", "dataset_of", *[PRELOADED] * bool(args.preload)]
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(min_rounds=5, max_rounds=20, max_seconds=120)
    rows = []
    with contextlib.ExitStack() as stack:
        cases = {}
        for kind in kinds:
            if kind == PRELOADED:
                os.environ["LD_PRELOAD"] = args.preload  # of the processes that start from here on
            worker = timing.Worker("benchmarks.generators:epochs", kind, threads=timing.cores())
            cases |= stack.enter_context(worker).cases
        for size, length in SHAPES:
            names = [f"{kind}, {size} x {length}" for kind in kinds]
            rounds = timing.run_rounds({name: cases[name] for name in names}, names[0], 0.02, **limits)
            ratios = ["{:.2f} ± {:.0%}".format(*rounds.ratio(name, names[0])) for name in names[1:]]
            rows.append([f"{size} x {length}", *(f"{1e3 * rounds.median(n) / BATCHES:.0f}" for n in names), *ratios])
    timing.report(
        None if quick else "generators",
        "# Training from generators",
        "A training step of the language model of 4 blocks, 128 wide, of `recipes.lm` on batches of rows x tokens, on "
        f"{timing.cores()} threads, in `fit`.",
        timing.table(["", *(f"{kind}, ms" for kind in kinds), *(f"{kind}, time" for kind in kinds[1:])], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
