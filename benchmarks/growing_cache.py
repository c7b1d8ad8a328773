"""Cost of a search that may make more tokens than it does: its cache grows with the tokens made.

    python -m benchmarks.growing_cache {xla,graph} [--quick]

Weights are random; 32 tokens in, and all hypotheses end with their 32nd token, whatever `max_length` is. For
comparison, the cache has room for `max_length` from the start. `graph` runs without XLA, like exports.
"""

import argparse

import keras
import numpy as np
from keras import ops

from benchmarks import timing
from benchmarks.sizes import DROPOUT, FEED_FORWARD, HEADS, LAYERS, TITLE, VOCABULARY, WIDTH
from keras_headattn.models import Transformer

LENGTH, LONG, START, END = 32, 256, 2, 3
SETTINGS = {"greedy, 32 sentences": (1, 32), "beam 4, 8 sentences": (4, 8)}
SHORT = f"max_length {LENGTH}"
CASES = {SHORT: (LENGTH, True), f"max_length {LONG}": (LONG, True), f"max_length {LONG}, cache at once": (LONG, False)}


class Ending(Transformer):
    """`Transformer` whose translations have `LENGTH` tokens."""

    def decode_step(self, tokens, cache, index, positions, *args, **kwargs):
        logits, cache = super().decode_step(tokens, cache, index, positions, *args, **kwargs)
        wanted = ops.where(ops.reshape(positions, (-1,))[0] == LENGTH - 1, 1e4, -1e4)
        return logits + wanted * ops.one_hot(END, VOCABULARY, dtype=logits.dtype), cache


class EndingAtOnce(Ending):
    """The same without a growing cache."""

    grow_cache = None


def make_cases(compiled):
    """Returns functions by setting and case, which check the number of tokens."""
    import tensorflow as tf

    from keras_headattn.decoding import Searcher
    from keras_headattn.serving._stored_weights import StoredWeights
    from keras_headattn.serving._translator_exports import stored_search

    sizes = dict(num_layers=LAYERS, hidden_dim=WIDTH, intermediate_dim=FEED_FORWARD, num_heads=HEADS, dropout=DROPOUT)
    models = {}
    for grows, kind in ((True, Ending), (False, EndingAtOnce)):
        keras.utils.set_random_seed(0)
        models[grows] = kind(VOCABULARY, **sizes)
        models[grows].build()
    cases = {}
    for setting, (beam_size, batch_size) in SETTINGS.items():
        ids = tf.constant(np.random.default_rng(0).integers(10, VOCABULARY, (batch_size, LENGTH), "int32"))
        for name, (max_length, grows) in CASES.items():
            searcher = Searcher(models[grows], beam_size, 0.0, max_length, START, END)
            search = stored_search(searcher, StoredWeights(searcher), jit_compile=compiled)
            tokens = search(ids)["tokens"].numpy()
            assert (np.argmax(tokens == END, axis=-1) == LENGTH - 1).all()
            cases[setting, name] = timing.timed(lambda search=search, ids=ids: search(ids)["tokens"].numpy())
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("xla", "graph"))
    parser.add_argument("--quick", action="store_true", help="five rounds; writes nothing")
    options = parser.parse_args()
    limits = dict(min_rounds=5, max_rounds=5) if options.quick else dict(min_rounds=9, max_rounds=25, max_seconds=12)
    rows = []
    cases = make_cases(options.kind == "xla")
    for setting in SETTINGS:
        rounds = timing.run_rounds({name: cases[setting, name] for name in CASES}, SHORT, **limits)
        for name in CASES:
            ratio, spread = rounds.ratio(name, SHORT)
            rows.append([setting, name, f"{1e3 * rounds.median(name):.0f}", f"{ratio:.2f} ± {spread:.0%}"])
    timing.report(
        None if options.quick else f"growing_cache_{options.kind}",
        f"# Cost of a search by what it makes, {'compiled by XLA' if options.kind == 'xla' else 'without XLA'}",
        f"{TITLE}; {LENGTH} tokens in, {LENGTH} out, whatever `max_length` is. The cache has room for 32 tokens, then "
        'for 128, then for 512 or `max_length`; "at once": for `max_length` from the start.',
        timing.table(["", "", "ms", f"to {SHORT}"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
