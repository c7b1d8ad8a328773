"""Tokens per second of translation: this library, Hugging Face Marian and CTranslate2 at the same sizes.

    python -m benchmarks.decoding [--quick]

Each library runs in its own process; they take turns. The others run with one thread and with one per core, and the
faster counts. Weights are random; 64 source tokens, and exactly 64 target tokens, as no translation may end. Times are
those of whole translations, with the encoder.
"""

import argparse
import contextlib
import functools
import tempfile

import numpy as np

from benchmarks import timing
from benchmarks.sizes import DROPOUT, FEED_FORWARD, HEADS, LAYERS, TITLE, VOCABULARY, WIDTH

LENGTH = 64
SETTINGS = {"greedy, B = 1": (1, 1), "greedy, B = 32": (1, 32), "beam 4, B = 1": (4, 1), "beam 4, B = 8": (4, 8)}
VARIANTS = ("multi_head", "talking_heads", "interacting", "interacting_pairwise")
PEERS = ("Hugging Face Marian", "CTranslate2")
MAP, INT8 = "CTranslate2 with a vocabulary map", "CTranslate2 in int8 with a vocabulary map"
SHORTLIST = "multi_head, shortlist"
MAPPED, ALWAYS = 16, 500  # tokens of the map: of each source token, and of every sentence


def sources(batch_size):
    """Draws token ids that are special in none of the libraries."""
    return np.random.default_rng(batch_size).integers(10, VOCABULARY - 10, (batch_size, LENGTH), "int32")


def draw_map():
    """Draws target tokens for each source token, `(VOCABULARY, MAPPED)`."""
    return np.random.default_rng(0).integers(2, VOCABULARY - 1, (VOCABULARY, MAPPED), "int32")


def our_cases(settings):
    import tensorflow as tf

    from keras_headattn import layers
    from keras_headattn.decoding import Searcher, Shortlist
    from keras_headattn.models import Transformer
    from keras_headattn.serving._stored_weights import StoredWeights
    from keras_headattn.serving._translator_exports import stored_search  # the search that exports hold

    attentions = {
        "multi_head": layers.MultiHeadAttention,
        "talking_heads": layers.TalkingHeadsAttention,
        "interacting": layers.InteractingHeadAttention,
        "interacting_pairwise": functools.partial(layers.InteractingHeadAttention, interaction="pairwise"),
    }
    # As many as CTranslate2 may have for the sentences of a batch.
    shortlists = {
        batch: Shortlist(draw_map(), range(2, ALWAYS + 2), min(ALWAYS + batch * LENGTH * MAPPED, VOCABULARY // 2))
        for _, batch in SETTINGS.values()
    }
    cases = {}
    for variant in VARIANTS:
        model = Transformer(
            VOCABULARY,
            num_layers=LAYERS,
            hidden_dim=WIDTH,
            intermediate_dim=FEED_FORWARD,
            attention=attentions[variant](HEADS, WIDTH // HEADS),
            dropout=DROPOUT,
        )
        model.build()
        for setting in settings:
            beam_size, batch_size = SETTINGS[setting]
            searcher = Searcher(model, beam_size=beam_size, max_length=LENGTH, start_id=2)
            searcher.end_id = VOCABULARY  # no token has it, so that every search has all its steps
            source = tf.constant(sources(batch_size))
            search = stored_search(searcher, StoredWeights(searcher), jit_compile=True)
            cases[setting, variant] = functools.partial(search, source)
            if variant == "multi_head":
                kept = StoredWeights(searcher, shortlist=True)
                search = stored_search(searcher, kept, jit_compile=True, shortlist=shortlists[batch_size])
                cases[setting, SHORTLIST] = functools.partial(tf.function(search, autograph=False), source)
    return cases


def marian_cases(settings, folder, threads):
    """Returns Marian's cases and saves the model in `folder` for CTranslate2."""
    import torch

    from benchmarks.marian import make_endless_marian

    model = make_endless_marian(folder, threads)

    def generate(source, beam_size):
        tokens = model.generate(
            input_ids=source,
            attention_mask=torch.ones_like(source),
            num_beams=beam_size,
            max_new_tokens=LENGTH,
            do_sample=False,
        )
        assert tokens.shape[1] == LENGTH + 1  # the start token comes first

    cases = {}
    for setting in settings:
        beam_size, batch_size = SETTINGS[setting]
        source = torch.from_numpy(sources(batch_size)).long()
        cases[setting, _name(PEERS[0], threads)] = functools.partial(generate, source, beam_size)
    return cases


def ctranslate2_cases(settings, folder, threads):
    return _ctranslate2_cases(settings, folder, threads, PEERS[1], compute_type="float32")


def map_cases(settings, folder, threads):
    """Returns CTranslate2's cases with a vocabulary limited by a random map, in float32 and in int8."""
    table = draw_map()
    with open(f"{folder}/vmap.txt", "w", encoding="utf-8") as file:
        file.write("\t" + " ".join(map(str, range(2, ALWAYS + 2))) + "\n")
        for token in range(2, VOCABULARY - 1):
            file.write(f"{token}\t{' '.join(map(str, table[token]))}\n")
    cases = _ctranslate2_cases(settings, folder, threads, MAP, compute_type="float32", use_vmap=True)
    return cases | _ctranslate2_cases(settings, folder, threads, INT8, compute_type="int8", use_vmap=True)


def _ctranslate2_cases(settings, folder, threads, name, compute_type, **arguments):
    import ctranslate2

    translator = ctranslate2.Translator(folder, compute_type=compute_type, inter_threads=1, intra_threads=threads)

    def translate(source, beam_size):
        results = translator.translate_batch(
            source, beam_size=beam_size, min_decoding_length=LENGTH, max_decoding_length=LENGTH, **arguments
        )
        assert all(len(result.hypotheses[0]) == LENGTH for result in results)

    cases = {}
    for setting in settings:
        beam_size, batch_size = SETTINGS[setting]
        source = [[str(token) for token in row] for row in sources(batch_size).tolist()]
        cases[setting, _name(name, threads)] = functools.partial(translate, source, beam_size)
    return cases


def _name(peer, threads):
    return f"{peer}, {threads} thread{'s' if threads > 1 else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two settings, three rounds; writes nothing")
    quick = parser.parse_args().quick
    settings = list(SETTINGS)[::3] if quick else list(SETTINGS)
    limits = dict(min_rounds=3, max_rounds=3) if quick else dict(max_rounds=15, max_seconds=45)
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:

        def start(cases, *arguments, threads):
            worker = timing.Worker(f"benchmarks.decoding:{cases}", settings, *arguments, threads=threads)
            return stack.enter_context(worker).cases

        cases = start("our_cases", threads=timing.cores())
        for peer in ("marian_cases", "ctranslate2_cases", "map_cases"):  # the first saves the model of the others
            for threads in sorted({1, timing.cores()}):
                cases |= start(peer, folder, threads, threads=threads)
        for setting in settings:
            names = [name for of_setting, name in cases if of_setting == setting]
            rounds = timing.run_rounds({name: cases[setting, name] for name in names}, "multi_head", **limits)
            rows += [_row(rounds, setting, name) for name in names]
            print(*rows[-len(names) :], sep="\n", flush=True)
    timing.report(
        None if quick else "decoding",
        "# Speed of translation",
        f"{TITLE}; {LENGTH} tokens in, exactly {LENGTH} out. This library with {timing.cores()} threads. "
        "The last columns say how many times as fast each is as Marian and as CTranslate2, each with the number of "
        f"threads that suits it best. Shortlist and vocabulary map allow {ALWAYS:,} tokens and {MAPPED} of each source "
        f"token, the shortlist at most {VOCABULARY // 2:,}.",
        timing.table(["setting", "", "tokens/s", "to Marian", "to CTranslate2"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "torch", "transformers", "ctranslate2")),
    )


def _row(rounds, setting, name):
    tokens = SETTINGS[setting][1] * LENGTH
    peers = [rounds.fastest([case for case in rounds.seconds if case.startswith(f"{peer},")]) for peer in PEERS]
    cells = [f"{ratio:.2f} ± {spread:.0%}" for ratio, spread in (rounds.ratio(peer, name) for peer in peers)]
    return [setting, name, f"{tokens / rounds.median(name):,.0f}", *cells]


if __name__ == "__main__":
    main()
