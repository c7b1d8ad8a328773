"""Memory and time of attention over long sequences, in chunks of queries and at once.

    python -m benchmarks.memory [--quick]
    python -m benchmarks.memory --sizes

Self-attention of one sequence, 4 heads of 64, width 256, float32: forward and backward pass, compiled by XLA. Each
case runs in a process of its own. Its memory is the most that the process has, less what it has before the first
call after the one that compiles; its time is the median of the calls. The cases of one length take turns.
"""

import argparse
import json
import subprocess
import sys

from benchmarks import timing

HEADS, KEY_DIM = 4, 64
CHUNK = 256
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
VARIANTS = ("multi_head", "talking_heads", "interacting", "dynamically_composable", "differential")
MOST_WHOLE = 8192  # tokens: the whole map of 16,384 takes 17 GB


def make_layer(variant, chunk, window):
    import keras

    from keras_headattn import layers

    if variant == "stock":
        return keras.layers.MultiHeadAttention(HEADS, KEY_DIM)
    heads, key_dim = (HEADS // 2, KEY_DIM) if variant == "differential" else (HEADS, KEY_DIM)
    return layers.ATTENTIONS[variant](heads, key_dim, query_chunk_size=chunk, sliding_window=window)


def measure(variant, length, chunk, causal, window, calls):
    """Megabytes and seconds of a case, in this process."""
    timing.limit_threads(timing.cores())
    import tensorflow as tf

    layer = make_layer(variant, chunk, window)
    x = tf.random.Generator.from_seed(1).normal((1, length, HEADS * KEY_DIM))
    layer.build(x.shape, x.shape)

    @tf.function(jit_compile=True, autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, x, training=True, use_causal_mask=causal)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, [x, *(weight.value for weight in layer.trainable_weights)])

    step(x)  # compiles
    megabytes = timing.memory(lambda: step(x))
    return megabytes, [timing.timed(lambda: step(x))() for _ in range(calls)]


def in_process(**case):
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--case", json.dumps(case)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{case} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two lengths, one round; writes nothing")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(**json.loads(options.case))))
        return


if __name__ == "__main__":
    main()
