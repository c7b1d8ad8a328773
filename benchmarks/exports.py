"""SavedModels in a server's session: size, loading time, memory, first and later calls, and the effect of settings.

    python -m benchmarks.exports [MODEL ...] [--text TEXT] [--quick]
    python -m benchmarks.exports --settings [MODEL] [--text TEXT] [--quick]

MODEL is a version of a SavedModel with warm-up requests, such as `saved_models/quick_translate/1`; without any, exports
of the other benchmarks' Transformer with random weights are measured. Each is loaded in its own process without this
library, with and without its warm-up requests, and called with one row of its first request, or of the text.

The second command tries settings on one model, with one row and with eight: session threads, XLA's flags, and the
signature `xla` if there is one. Calls are timed in paired rounds.
"""

import argparse
import concurrent.futures
import importlib.util
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

from benchmarks import timing
from benchmarks.sizes import TITLE

XLA = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
SESSIONS = {  # whether the export is for CPUs alone; threads of the session, 0 for TensorFlow's choice; `TF_XLA_FLAGS`
    "export": (False, 0, ""),
    "export, one thread": (False, 1, ""),
    "export, XLA flags": (False, 0, XLA),
    "export for CPUs": (True, 0, ""),
    "export for CPUs, one thread": (True, 1, ""),
}
SETTINGS = {  # threads of the session, 0 for TensorFlow's choice; `TF_XLA_FLAGS`; signature
    "no settings": (0, "", "serving_default"),
    "one thread": (1, "", "serving_default"),
    "XLA flags": (0, XLA, "serving_default"),
    "XLA flags, one thread": (1, XLA, "serving_default"),
    "`xla`": (0, "", "xla"),
    "`xla`, one thread": (1, "", "xla"),
}
ROWS = (1, 8)


class Session:
    """SavedModel in a session with a server's options.

    Args:
        path: path of a version.
        threads: threads of the session; 0 for TensorFlow's choice.
    """

    def __init__(self, path, threads=0):
        import tensorflow.compat.v1 as tf1

        options = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        self.session = tf1.Session(graph=tf1.Graph(), config=options)
        with self.session.graph.as_default():
            self.model = tf1.saved_model.loader.load(self.session, ["serve"], path)

    def call(self, name, inputs):
        """Runs a signature."""
        signature = self.model.signature_def[name]
        fed = {signature.inputs[key].name: value for key, value in inputs.items()}
        return self.session.run({key: info.name for key, info in signature.outputs.items()}, fed)


def import_tensorflow(path, flags=""):
    """Imports TensorFlow alone, and tensorflow-text's operations if the model has them."""
    os.environ["TF_XLA_FLAGS"] = flags
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")
    if b"SentencepieceOp" in pathlib.Path(path, "saved_model.pb").read_bytes():
        package = pathlib.Path(importlib.util.find_spec("tensorflow_text").origin).parent
        tf.load_op_library(str(package / "python" / "ops" / "_sentencepiece_tokenizer.so"))


def measure(path, requests, inputs, warm, seconds):
    """Returns figures of a SavedModel in this new process, as a dictionary.

    Args:
        path: path of a version.
        requests: its warm-up requests.
        inputs: dictionary of arrays for the timed calls of `serving_default`.
        warm: True to run the requests first.
        seconds: time limit of the calls.
    """
    timing.limit_threads(timing.cores())
    import_tensorflow(path)
    before = timing.resident()
    figures = {}
    start = time.perf_counter()
    session = Session(path)
    figures["load"] = time.perf_counter() - start
    figures["memory"] = timing.resident() - before
    start = time.perf_counter()
    for request in requests if warm else ():
        session.call(*request)
    figures["warm-up"] = time.perf_counter() - start
    call = timing.timed(lambda: session.call("serving_default", inputs))
    figures["first"] = call()
    end = time.perf_counter() + seconds
    later = []
    while len(later) < 5 or time.perf_counter() < end:
        later.append(call())
    figures["p50"], figures["p99"] = np.percentile(later, [50, 99])
    assert "keras_headattn" not in sys.modules
    return figures


def calls(path, batches, setting):
    """Returns functions by number of rows, with a setting, after the two calls in which XLA compiles."""
    threads, flags, name = SETTINGS[setting]
    import_tensorflow(path, flags)
    session = Session(path, threads)
    start = time.perf_counter()
    for inputs in [*batches.values()] * 2:
        session.call(name, inputs)
    print(f"{setting}: first calls {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return {rows: lambda inputs=inputs: session.call(name, inputs) for rows, inputs in batches.items()}


def in_a_fresh_process(function, *arguments):
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *arguments).result()


def request(requests, rows, text):
    """Returns inputs of `serving_default` with this many rows: its first request, or the text instead."""
    inputs = next(inputs for name, inputs in requests if name == "serving_default")
    inputs = {key: np.repeat(value[:1], rows, axis=0) for key, value in inputs.items()}
    is_text = {key: text is not None and "text" in key for key in inputs}
    return {key: np.full(rows, text, object) if is_text[key] else value for key, value in inputs.items()}


def table_of_models(models, seconds, text):
    rows = []
    for name, (path, requests) in models.items():
        inputs = request(requests, 1, text)
        figures = {}
        for warm in (False, True):
            figures[warm] = in_a_fresh_process(measure, path, requests, inputs, warm, seconds)
            print(f"{name}: {figures[warm]}", file=sys.stderr, flush=True)
        cold, warm = figures[False], figures[True]
        size = sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file())
        rows.append(
            [
                name,
                f"{size / 1e6:.1f}",
                f"{cold['load']:.2f}",
                f"{cold['memory']:.0f}",
                f"{1e3 * cold['first']:.0f}",
            ]
            + [len(requests), f"{warm['warm-up']:.1f}", f"{1e3 * warm['first']:.1f}"]
            + [f"{1e3 * warm[name]:.1f}" for name in ("p50", "p99")]
        )
    header = ["model", "MB on disk", "s to load", "MB of memory for it", "ms, first call", "warm-up requests"]
    header += ["s for them", "ms, first call after them", "ms, median of later calls", "ms, 99 of 100 are faster"]
    return timing.table(header, rows)


def table_of_settings(path, requests, text, limits):
    batches = {rows: request(requests, rows, text) for rows in ROWS}
    names = [name for name in SETTINGS if SETTINGS[name][2] in {name for name, _ in requests}]
    workers = {}
    try:
        for name in names:
            workers[name] = timing.Worker("benchmarks.exports:calls", path, batches, name, threads=timing.cores())
        cases = {(name, rows): workers[name].cases[rows] for rows in ROWS for name in names}
        rounds = timing.run_rounds(cases, (names[0], ROWS[0]), **limits)
    finally:
        for worker in workers.values():
            worker.close()
    cells = []
    for name in names:
        line = [name]
        for rows in ROWS:
            ratio, spread = rounds.ratio((name, rows), (names[0], rows))
            line += [f"{1e3 * rounds.median((name, rows)):.1f}", f"{ratio:.2f} ± {100 * spread:.0f}%"]
        cells.append(line)
    header = ["setting"] + [cell for rows in ROWS for cell in (f"ms, {rows} row" + "s" * (rows > 1), "ratio")]
    return timing.table(header, cells), len(rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="version of a SavedModel. Default: made here")
    parser.add_argument("--text", help="what models of text are called with. Default: their first warm-up request")
    parser.add_argument("--settings", action="store_true", help="try settings on the first model")
    parser.add_argument("--quick", action="store_true", help="a few calls; writes nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths, text = {f"`{path}`": path for path in options.models}, options.text
        if not paths:
            paths, text = in_a_fresh_process(make_models, folder, options.settings)
        from keras_headattn.serving._warmup import read_warmup

        models = {name: (path, read_warmup(path)) for name, path in paths.items()}
        (report_settings if options.settings else report_models)(models, text, options)


def make_models(folder, first_only):
    """Returns names and paths of exports, or of the first, and a text for them."""
    timing.limit_threads(timing.cores())
    from benchmarks.translator import export_all, make_pieces, make_texts

    (text,) = make_texts(make_pieces(folder), [16])
    return export_all(folder, first_only), text


def describe(text, options):
    """Describes the calls in words."""
    calls = "" if text is None else f"Texts are {text!r}. "
    return calls if options.models else f"{calls}{TITLE}; translators have a beam of 4 and write exactly 32 tokens."


def report_models(models, text, options):
    timing.report(
        None if options.quick else "exports",
        "# SavedModels in a server's session",
        f"Memory is that of the process after loading less that before. Calls have one row. {describe(text, options)}",
        table_of_models(models, 0.5 if options.quick else 3, text),
        "\n".join(timing.machine("tensorflow", "keras", "tensorflow-text")),
    )


def report_settings(models, text, options):
    limits = dict(max_rounds=5) if options.quick else dict(min_rounds=15, max_rounds=200, max_seconds=20)
    name = next(iter(models))
    table, rounds = table_of_settings(*models[name], text, limits)
    timing.report(
        None if options.quick else "exports_settings",
        f"# A server's settings for a SavedModel: {name}",
        f'{describe(text, options)} {rounds} rounds. "XLA flags" are `TF_XLA_FLAGS="{XLA}"`; "one thread" is one of '
        "each kind, inside operations and between them; `xla` is the signature.",
        table,
        timing.SPREAD,
        "\n".join(timing.machine("tensorflow", "keras", "tensorflow-text")),
    )


if __name__ == "__main__":
    main()
