"""Memory and time of training on long sequences.

    python -m benchmarks.memory [--quick]
    python -m benchmarks.memory --time [--quick]
    python -m benchmarks.memory --sizes [--quick]

The first measures the memory of self-attention, at once and in chunks of queries, and that of a whole Transformer, and
draws docs/long_sequences.png. The others compare times: of long sequences, and of chunks of several sizes.

Float32, forward and backward pass, compiled by XLA. Each case runs in a process of its own. Its memory is the most that
the process has during a call after the one that compiles, less what it has before. For it TensorFlow is without
oneDNN, whose allocator keeps what is freed, and glibc gives back all blocks of a megabyte or more.
"""

import argparse
import json
import os
import subprocess
import sys

from benchmarks import timing

HEADS, KEY_DIM = 4, 64
CHUNK, WINDOW = 256, 256
LENGTHS = (512, 2048, 4096, 8192, 16384)
VARIANTS = ("multi_head", "talking_heads", "interacting", "dynamically_composable", "differential")
MOST_WHOLE = 4096  # tokens; the whole map of 8,192 is measured for stock attention alone
TIMED = 8192  # tokens
# Variant, chunk, causal, window
IN_CHUNKS = {
    **{f"{variant}, chunks": (variant, CHUNK, False, None) for variant in VARIANTS},
    **{f"{variant}, chunks, causal": (variant, CHUNK, True, None) for variant in VARIANTS},
    f"multi_head, chunks, window of {WINDOW}": ("multi_head", CHUNK, False, WINDOW),
}
STOCK = "stock Keras"
IN_TIME = {STOCK: ("stock", None, False, None), **IN_CHUNKS}
CURVES = (STOCK, "talking_heads, at once", *(f"{name}, chunks" for name in ("talking_heads", "multi_head")))

VOCABULARY = 32_000
MODEL_LENGTHS = (1024, 2048, 4096)
CHUNKS, RECOMPUTED, LOSS = {"query_chunk_size": CHUNK}, {"recompute": True}, {"loss_chunk_size": CHUNK}
# Settings, and the most tokens.
MODELS = {
    "as it is": ({}, 2048),
    "query_chunk_size": (CHUNKS, 2048),
    "recompute": (RECOMPUTED, 2048),
    "loss_chunk_size": (LOSS, 2048),
    "all three": (CHUNKS | RECOMPUTED | LOSS, 4096),
}
MODEL_TIMED = 1024  # tokens

SIZES = (None, 32, 64, 128, 256, 512)
SHAPES = ((8, 256, 16, 32), (8, 256, 64, 8), (1, 2048, 4, 64), (1, 4096, 4, 64))  # texts, tokens, heads, their width


def make_step(
    variant,
    length,
    chunk=None,
    causal=False,
    window=None,
    heads=HEADS,
    key_dim=KEY_DIM,
    batch=1,
    jit_compile=True,
):
    """Returns a function that runs a forward and backward pass of self-attention."""
    import keras
    import tensorflow as tf

    from keras_headattn import layers

    width = heads * key_dim
    if variant == "differential":
        heads //= 2
    if variant == "stock":
        layer = keras.layers.MultiHeadAttention(heads, key_dim)
    else:
        layer = layers.ATTENTIONS[variant](heads, key_dim, query_chunk_size=chunk, sliding_window=window)
    x = tf.random.Generator.from_seed(1).normal((batch, length, width))
    layer.build(x.shape, x.shape)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, x, training=True, use_causal_mask=causal)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, [x, *(weight.value for weight in layer.trainable_weights)])

    return lambda: step(x)


def make_model_step(length, query_chunk_size=None, **arguments):
    """Returns a function that runs a training step of a Transformer on one pair of texts."""
    import keras
    import numpy as np

    from keras_headattn.layers import MultiHeadAttention
    from keras_headattn.losses import LabelSmoothedCrossentropy
    from keras_headattn.models import Transformer

    attention = MultiHeadAttention(4, 128, query_chunk_size=query_chunk_size)
    model = Transformer.from_size("small", VOCABULARY, attention=attention, **arguments)
    model.compile(keras.optimizers.SGD(0.01), LabelSmoothedCrossentropy(), jit_compile=True)
    ids = np.random.default_rng(0).integers(1, VOCABULARY, (1, length)).astype("int32")
    return lambda: model.train_on_batch({"source": ids, "target": ids}, ids)


def timed_case(name, *case, **arguments):
    return {name: make_step(*case, **arguments)}


def timed_model(name, length, arguments):
    return {name: make_model_step(length, **arguments)}


def megabytes(*case, **arguments):
    """Memory of `make_step`, or of `make_model_step` if a length comes first, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--case", json.dumps([case, arguments])]
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode:
        raise RuntimeError(f"{case} failed:\n{run.stderr[-2000:]}")
    return float(run.stdout.splitlines()[-1])


def measure_case(case, arguments):
    timing.limit_threads(timing.cores())
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    make = make_step if isinstance(case[0], str) else make_model_step
    step = make(*case, **arguments)
    step()  # compiles
    print(timing.memory(step))


def measured(name, lengths, most, measure):
    """Returns a row of megabytes, a cell for each length."""
    row = name, *(f"{measure(length):,.0f}" if length <= most else "" for length in lengths)
    print(*row, file=sys.stderr, flush=True)
    return row


def memory_of_attention(lengths):
    whole = {STOCK: ("stock", None), **{f"{variant}, at once": (variant, None) for variant in VARIANTS}}
    for name, (variant, *how) in {**whole, **IN_CHUNKS}.items():
        most = TIMED if name == STOCK else MOST_WHOLE if name in whole else max(lengths)
        yield measured(name, lengths, most, lambda length: megabytes(variant, length, *how))  # noqa: B023


def memory_of_models(lengths):
    for name, (arguments, most) in MODELS.items():
        yield measured(name, lengths, most, lambda length: megabytes(length, **arguments))  # noqa: B023


def draw(rows, lengths, path):
    """Draws memory against length."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    window = f"multi_head, chunks, window of {WINDOW}"
    for name, *cells in rows:
        if name in (*CURVES, window):
            values = [float(cell.replace(",", "")) for cell in cells if cell]
            axes.plot(lengths[: len(values)], values, "o-", label=name.replace("_", "-"))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    axes.set_title(f"Memory of self-attention, {HEADS} heads of {KEY_DIM}, forward and backward")
    axes.set_xlabel("Length (tokens)")
    axes.set_ylabel("Peak memory (MB)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


def rounds_of(make_cases, cases, reference, rounds):
    """Returns `timing.Rounds` of cases, each in a process of its own."""
    workers = [
        timing.Worker(f"benchmarks.memory:{make_cases}", name, *case, threads=timing.cores())
        for name, case in cases.items()
    ]
    runs = {name: run for worker in workers for name, run in worker.cases.items()}
    results = timing.run_rounds(runs, reference, min_rounds=rounds, max_rounds=rounds)
    for worker in workers:
        worker.close()
    return results


def seconds(make_cases, cases, reference, rounds):
    """Returns a table of milliseconds and their ratios to the reference."""
    results, rows = rounds_of(make_cases, cases, reference, rounds), []
    for name in cases:
        ratio, spread = results.ratio(name, reference)
        rows.append((name, f"{1000 * results.median(name):,.0f}", f"{ratio:.2f} ± {spread:.0%}"))
    return timing.table(["", "ms", f"to {reference}"], rows)


def time_report(quick):
    length = 1024 if quick else TIMED
    cases = {name: (variant, length, *how) for name, (variant, *how) in IN_TIME.items()}
    yield f"## Self-attention over {length:,} tokens, {HEADS} heads of {KEY_DIM}, chunks of {CHUNK}"
    yield seconds("timed_case", cases, STOCK, rounds=3 if quick else 5)
    length = 64 if quick else MODEL_TIMED
    models = {name: (length, arguments) for name, (arguments, _) in MODELS.items()}
    yield f"## A training step of a Transformer (small, {VOCABULARY:,} tokens), {length:,} + {length:,} tokens"
    yield seconds("timed_model", models, "as it is", rounds=3 if quick else 5)


def sizes_report(quick):
    yield "Cells are ratios to stock Keras's layer."
    rows = []
    for variant in ("talking_heads", "multi_head"):
        for batch, length, heads, key_dim in SHAPES[:1] if quick else SHAPES:
            arguments = (False, None, heads, key_dim, batch)
            cases = {STOCK: ("stock", length, None, *arguments)}
            cases |= {str(size): (variant, length, size, *arguments) for size in SIZES if size is None or size < length}
            results = rounds_of("timed_case", cases, STOCK, 3 if quick else 9)
            cells = [f"{results.ratio(str(size), STOCK)[0]:.2f}" if str(size) in cases else "" for size in SIZES]
            rows.append((f"{variant}, {batch} x {length:,} tokens, {heads} heads of {key_dim}", *cells))
    yield timing.table(["", *(f"chunks of {size}" if size else "at once" for size in SIZES)], rows)


def memory_report(quick):
    lengths = (512, 1024) if quick else LENGTHS
    rows = list(memory_of_attention(lengths))
    if not quick:
        draw(rows, lengths, timing.RESULTS.parents[1] / "docs" / "long_sequences.png")
    header = ["MB", *(f"{n:,} tokens" for n in lengths)]
    yield f"## Self-attention of one text, {HEADS} heads of {KEY_DIM} (differential: 2 of two maps), chunks of {CHUNK}"
    yield timing.table(header, rows)
    lengths = (128, 256) if quick else MODEL_LENGTHS
    yield (
        f"## A training step of a Transformer (small, {VOCABULARY:,} tokens), one text of as many tokens on each side, "
        f"chunks of {CHUNK}"
    )
    yield timing.table(["MB", *(f"{n:,} tokens" for n in lengths)], list(memory_of_models(lengths)))


REPORTS = {
    "memory": ("Memory of training on long sequences", memory_report),
    "memory_time": ("Time of training on long sequences", time_report),
    "memory_sizes": ("Time of attention by the size of its chunks", sizes_report),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short sequences; writes nothing")
    parser.add_argument("--time", dest="name", action="store_const", const="memory_time", help="of long sequences")
    parser.add_argument("--sizes", dest="name", action="store_const", const="memory_sizes", help="time by chunk size")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.set_defaults(name="memory")
    options = parser.parse_args()
    if options.case:
        measure_case(*json.loads(options.case))
        return
    title, make = REPORTS[options.name]
    parts = list(make(options.quick))
    spread = [] if options.name == "memory" else [timing.SPREAD]
    machine = "\n".join(timing.machine("tensorflow", "keras"))
    timing.report(None if options.quick else options.name, f"# {title}", *parts, *spread, machine)


if __name__ == "__main__":
    main()
