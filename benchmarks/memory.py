"""Memory and time of attention over long sequences, in chunks of queries and at once.

    python -m benchmarks.memory [--quick]
    python -m benchmarks.memory --time [--quick]

Self-attention of one sequence, 4 heads of 64, width 256, float32: forward and backward pass, compiled by XLA. Each
case runs in a process of its own. Its memory is the most that the process has during a call after the one that
compiles, less what it has before. For it TensorFlow is without oneDNN, whose allocator keeps what is freed.
"""

import argparse
import json
import os
import subprocess
import sys

from benchmarks import timing

HEADS, KEY_DIM = 4, 64
CHUNK, WINDOW = 256, 256
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
VARIANTS = ("multi_head", "talking_heads", "interacting", "dynamically_composable", "differential")
MOST_WHOLE = 4096  # tokens; the whole map of 8,192 is measured for stock attention alone
TIMED = 8192  # tokens
# Variant, chunk, causal, window
IN_TIME = {
    "stock Keras": ("stock", None, False, None),
    **{f"{variant}, chunks": (variant, CHUNK, False, None) for variant in VARIANTS},
    "multi_head, chunks, causal": ("multi_head", CHUNK, True, None),
    f"multi_head, chunks, window of {WINDOW}": ("multi_head", CHUNK, False, WINDOW),
}


def make_step(variant, length, chunk=None, causal=False, window=None):
    """A function that runs a forward and backward pass."""
    import keras
    import tensorflow as tf

    from keras_headattn import layers

    heads = HEADS // 2 if variant == "differential" else HEADS
    if variant == "stock":
        layer = keras.layers.MultiHeadAttention(heads, KEY_DIM)
    else:
        layer = layers.ATTENTIONS[variant](heads, KEY_DIM, query_chunk_size=chunk, sliding_window=window)
    x = tf.random.Generator.from_seed(1).normal((1, length, HEADS * KEY_DIM))
    layer.build(x.shape, x.shape)

    @tf.function(jit_compile=True, autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, x, training=True, use_causal_mask=causal)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, [x, *(weight.value for weight in layer.trainable_weights)])

    return lambda: step(x)


def timed_case(name, length):
    return {name: make_step(IN_TIME[name][0], length, *IN_TIME[name][1:])}


def megabytes(*case):
    """Memory of `make_step(*case)`, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--case", json.dumps(case)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{case} failed:\n{run.stderr[-2000:]}")
    return float(run.stdout.splitlines()[-1])


def measure_case(case):
    timing.limit_threads(timing.cores())
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    step = make_step(*case)
    step()  # compiles
    print(timing.memory(step))


def memory(lengths):
    """Rows of megabytes, a column for each length."""
    cases = {"stock Keras": ("stock", None)}
    cases |= {
        f"{variant}, {how}": (variant, chunk)
        for variant in VARIANTS
        for how, chunk in (("at once", None), ("chunks", CHUNK))
    }
    for name, (variant, chunk) in cases.items():
        most = max(lengths) if chunk else TIMED if variant == "stock" else MOST_WHOLE
        taken = [f"{megabytes(variant, length, chunk):,.0f}" if length <= most else "" for length in lengths]
        print(name, *taken, file=sys.stderr, flush=True)
        yield name, *taken


def seconds(length, rounds):
    """Rows of seconds and their ratios to stock Keras's."""
    workers = [timing.Worker("benchmarks.memory:timed_case", name, length, threads=timing.cores()) for name in IN_TIME]
    cases = {name: case for worker in workers for name, case in worker.cases.items()}
    measured = timing.run_rounds(cases, "stock Keras", min_rounds=rounds, max_rounds=rounds)
    for worker in workers:
        worker.close()
    for name in IN_TIME:
        ratio, spread = measured.ratio(name, "stock Keras")
        yield name, f"{measured.median(name):.1f}", f"{ratio:.2f} ± {spread:.0%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short sequences; writes nothing")
    parser.add_argument("--time", action="store_true", help="time in place of memory")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        measure_case(json.loads(options.case))
        return
    about = f"Self-attention, 4 heads of 64 (differential: 2 of two maps), batch 1, chunks of {CHUNK} queries."
    if options.time:
        length = 1024 if options.quick else TIMED
        rows = seconds(length, 3)
        title = f"# Time of attention over {length:,} tokens"
        tables = [timing.table(["", "s", "to stock Keras"], list(rows)), timing.SPREAD]
    else:
        lengths = (512, 1024) if options.quick else LENGTHS
        title = "# Memory of attention over long sequences"
        tables = [timing.table(["MB", *(f"{n:,} tokens" for n in lengths)], list(memory(lengths)))]
    machine = "\n".join(timing.machine("tensorflow", "keras"))
    name = None if options.quick else "memory_time" if options.time else "memory"
    timing.report(name, title, about, *tables, machine)


if __name__ == "__main__":
    main()
