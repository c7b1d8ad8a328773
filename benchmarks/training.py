"""Target tokens per second of training: this library, stock Keras layers and Hugging Face Marian at the same sizes.

    python -m benchmarks.training [--quick]

A step is forward pass, loss, backward pass and Adam update on a batch of 64 x 32 tokens on either side, with dropout of
embeddings and sublayers 0.1 and label smoothing 0.1. Keras models are trained by `train_on_batch`. Each library runs in
its own process; they take turns. PyTorch runs with one thread and with one per core, stock Keras with and without XLA;
the faster counts.
"""

import argparse
import contextlib
import functools

import numpy as np

from benchmarks import timing
from benchmarks.sizes import DROPOUT, FEED_FORWARD, HEADS, LABEL_SMOOTHING, LAYERS, TITLE, VOCABULARY, WIDTH

BATCH_SIZE, LENGTH = 64, 32
STOCK = "stock Keras layers"
MARIAN = "Hugging Face Marian, PyTorch"


def batch():
    """Draws `(source, target, labels)`, each `(BATCH_SIZE, LENGTH)`, without padding."""
    generator = np.random.default_rng(0)
    return [generator.integers(10, VOCABULARY - 10, (BATCH_SIZE, LENGTH), "int32") for _ in range(3)]


def our_cases():
    import keras

    from keras_headattn.layers import MultiHeadAttention
    from keras_headattn.losses import LabelSmoothedCrossentropy
    from keras_headattn.models import Transformer
    from keras_headattn.training import Model

    def make():
        transformer = Transformer(
            VOCABULARY,
            num_layers=LAYERS,
            hidden_dim=WIDTH,
            intermediate_dim=FEED_FORWARD,
            attention=MultiHeadAttention(HEADS, WIDTH // HEADS),
            dropout=DROPOUT,
        )
        inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in ("source", "target")}
        return Model(inputs, transformer(inputs))

    return _keras_cases("this library", make, LabelSmoothedCrossentropy(LABEL_SMOOTHING))


def stock_cases():
    from benchmarks.stock import make_stock, smoothed_crossentropy

    return _keras_cases(STOCK, lambda: make_stock(LENGTH), smoothed_crossentropy)


def _keras_cases(name, make, loss):
    import keras

    source, target, labels = batch()
    cases = {}
    for jit_compile in (True, False):
        model = make()
        model.compile(keras.optimizers.Adam(1e-4), loss, jit_compile=jit_compile)
        step = functools.partial(model.train_on_batch, {"source": source, "target": target}, labels)
        cases[f"{name}{', XLA' if jit_compile else ''}"] = step
    return cases


def marian_cases(threads):
    import torch

    from benchmarks.marian import make_marian

    torch.set_num_threads(threads)
    model = make_marian().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.0)
    source, target, labels = (torch.from_numpy(ids).long() for ids in batch())

    def step():
        optimizer.zero_grad()
        logits = model(input_ids=source, attention_mask=torch.ones_like(source), decoder_input_ids=target).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=LABEL_SMOOTHING
        )
        loss.backward()
        optimizer.step()
        return loss.item()

    return {f"{MARIAN}, {threads} thread{'s' if threads > 1 else ''}": step}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three rounds; writes nothing")
    quick = parser.parse_args().quick
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(min_rounds=10, max_rounds=30, max_seconds=180)
    threads = timing.cores()
    with contextlib.ExitStack() as stack:

        def start(cases, *arguments, threads):
            worker = timing.Worker(f"benchmarks.training:{cases}", *arguments, threads=threads)
            return stack.enter_context(worker).cases

        cases = start("our_cases", threads=threads) | start("stock_cases", threads=threads)
        for n in sorted({1, threads}):
            cases |= start("marian_cases", n, threads=n)
        rounds = timing.run_rounds(cases, STOCK, **limits)
    timing.report(
        None if quick else "training",
        "# Speed of training",
        f"{TITLE}; batch {BATCH_SIZE} x {LENGTH} tokens, dropout {DROPOUT}, label smoothing {LABEL_SMOOTHING}, Adam; "
        f"{threads} threads. The last columns say how many times as fast each is as the faster stock Keras and the "
        "faster Marian.",
        timing.table(["", "target tokens/s", "to stock Keras", "to Marian"], [_row(rounds, name) for name in cases]),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "torch", "transformers")),
    )


def _row(rounds, name):
    peers = [rounds.fastest([case for case in rounds.seconds if case.startswith(peer)]) for peer in (STOCK, MARIAN)]
    cells = [f"{ratio:.2f} ± {spread:.0%}" for ratio, spread in (rounds.ratio(peer, name) for peer in peers)]
    return [name, f"{BATCH_SIZE * LENGTH / rounds.median(name):,.0f}", *cells]


if __name__ == "__main__":
    main()
