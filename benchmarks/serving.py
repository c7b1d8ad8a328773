"""Latency of serving one sentence at a time: our export in a server's session, CTranslate2 and Hugging Face.

    python -m benchmarks.serving [--quick]

Each case runs in its own process; they take turns, a sentence a turn. The export of token ids runs in a session without
this library, as it is and with the settings of docs/serving.md; the same search runs in Python as the `Searcher`,
compiled by XLA. Weights are random; 8 to 64 source tokens, padded to buckets if shapes are compiled, and exactly 32
target tokens, as no translation may end.
"""

import argparse
import contextlib
import functools
import itertools
import tempfile

import numpy as np

from benchmarks import timing
from benchmarks.exports import SESSIONS, Session, import_tensorflow
from benchmarks.sizes import TITLE, VOCABULARY

LENGTHS = (8, 14, 20, 27, 33, 40, 52, 64)  # of the sources
TARGET = 32
BEAMS = (1, 4)
SEARCHER, PEERS = "Searcher, XLA", ("Hugging Face Marian", "CTranslate2")


def sources():
    """Draws token ids, one row a sentence, that are special in none of the libraries."""
    rng = np.random.default_rng(0)
    return [rng.integers(10, VOCABULARY - 10, (1, length), "int32") for length in LENGTHS]


def padded(source):
    """Pads the source to its bucket of `data.source_lengths`."""
    bucket = next(length for length in (16, 32, 64) if length >= source.shape[1])
    return np.pad(source, [(0, 0), (0, bucket - source.shape[1])])


def in_turn(translate, inputs):
    """Returns a function that translates the next input, after a first call for each, which may compile."""
    for source in [*inputs] * 2:
        translate(source)
    order = itertools.cycle(inputs)
    return lambda: translate(next(order))


def searcher_cases(folder):
    """Returns the search in Python, and writes its exports to `folder` for the sessions."""
    import tensorflow as tf

    from benchmarks.translator import make_searcher
    from keras_headattn.serving import export_id_translator
    from keras_headattn.serving._stored_weights import StoredWeights
    from keras_headattn.serving._translator_exports import stored_search

    cases = {}
    for beam_size in BEAMS:
        searcher = make_searcher(beam_size)
        for cpu_only in (False, True):
            path = f"{folder}/{cpu_only}/{beam_size}"
            export_id_translator(searcher, path, warmup_batch_sizes=(), cpu_only=cpu_only)
        search = stored_search(searcher, StoredWeights(searcher), jit_compile=True)
        inputs = [tf.constant(padded(source)) for source in sources()]
        cases[beam_size, SEARCHER] = in_turn(lambda ids, search=search: search(ids)["tokens"].numpy(), inputs)
    return cases


def session_cases(folder, name):
    cpu_only, threads, flags = SESSIONS[name]
    import_tensorflow(f"{folder}/{cpu_only}/{BEAMS[0]}/1", flags)
    cases = {}
    for beam_size in BEAMS:
        session = Session(f"{folder}/{cpu_only}/{beam_size}/1", threads)
        call = functools.partial(session.call, "serving_default")
        inputs = [{"ids": padded(source)} for source in sources()]
        cases[beam_size, name] = in_turn(call, inputs)
    return cases


def marian_cases(folder, threads):
    """Returns Marian's cases and saves the model in `folder` for CTranslate2."""
    import torch

    from benchmarks.marian import make_endless_marian

    model = make_endless_marian(folder, threads)

    def generate(source, beam_size):
        mask = torch.ones_like(source)
        model.generate(
            input_ids=source, attention_mask=mask, num_beams=beam_size, max_new_tokens=TARGET, do_sample=False
        )

    inputs = [torch.from_numpy(source).long() for source in sources()]
    return {
        (beam_size, f"{PEERS[0]}, {threads}"): in_turn(functools.partial(generate, beam_size=beam_size), inputs)
        for beam_size in BEAMS
    }


def ctranslate2_cases(folder, threads):
    import ctranslate2

    translator = ctranslate2.Translator(folder, compute_type="float32", inter_threads=1, intra_threads=threads)

    def translate(source, beam_size):
        translator.translate_batch(source, beam_size=beam_size, min_decoding_length=TARGET, max_decoding_length=TARGET)

    inputs = [[[str(token) for token in source[0].tolist()]] for source in sources()]
    return {
        (beam_size, f"{PEERS[1]}, {threads}"): in_turn(functools.partial(translate, beam_size=beam_size), inputs)
        for beam_size in BEAMS
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 sentences; writes nothing")
    quick = parser.parse_args().quick
    count = 16 if quick else 96
    rows = []
    with (
        tempfile.TemporaryDirectory() as exports,
        tempfile.TemporaryDirectory() as marian,
        contextlib.ExitStack() as stack,
    ):

        def start(cases, *arguments, threads):
            worker = timing.Worker(f"benchmarks.serving:{cases}", *arguments, threads=threads)
            return stack.enter_context(worker).cases

        cases = start("searcher_cases", exports, threads=timing.cores())  # which exports for the sessions
        for name in SESSIONS:
            cases |= start("session_cases", exports, name, threads=timing.cores())
        for peer in ("marian_cases", "ctranslate2_cases"):  # the first saves the model for the second
            for threads in sorted({1, timing.cores()}):
                cases |= start(peer, marian, threads, threads=threads)
        for beam_size in BEAMS:
            names = [name for of_beam, name in cases if of_beam == beam_size]
            rounds = timing.run_rounds(
                {name: cases[beam_size, name] for name in names},
                SEARCHER,
                min_rounds=count,
                max_rounds=count,
                max_seconds=1e9,
            )
            best = rounds.fastest([name for name in names if name.startswith(PEERS[1])])
            rows += [_row(rounds, beam_size, name, best) for name in names]
            print(*rows[-len(names) :], sep="\n", flush=True)
    timing.report(
        None if quick else "serving",
        "# Latency of one sentence, as it is served",
        f"{TITLE}; {LENGTHS[0]} to {LENGTHS[-1]} tokens in, exactly {TARGET} out; {count} sentences. The number after "
        "a peer's name is that of its threads. The last column says how many times as fast each is as CTranslate2 with "
        "the number of threads that suits it best.",
        timing.table(["beam", "", "p50, ms", "p99, ms", "to CTranslate2"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "torch", "transformers", "ctranslate2")),
    )


def _row(rounds, beam_size, name, best):
    p50, p99 = 1e3 * np.percentile(rounds.seconds[name], [50, 99])
    ratio, spread = rounds.ratio(best, name)
    return [beam_size, name, f"{p50:.1f}", f"{p99:.1f}", f"{ratio:.2f} ± {spread:.0%}"]


if __name__ == "__main__":
    main()
