"""Tokens per second of the data pipeline alone, compared with a model's need, and its memory for two sizes of corpus.

    python -m benchmarks.data [--quick] [--pairs 100000 400000]

The synthetic corpus has sentences of 5 to 45 words out of 20,000, with natural frequencies. Both sizes exceed the
65,536 pairs that are shuffled at a time. Each measurement runs in its own process, whose peak resident memory is
reported.
"""

import argparse
import functools
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import timing
from benchmarks.sizes import TITLE, VOCABULARY

TRAINING_STEPS = 10
LETTERS = np.array(list("etaoinshrdlu"))


def write_text(folder, num_lines):
    """Writes two text files of this many lines."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(LETTERS, 2 + rank % 8)) for rank in range(20_000)])
    for side in ("en", "de"):
        with open(Path(folder) / f"train.{side}", "w", encoding="utf-8") as file:
            for _ in range(num_lines):
                ranks = rng.zipf(1.2, rng.integers(5, 46)) % len(words)
                file.write(" ".join(words[ranks]) + "\n")


def settings(folder):
    from recipes.translate.settings import TranslateConfig

    files = tuple(str(Path(folder) / f"train.{side}") for side in ("en", "de"))
    return TranslateConfig(
        train=files,
        validation=files,
        records=str(Path(folder) / "records"),
        vocabulary_size=VOCABULARY,
        vocabulary_sentences=5_000,
    )


def tokenise(folder):
    """Learns the vocabulary and writes the records."""
    from recipes.translate.prepare import prepare

    start = time.perf_counter()
    manifest = prepare(settings(folder)).manifest
    return manifest["tokens"]["targets"], time.perf_counter() - start


def read(folder):
    """Reads an epoch of batches."""
    from keras_headattn.data import RecordBatches, Records, choose_buckets, teacher_forcing

    records = Records(settings(folder).records)
    histogram = records.histogram()
    buckets = choose_buckets(histogram["length"], 6, counts=histogram["examples"])
    forcing = functools.partial(teacher_forcing, target="targets")
    batches = RecordBatches(records, tokens_per_batch=4096, bucket_lengths=buckets, preprocess=forcing)
    start = time.perf_counter()
    assert sum(1 for _ in batches.dataset()) == len(batches)
    return batches.num_tokens["targets"], time.perf_counter() - start


def in_process(function, *arguments):
    """Returns `(target tokens, seconds, peak memory in MB)` of a function in its own process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured, (function, arguments))


def _measured(function, arguments):
    timing.limit_threads(timing.cores())
    result = function(*arguments)
    return *result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def train():
    """Trains as `benchmarks.training` does, after a first step that makes the graph."""
    from benchmarks import training

    step = training.our_cases()["this library"]
    step()
    start = time.perf_counter()
    for _ in range(TRAINING_STEPS):
        step()
    return TRAINING_STEPS * training.BATCH_SIZE * training.LENGTH, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small corpora; writes nothing")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 400_000], help="sizes of the corpora")
    options = parser.parse_args()
    quick, sizes = options.quick, [2_000, 8_000] if options.quick else options.pairs
    tokens, seconds, _ = in_process(train)
    need = tokens / seconds
    rows = []
    for num_pairs in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_text(folder, num_pairs)
            for name, function in (("tokenising, with the vocabulary", tokenise), ("reading an epoch", read)):
                tokens, seconds, memory = in_process(function, folder)
                rate = tokens / seconds
                rows.append([name, f"{num_pairs:,}", f"{rate:,.0f}", f"{rate / need:,.0f}", f"{memory:,.0f}"])
    timing.report(
        None if quick else "data",
        "# Speed and memory of the data pipeline",
        f"Sentences made by code, 5 to 45 words; vocabulary of {VOCABULARY:,}, learnt from 5,000 pairs; batches of "
        f"4,096 tokens; {timing.cores()} threads. The ratio is to the {need:,.0f} target tokens/s that training took "
        f"just before: {TITLE}, batches of 64 x 32 tokens.",
        timing.table(["", "pairs", "target tokens/s", "times what training takes", "peak memory, MB"], rows),
        "\n".join(timing.machine("tensorflow", "keras", "sentencepiece")),
    )


if __name__ == "__main__":
    main()
