"""Requests per second behind one HTTP front: our exports, the compiled search, CTranslate2 and Hugging Face Marian.

    python -m benchmarks.front [--beams 1 4] [--clients 1 8 32] [--rounds 9] [--quick]

The front is the server of `recipes.serve`, which parses the same JSON for all and batches up to 64 waiting rows. Each
engine has its own front and process; they take turns. In a turn, clients on loopback send texts of 8 to 64 pieces one
after the other. Weights are random; exactly 32 target tokens, as no translation may end. "no model" answers at once and
shows the front's limit.

Results of a selection of beams or clients are printed but not written.
"""

import argparse
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time

import numpy as np

from benchmarks import timing
from benchmarks.serving import LENGTHS, TARGET
from benchmarks.sizes import TITLE

BEAMS, CLIENTS = (1, 4), (1, 8, 32)
REQUESTS = {1: 8, 8: 32, 32: 96}  # of a turn, by the number of clients
SHAPES = (1, 8, 32), (16, 32, 64)  # rows and lengths for which the search is compiled
OURS, SEARCHER, MARIAN, CTRANSLATE2, NOTHING = "export", "Searcher, XLA", "Marian", "CTranslate2", "no model"


class Function:
    """Function of texts in place of a SavedModel, with what the server asks of a model."""

    def __init__(self, name, translate):
        import tensorflow as tf

        from recipes.serve.models import Signature

        def call(text):
            translations = translate([sentence.decode() for sentence in text.numpy().tolist()])
            return {"translations": tf.constant(translations)}

        spec = tf.TensorSpec((None,), tf.string, name="text")
        call.structured_input_signature, call.structured_outputs = ((), {"text": spec}), {"translations": spec}
        self.name, self.loaded = name, {1: self}
        self.signatures = {"serving_default": Signature(call)}

    def poll(self):
        pass

    def find(self, version=None):
        return 1, self


def searches(pieces, beams):
    """Returns the search in Python, compiled for few shapes."""
    import tensorflow as tf

    from benchmarks.translator import EndlessTokenizer, make_searcher
    from keras_headattn.serving._stored_weights import StoredWeights
    from keras_headattn.serving._translator_exports import stored_search
    from keras_headattn.text import SentencePieceTokenizer

    source, target = SentencePieceTokenizer(pieces), EndlessTokenizer(pieces)

    def translate(texts, search):
        ids = source.encode(texts)
        rows, lengths = SHAPES
        longest = max(map(len, ids))
        batch = np.zeros(
            [next(size for size in rows if size >= len(ids)), next(n for n in lengths if n >= longest)], int
        )
        for row, tokens in zip(batch, ids, strict=False):
            row[: len(tokens)] = tokens
        return target.detokenize(search(tf.constant(batch, tf.int32))["tokens"][: len(ids), 0]).numpy().tolist()

    functions = {}
    for beam_size in beams:
        searcher = make_searcher(beam_size)
        search = stored_search(searcher, StoredWeights(searcher), jit_compile=True)
        for shape in itertools.product(*SHAPES):
            search(tf.ones(shape, "int32"))
        functions[beam_size] = lambda texts, search=search: translate(texts, search)
    return functions


def marian(pieces, beams, folder, threads):
    import sentencepiece
    import torch

    from benchmarks.marian import make_endless_marian

    model = make_endless_marian(folder, threads)
    processor = sentencepiece.SentencePieceProcessor(model_file=pieces)
    padding = model.config.pad_token_id

    def translate(texts, beam_size):
        ids = [[min(token, padding - 1) for token in row] for row in _encode(processor, texts)]
        longest = max(map(len, ids))
        batch = torch.tensor([row + [padding] * (longest - len(row)) for row in ids])
        tokens = model.generate(
            input_ids=batch,
            attention_mask=(batch != padding).long(),
            num_beams=beam_size,
            max_new_tokens=TARGET,
            do_sample=False,
        )
        assert tokens.shape[1] == TARGET + 1  # the start token comes first
        return processor.decode(tokens[:, 1:].tolist())

    return {beam_size: lambda texts, beam_size=beam_size: translate(texts, beam_size) for beam_size in beams}


def ctranslate2(pieces, beams, folder, threads):
    import ctranslate2
    import sentencepiece

    translator = ctranslate2.Translator(folder, compute_type="float32", inter_threads=1, intra_threads=threads)
    processor = sentencepiece.SentencePieceProcessor(model_file=pieces)

    def translate(texts, beam_size):
        tokens = [[str(token) for token in row] for row in _encode(processor, texts)]
        results = translator.translate_batch(
            tokens, beam_size=beam_size, min_decoding_length=TARGET, max_decoding_length=TARGET
        )
        ids = [[int(token) if token.isdecimal() else 1 for token in result.hypotheses[0]] for result in results]
        assert all(len(row) == TARGET for row in ids)
        return processor.decode(ids)

    return {beam_size: lambda texts, beam_size=beam_size: translate(texts, beam_size) for beam_size in beams}


def _encode(processor, texts):
    return [[*ids, processor.eos_id()] for ids in processor.encode(texts)]


def serve(connection, engine, folder, beams, threads):
    """Serves an engine, one model per beam, until the process is killed."""
    timing.limit_threads(threads)
    os.environ["TF_NUM_INTEROP_THREADS"] = str(threads)
    from benchmarks.translator import export_texts, make_pieces
    from recipes.serve.app import listen, make_server
    from recipes.serve.models import Model

    pieces, functions = str(make_pieces(folder)), None
    if engine == OURS:
        for beam_size in beams:
            if not os.path.exists(f"{folder}/beam_{beam_size}/1"):
                export_texts(pieces, f"{folder}/beam_{beam_size}", beam_size)
    elif engine == SEARCHER:
        functions = searches(pieces, beams)
    elif engine == NOTHING:
        functions = dict.fromkeys(beams, lambda texts: texts)
    else:
        os.makedirs(f"{folder}/marian", exist_ok=True)
        functions = (marian if engine == MARIAN else ctranslate2)(pieces, beams, f"{folder}/marian", threads)
    names = {beam_size: f"beam_{beam_size}" for beam_size in beams}
    if functions is None:
        models = {name: Model(name, f"{folder}/{name}") for name in names.values()}
    else:
        models = {name: Function(name, functions[beam_size]) for beam_size, name in names.items()}
    for model in models.values():
        model.poll()
    listener = listen("127.0.0.1", 0)
    connection.send(listener.getsockname()[1])
    make_server(models).run([listener])


class Front:
    """Process that serves an engine, stopped except in its turns."""

    def __init__(self, engine, *arguments):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, engine, *arguments), daemon=True)
        self.process.start()
        theirs.close()
        self.port = self.connection.recv()
        os.kill(self.process.pid, signal.SIGSTOP)
        print(f"{engine} is served", file=sys.stderr, flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()

    def turn(self, beam_size, clients, texts, num_requests):
        """Returns the seconds of the turn and of each request."""
        os.kill(self.process.pid, signal.SIGCONT)
        order = iter(list(itertools.islice(itertools.cycle(texts), num_requests)))
        ready = [http.client.HTTPConnection("127.0.0.1", self.port, timeout=120) for _ in range(clients)]
        try:
            with concurrent.futures.ThreadPoolExecutor(clients) as pool:
                for connection in ready:
                    connection.connect()
                start = time.perf_counter()
                by_client = list(pool.map(lambda connection: _client(connection, beam_size, order), ready))
                seconds = time.perf_counter() - start
        finally:
            for connection in ready:
                connection.close()
            os.kill(self.process.pid, signal.SIGSTOP)
        return seconds, [latency for latencies in by_client for latency in latencies]


def _client(connection, beam_size, order):
    seconds = []
    for text in order:
        start = time.perf_counter()
        connection.request("POST", f"/v1/models/beam_{beam_size}:predict", json.dumps({"instances": [text]}))
        answer = connection.getresponse()
        body = answer.read()
        seconds.append(time.perf_counter() - start)
        assert answer.status == 200, body
    return seconds


def measure(fronts, beam_size, clients, texts, rounds, requests):
    """Returns rows of the table; each round runs each engine once, in alternating order."""
    turns, latencies = {name: [] for name in fronts}, {name: [] for name in fronts}
    for front in fronts.values():
        front.turn(beam_size, clients, texts, max(clients, len(texts)))
    for index in range(rounds):
        for name in list(fronts)[:: 1 if index % 2 else -1]:
            seconds, request_seconds = fronts[name].turn(beam_size, clients, texts, requests)
            turns[name].append(seconds)
            latencies[name] += request_seconds
    times = timing.Rounds(turns)
    best = times.fastest([name for name in fronts if name.startswith(CTRANSLATE2)])
    rows = []
    for name in fronts:
        p50, p99 = 1e3 * np.percentile(latencies[name], [50, 99])
        ratio, spread = times.ratio(best, name)
        rate = requests / times.median(name)
        rows.append(
            [beam_size, clients, name, f"{rate:.1f}", f"{p50:.0f}", f"{p99:.0f}", f"{ratio:.2f} ± {spread:.0%}"]
        )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beams", type=int, nargs="+", default=BEAMS, choices=BEAMS, help="[1 4]")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, choices=CLIENTS, help="[1 8 32]")
    parser.add_argument("--rounds", type=int, default=9, help="[9]")
    parser.add_argument("--quick", action="store_true", help="one round; writes nothing")
    options = parser.parse_args()
    threads = timing.cores()
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        fronts = {
            engine: stack.enter_context(Front(engine, folder, options.beams, threads))
            for engine in (NOTHING, OURS, SEARCHER, MARIAN, CTRANSLATE2)  # Marian saves the model for CTranslate2
        }
        for engine in (OURS, CTRANSLATE2):
            fronts[f"{engine}, one thread"] = stack.enter_context(Front(engine, folder, options.beams, 1))
        from benchmarks.translator import make_texts

        texts = make_texts(f"{folder}/pieces.model", LENGTHS)
        for beam_size in options.beams:
            for clients in options.clients:
                rounds = 1 if options.quick else options.rounds
                rows += measure(fronts, beam_size, clients, texts, rounds, REQUESTS[clients])
                print(*rows[-len(fronts) :], sep="\n", flush=True)
    requests = ", ".join(map(str, REQUESTS.values()))
    is_whole = not options.quick and set(options.beams) == set(BEAMS) and set(options.clients) == set(CLIENTS)
    timing.report(
        "front" if is_whole else None,
        "# Requests a second behind one front",
        f"{TITLE}; {LENGTHS[0]} to {LENGTHS[-1]} pieces in, exactly {TARGET} out, one text a request. {threads} "
        "threads, or one of each kind. The search in Python is compiled for 1, 8 and 32 rows of 16, 32 and 64 ids, and "
        "pads to these. The last column says how many times as many requests each answers as CTranslate2 with the "
        f'number of threads that suits it better; "no model" answers at once. {options.rounds} rounds of {requests} '
        f"requests by {', '.join(map(str, REQUESTS))} clients.",
        timing.table(["beam", "clients", "", "requests/s", "p50, ms", "p99, ms", "to CTranslate2"], rows),
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "torch", "transformers", "ctranslate2")),
    )


if __name__ == "__main__":
    main()
