"""What watching a run costs: each callback's time as a multiple of a plain training step.

    python -m benchmarks.monitoring [--quick]

A step is forward pass, loss, backward pass and update with Adam, on a batch of 16 x 32 tokens on either side, called
by `train_on_batch`.
"""

import argparse
import tempfile

import numpy as np

from benchmarks import timing
from benchmarks.sizes import FEED_FORWARD, HEADS, LAYERS, TITLE, VOCABULARY, WIDTH

BATCH_SIZE, LENGTH = 16, 32
PLAIN = "a plain step"


def cases(folder):
    """Dictionary of name to function; each runs one step, or what is called once an epoch."""
    import keras

    from keras_headattn.training import AttentionImages, Compilations, GradientNorm, HeadNorms

    def step(*callbacks):
        model = _model()
        watched = keras.callbacks.CallbackList(list(callbacks), model=model)
        watched.on_train_begin()
        ids = np.random.default_rng(0).integers(10, VOCABULARY - 10, (BATCH_SIZE, LENGTH), "int32")

        def run():
            watched.on_train_batch_begin(0)
            logs = model.train_on_batch({"source": ids, "target": ids}, ids, return_dict=True)
            watched.on_train_batch_end(0, logs)

        return run

    def epoch(callback):
        callback.set_model(_model())
        callback.on_train_begin()
        return lambda: callback.on_epoch_end(0, {"loss": 1.0, "accuracy": 0.5, "val_loss": 1.0, "val_accuracy": 0.5})

    tensorboard = lambda: keras.callbacks.TensorBoard(folder, write_graph=False)  # noqa: E731
    maps = np.full((HEADS, 12, 12), 1 / 12)
    image = AttentionImages(folder, lambda model: {"0/cross_0": (maps, ["token"] * 12, ["token"] * 12)})
    return {
        PLAIN: step(),
        "the same, with the gradient's norm": step(GradientNorm()),
        "the same, with TensorBoard and the count of compilations": step(tensorboard(), Compilations()),
        "scalars, once an epoch": epoch(tensorboard()),
        "norms of all heads, once an epoch": epoch(HeadNorms(folder)),
        f"one image of {HEADS} attention maps of 12 x 12 tokens": epoch(image),
    }


def _model():
    import keras

    from keras_headattn.layers import MultiHeadAttention
    from keras_headattn.losses import LabelSmoothedCrossentropy
    from keras_headattn.models import Transformer
    from keras_headattn.training import Model

    transformer = Transformer(
        VOCABULARY,
        num_layers=LAYERS,
        hidden_dim=WIDTH,
        intermediate_dim=FEED_FORWARD,
        attention=MultiHeadAttention(HEADS, WIDTH // HEADS),
    )
    inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in ("source", "target")}
    model = Model(inputs, transformer(inputs))
    model.compile(keras.optimizers.Adam(1e-4), LabelSmoothedCrossentropy(0.1), jit_compile=False)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    quick = parser.parse_args().quick
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(min_rounds=10, max_rounds=40, max_seconds=90)
    timing.limit_threads(timing.cores())
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: timing.timed(run) for name, run in cases(folder).items()}
        rounds = timing.run_rounds(runs, PLAIN, **limits)
    timing.report(
        None if quick else "monitoring",
        "# Cost of watching a run",
        f"{TITLE}; batch {BATCH_SIZE} x {LENGTH} tokens, Adam, without XLA. What happens once an epoch is to be "
        "divided by the steps of an epoch.",
        timing.table(["", "ms", "to a plain step"], [_row(rounds, name) for name in runs]),
        f"{len(rounds)} rounds. {timing.SPREAD}",
        "\n".join(timing.machine("tensorflow", "keras", "tensorboard")),
    )


def _row(rounds, name):
    ratio, spread = rounds.ratio(name, PLAIN)
    return [name, f"{1000 * rounds.median(name):.1f}", f"{ratio:.3f} ± {spread:.1%}"]


if __name__ == "__main__":
    main()
