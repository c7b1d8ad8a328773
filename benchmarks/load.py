"""Requests to the local server, `python -m recipes.serve`, with faults among them.

    python -m benchmarks.load [--requests 10000] [--clients 32]

A small Transformer with random weights translates texts of 1 to 40 words. Clients in another process send texts and
invalid requests. Meanwhile versions appear and vanish, one of them damaged. Every answer is compared with that of the
SavedModel itself.
"""

import argparse
import collections
import contextlib
import functools
import http.client
import itertools
import json
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from benchmarks import timing

WORDS = "the cat sat on a mat and one dog ran after two birds that saw it near an old red house".split()
TEXTS, BAD_SHARE, WARM, MOST_SECONDS = 150, 0.1, 0.2, 150
SENTENCE = re.compile(r"\S+ \S+")


def export(folder):
    """Exports two versions with different weights, outside the served folder, and returns their translations."""
    import numpy as np
    import tensorflow as tf

    from keras_headattn.decoding import Searcher
    from keras_headattn.models import Transformer
    from keras_headattn.serving import export_translator
    from keras_headattn.text import SentencePieceTokenizer, train_sentencepiece

    choose = random.Random(0)
    texts = [" ".join(choose.choices(WORDS, k=choose.randint(1, 40))) for _ in range(TEXTS)]
    tokenizer = SentencePieceTokenizer(train_sentencepiece(texts, folder / "vocabulary.model", 64))
    ends = dict(start_id=tokenizer.bos_id, end_id=tokenizer.eos_id)
    expected = []
    for seed in (1, 2):
        model = Transformer(64, num_layers=1, hidden_dim=32, intermediate_dim=64, num_heads=4)
        model.build()
        rng = np.random.default_rng(seed)
        for weight in model.trainable_weights:  # large ones, so that translations differ
            if weight.name not in ("gamma", "beta"):
                weight.assign(rng.normal(size=weight.shape) * 3 / weight.shape[-1] ** 0.5)
        searcher = Searcher(model, beam_size=2, max_length=16, **ends)
        path = export_translator(searcher, tokenizer, tokenizer, folder / "exports", max_source_length=128)
        translate = tf.saved_model.load(str(path)).signatures["serving_default"]
        outputs = [translate(text=tf.constant([text])) for text in texts]
        expected.append([(row["translations"].numpy()[0].decode(), float(row["scores"][0])) for row in outputs])
    return texts, expected


def start_server(folder):
    """Returns the server's process and port."""
    command = [sys.executable, "-m", "recipes.serve", f"load={folder}", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if match := re.search(r"http://[\d.]+:(\d+)/$", line.strip()):
            port = int(match[1])
        if "Ctrl-C" in line:
            break
    lines = []  # read on, or the server would wait
    threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True).start()
    return process, port, lines


def bad_requests(port):
    """Returns functions of a connection by name, which send an invalid request and return status and body."""

    def post(body, path="/v1/models/load:predict"):
        def send(connection):
            connection.request("POST", path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()

        return send

    def half(connection):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
            sock.sendall(b"POST /v1/models/load:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
            sock.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: sock.recv(65_536), b""))
        return (500, received) if received else ("closed", b"{}")

    return {
        "half a request": half,
        "wrong types": post(b'{"instances": [1.5, {"text": []}]}'),
        "invalid UTF-8": post(b'{"instances": ["\xff\xfe"]}'),
        "a text of 1 MB": post(json.dumps({"instances": ["cat " * 250_000]}).encode()),
        "no JSON": post(b'{"instances": ["a"'),
        "no such signature": post(b'{"signature_name": "none", "instances": ["a"]}'),
        "no such version": post(b'{"instances": ["a"]}', "/v1/models/load/versions/99:predict"),
    }


class Load:
    """Requests and their results."""

    def __init__(self, port, texts, expected, total, clients):
        self.port, self.texts, self.expected, self.total, self.clients = port, texts, expected, total, clients
        self.seconds, self.wrong, self.bad = [], [], collections.Counter()
        self.done = 0
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def run(self, events):
        """Sends all requests; `events` maps numbers of finished requests to functions to call."""
        threads = [threading.Thread(target=self._client, args=(seed,)) for seed in range(self.clients)]
        start = time.perf_counter()
        self._end = start + MOST_SECONDS
        for thread in threads:
            thread.start()
        for num_requests, event in sorted(events.items()):
            while self.done < num_requests and any(thread.is_alive() for thread in threads):
                time.sleep(0.01)
            event()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    def _client(self, seed):
        choose = random.Random(seed)
        bad = bad_requests(self.port)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while next(self._numbers) < self.total and time.perf_counter() < self._end:
            try:
                if choose.random() < BAD_SHARE:
                    name = choose.choice(list(bad))
                    self._check_bad(name, *bad[name](connection))
                else:
                    self._ask(connection, choose.choices(range(TEXTS), k=choose.choice((1, 1, 1, 4))))
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(f"no answer: {error!r}")
                connection.close()
            with self._lock:
                self.done += 1
        connection.close()

    def _ask(self, connection, rows):
        body = json.dumps({"instances": [self.texts[row] for row in rows]})
        start = time.perf_counter()
        connection.request("POST", "/v1/models/load:predict", body)
        answer = connection.getresponse()
        result = json.loads(answer.read())
        self.seconds.append(time.perf_counter() - start)
        if answer.status != 200:
            self.wrong.append(f"{answer.status}: {result}")
            return
        if not any(self._equal(result["predictions"], rows, version) for version in self.expected):
            self.wrong.append(f"{[self.texts[row] for row in rows]}: {result}")

    def _equal(self, predictions, rows, version):
        """All rows are of one version."""
        return len(predictions) == len(rows) and all(
            prediction["translations"] == version[row][0] and abs(prediction["scores"] - version[row][1]) < 1e-3
            for prediction, row in zip(predictions, rows, strict=True)
        )

    def _check_bad(self, name, status, body):
        if status == "closed":  # nobody was there to be told
            self.bad[name, status] += 1
            return
        message = json.loads(body).get("error", "")
        if not 400 <= status < 500 or not SENTENCE.search(message) or "Traceback" in message:
            self.wrong.append(f"{name}: {status} {body[:200]}")
        self.bad[name, status] += 1


def memory_of(process):
    """Returns the megabytes of a process."""
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="[10000]")
    parser.add_argument("--clients", type=int, default=32, help="[32]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        root = pathlib.Path(name)
        texts, expected = export(root)
        print("exported", file=sys.stderr, flush=True)
        served = root / "served"
        shutil.copytree(root / "exports" / "1", served / "1")
        process, port, log = start_server(served)
        stack.callback(process.kill)

        def appear():
            shutil.copytree(root / "exports" / "2", root / "new")
            (root / "new").rename(served / "2")

        def vanish():
            shutil.rmtree(served / "2")

        def damaged():
            (served / "3").mkdir()
            (served / "3" / "saved_model.pb").write_bytes(b"\0" * 1000)

        def repaired():
            shutil.rmtree(served / "3")

        def events(total):
            steps = enumerate((appear, damaged, repaired, vanish), 1)
            return {int(total * index / 5): functools.partial(measured, step) for index, step in steps}

        memory = []

        def measured(step):
            memory.append(memory_of(process))
            step()

        warm = int(options.requests * WARM)
        Load(port, texts, expected, warm, options.clients).run(events(warm))
        time.sleep(3)
        memory[:] = [memory_of(process)]
        print("warm", file=sys.stderr, flush=True)
        load = Load(port, texts, expected, options.requests, options.clients)
        seconds = load.run(events(options.requests))
        time.sleep(3)
        memory.append(memory_of(process))
        process.send_signal(signal.SIGTERM)
        code = process.wait(20)
        report(load, seconds, memory, code, log, warm)
    if load.wrong:
        sys.exit("\n".join(load.wrong[:10]))


def report(load, seconds, memory, code, log, warm):
    """Prints the results of the load and writes them to its file."""
    ordered = sorted(load.seconds)
    p50, p99 = (1e3 * ordered[int(len(ordered) * part)] for part in (0.5, 0.99))
    damaged = sum("version 3 cannot be loaded" in line for line in log)
    rows = [
        ["requests, of which good", f"{load.done:,}, {len(ordered):,}"],
        ["clients", load.clients],
        ["wrong answers, or none", len(load.wrong)],
        ["good requests, median", f"{p50:.0f} ms"],
        ["good requests, 99th percentile", f"{p99:.0f} ms"],
        ["requests a second, the bad ones included", f"{load.done / seconds:.0f}"],
        [f"memory of the server after {warm:,} requests", f"{memory[0]:.0f} MB"],
        ["at each fifth of the others", " ".join(f"{megabytes:.0f}" for megabytes in memory[1:]) + " MB"],
        ["exit code after SIGTERM", code],
    ]
    bad = [[name, count, status] for (name, status), count in sorted(load.bad.items())]
    timing.report(
        "load",
        "# Load of the local server",
        "Each text is translated with a beam of 2 by a Transformer of 1 block and a width of 32, one to four texts a "
        "request. At fifths of the requests a version appears, a damaged one appears, it is removed, and the first is "
        f"removed; damaged versions were reported {damaged} times in two rounds. All rows of an answer must be of one "
        "version, with scores within 0.001.",
        timing.table(["", "measured"], rows),
        "Bad requests and their answers, each with a sentence in `error` where the sender was still there:",
        timing.table(["", "sent", "status"], bad),
        "\n".join(timing.machine("tensorflow", "keras", "tensorflow-text")),
    )


if __name__ == "__main__":
    main()
