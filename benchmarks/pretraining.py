"""Pre-training of ELECTRA-small: a step compared with Hugging Face's, text as records, and their memory.

    python -m benchmarks.pretraining train [--quick]
    python -m benchmarks.pretraining memory [--quick] [--megabytes 40 160]

`train` measures steps of 8 texts of 128 tokens: ours as `recipes.pretrain` runs on a CPU, plain and with repulsive
attention in the discriminator's first layer; and Hugging Face in PyTorch, with the same networks, masks, samples and
losses. The drawing of masks and samples is measured by itself, too. PyTorch runs with one thread and one per core, with
either attention, with logits of the drawn tokens, as ours, or of all, as its model computes; the fastest counts. Each
library runs in its own processes; they take turns.

`memory` writes text of two sizes as records, by one process and by two, and reads them as the recipe does. Each
measurement runs in its own process, whose peak resident memory is reported.
"""

import argparse
import contextlib
import functools
import os
import pathlib
import resource
import tempfile
import time

import numpy as np

from benchmarks import electra, timing
from benchmarks.exports import in_a_fresh_process

OURS, REPULSIVE, DRAWING = "this library", "this library, repulsive heads", "its masks and samples alone"
HUGGING_FACE = "Hugging Face"
STEPS = 10  # by which the tokens are counted that training takes
EPOCH_STEPS = 250  # read by the second part, batches of 128
LETTERS = "etaoinshrdlu"
LINES = 8_000  # about 1 MB of text, which is written again and again


def our_steps():
    """Returns steps with the recipe's settings, and the drawing of masks and samples, by name."""
    import keras
    import tensorflow as tf

    from keras_headattn._random import sample

    inputs = electra.inputs()
    plain = electra.make_trainer()
    repulsive = electra.make_trainer(repulsive="svgd")
    logits = tf.random.normal((electra.ROWS, electra.MOST, electra.VOCABULARY))

    @tf.function
    def draw():
        return plain.draw_masks(inputs), sample(
            logits, keras.random.uniform(logits.shape[:2], seed=plain.seed_generator)
        )

    cases = {OURS: plain, REPULSIVE: repulsive}
    steps = {name: functools.partial(trainer.train_on_batch, inputs) for name, trainer in cases.items()}
    return steps | {DRAWING: lambda: keras.tree.map_structure(keras.ops.convert_to_numpy, draw())}


def torch_steps(folder, threads):
    import torch

    torch.set_num_threads(threads)
    cases = {}
    for attention in ("eager", "sdpa"):
        name = f"{HUGGING_FACE}, {attention}, {threads}"
        cases[name] = electra.Peer(folder, attention, is_short=True).step
    return cases | {f"{name}, all logits": electra.Peer(folder, attention, is_short=False).step}


def train(options):
    limits = dict(min_rounds=3, max_rounds=3) if options.quick else dict(min_rounds=10, max_rounds=40, max_seconds=120)
    cases = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        in_a_fresh_process(electra.make_folder, folder)
        worker = timing.Worker("benchmarks.pretraining:our_steps", threads=timing.cores())
        cases |= stack.enter_context(worker).cases
        for threads in sorted({1, timing.cores()}):
            worker = timing.Worker("benchmarks.pretraining:torch_steps", folder, threads, threads=threads)
            cases |= stack.enter_context(worker).cases
        rounds = timing.run_rounds(cases, OURS, max_spread=0.01, **limits)
    rows = [[name, f"{rounds.median(name):.4f}", _ratio(rounds, name, OURS)] for name in cases]
    peer = rounds.fastest([name for name in cases if name.startswith(HUGGING_FACE)])
    timing.report(
        None if options.quick else "pretraining",
        "# A step of pre-training",
        f"{electra.TITLE}; {electra.ROWS} x {electra.LENGTH} tokens, {electra.MOST} of each text drawn; "
        f"{timing.cores()} threads. The number after a peer's name is that of its threads. Hugging Face at its fastest "
        f"({peer}) takes {_ratio(rounds, peer, OURS)} times as long as this library.",
        timing.table(["", "s a step", "ratio"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "torch", "transformers")),
    )


def _ratio(rounds, name, reference):
    ratio, spread = rounds.ratio(name, reference)
    return f"{ratio:.3f} ± {spread:.1%}"


def write_text(folder, megabytes):
    """Writes documents of ten lines out of 20,000 words, with natural frequencies, and a vocabulary of 15,000 words."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list(LETTERS), 2 + rank % 8)) for rank in range(20_000)])
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = dict.fromkeys([*pieces, *words[:15_000].tolist()])
    pathlib.Path(folder, "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    lines = (" ".join(words[rng.zipf(1.2, 20) % len(words)]) for _ in range(LINES))
    block = "".join(f"{line}\n" + "\n" * (index % 10 == 9) for index, line in enumerate(lines))
    with open(pathlib.Path(folder, "text.txt"), "w", encoding="ascii") as file:
        for _ in range(round(megabytes * 1e6 / len(block))):
            file.write(block)


def settings(folder, processes=1):
    from recipes.pretrain.settings import PretrainConfig

    return PretrainConfig(
        train=(f"{folder}/text.txt",),
        vocabulary=f"{folder}/vocab.txt",
        records=f"{folder}/records-{processes}",
        processes=processes,
        epoch_steps=EPOCH_STEPS,
        warmup_steps=0,
    )


def prepare(folder, processes):
    from recipes.engine.quiet import quiet_tensorflow
    from recipes.pretrain.prepare import prepare

    quiet_tensorflow()
    start = time.perf_counter()
    manifest = prepare(settings(folder, processes)).manifest
    return manifest["tokens"]["input_ids"], time.perf_counter() - start


def read(folder, processes):
    """Reads an epoch of batches as the recipe does."""
    from keras_headattn.data import Records
    from recipes.pretrain.batches import SequenceBatches
    from recipes.pretrain.data import number_held_out

    config = settings(folder, processes)
    records = Records(config.records)
    start = time.perf_counter()
    held_out = number_held_out(records, config)
    batches = SequenceBatches(records, config.batch_size, config.epoch_steps, held_out, config.seed)
    tokens = sum(int(np.count_nonzero(batch["token_ids"])) for batch in batches.dataset().as_numpy_iterator())
    return tokens, time.perf_counter() - start


def steps():
    """Trains after a first step that makes the graph."""
    step = our_steps()[OURS]
    step()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    return STEPS * electra.ROWS * electra.LENGTH, time.perf_counter() - start


def measured(function, *arguments):
    """Returns `(tokens, seconds, peak MB, MB of the largest child process)` of a function in a new process."""
    timing.limit_threads(timing.cores())
    result = function(*arguments)
    peaks = (resource.getrusage(who).ru_maxrss / 1e3 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return *result, *peaks


def memory(options):
    tokens, seconds, *_ = in_a_fresh_process(measured, steps)
    need = tokens / seconds
    rows = []
    for megabytes in [1, 4] if options.quick else options.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            write_text(folder, megabytes)
            cases = ("writing, one process", prepare, 1), ("writing, two processes", prepare, 2)
            for name, function, processes in (*cases, (f"reading {EPOCH_STEPS} x 128", read, 1)):
                tokens, seconds, peak, theirs = in_a_fresh_process(measured, function, folder, processes)
                rate = tokens / seconds
                cells = f"{megabytes:,}", f"{tokens:,}", f"{seconds:.1f}", f"{rate:,.0f}", f"{rate / need:,.0f}"
                rows.append([name, *cells, f"{peak:,.0f}", f"{theirs:,.0f}" if theirs else ""])
                print(*rows[-1], sep=" | ", flush=True)
    timing.report(
        None if options.quick else "pretraining_memory",
        "# Text of pre-training as records: speed and memory",
        f"Lines of 20 words made by code; sequences of {electra.LENGTH} tokens. The ratio is to the {need:,.0f} "
        f"tokens/s that training took just before: {electra.TITLE}, batches of {electra.ROWS} x {electra.LENGTH} "
        "tokens. Peaks have TensorFlow in them; the last column is of the largest process that it began.",
        timing.table(
            [
                "",
                "MB of text",
                "tokens",
                "s",
                "tokens/s",
                "times what training takes",
                "peak, MB",
                "of what it began, MB",
            ],
            rows,
        ),
        "\n".join(timing.machine("tensorflow", "keras")),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"train": train, "memory": memory}
    parser.add_argument("part", choices=parts, nargs="?", default="train", help="what is measured [train]")
    parser.add_argument("--quick", action="store_true", help="three rounds, or small texts; writes nothing")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[40, 160], help="of text [40 160]")
    options = parser.parse_args()
    parts[options.part](options)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
