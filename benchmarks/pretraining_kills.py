"""Effect of SIGKILL on `recipes.pretrain`, at five points of a run.

    python -m benchmarks.pretraining_kills

A small run is killed while it writes its records, before its first checkpoint, in an epoch, while it writes a
checkpoint and while it writes its export, and restarted each time. Its result is compared with that of an undisturbed
run.
"""

import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import timing

LINES, LINES_A_DOCUMENT = 12_000, 6
SETTINGS = (
    "--size tiny --vocabulary-size 200 --vocabulary-lines 500 --max-length 32 --batch-size 8 "
    "--epochs 3 --epoch-steps 40 --warmup-steps 4 --validation-sequences 32 --shard-characters 20000 --processes 1 "
    "--callback-arguments save_steps=5 --model-arguments max_length=32"
)
PATIENCE = 300  # seconds until a point is reached
ATTEMPTS = 5  # kills until one came in time
CHECKPOINT, HALF_CHECKPOINT = (f"run/checkpoints/{dot}epoch-*-batch-*.npz" for dot in ("", "."))
IN_EPOCH = "run/checkpoints/epoch-*-batch-*5.npz"
HALF_EXPORT, NAMES_THE_RUN = "export/.new.*/*", "run.txt"


class Run:
    """Run in a folder, seen from outside."""

    def __init__(self, folder, text):
        folder.mkdir()
        self.folder, self.text, self.log = folder, text, folder / "log.txt"

    def start(self):
        arguments = ["--train", self.text, "--run", self.folder / "run", "--export", self.folder / "export"]
        command = [sys.executable, "-m", "recipes.pretrain", *map(str, arguments), *SETTINGS.split()]
        with open(self.log, "wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def finish(self):
        if self.start().wait():
            raise RuntimeError(self.log.read_text(encoding="utf-8"))

    def has(self, pattern):
        return any(self.folder.glob(pattern))

    def says(self, text):
        return text in self.log.read_text(encoding="utf-8", errors="replace")

    def kill(self, has_come):
        """Starts it, and kills it as soon as its function is True."""
        process, end = self.start(), time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end and not has_come(self):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            raise RuntimeError(f"It ended by itself: {self.log.read_text(encoding='utf-8')}")


def new(pattern):
    """Returns a function that is True if a run has other files of a pattern than at its first call."""
    before = None

    def has_come(run):
        nonlocal before
        there = {*run.folder.glob(pattern)}
        before = there if before is None else before
        return bool(there - before)

    return has_come


def points():
    """Returns, by name, functions of a run that are True at a point, and if a kill came in time."""
    return {
        "while records are written": (
            lambda run: run.has("run/records/shard-00003*"),
            lambda run: not run.has("run/records/corpus.json"),
        ),
        "before the first checkpoint": (
            lambda run: run.says("parameters, electra"),
            lambda run: not run.has(CHECKPOINT),
        ),
        "in an epoch": (new(IN_EPOCH), lambda run: run.has(IN_EPOCH) and not run.has(HALF_CHECKPOINT)),
        "while a checkpoint is written": (new(HALF_CHECKPOINT), lambda run: run.has(HALF_CHECKPOINT)),
        "while the export is written": (
            lambda run: run.has(HALF_EXPORT),
            lambda run: run.has(HALF_EXPORT) and not run.has("export/1"),
        ),
    }


def kills(run, point):
    """Kills a run at a point, repeatedly until in time, and returns the number of kills."""
    for attempt in range(1, ATTEMPTS + 1):
        has_come, is_in_time = points()[point]
        run.kill(has_come)
        if is_in_time(run):
            return attempt
    raise RuntimeError(f"{ATTEMPTS} kills, and none {point}")


def left(run):
    """Describes the files of a killed run."""
    shards, checkpoints = len([*run.folder.glob("run/records/shard-*")]), sorted(run.folder.glob(CHECKPOINT))
    newest = checkpoints[-1].stem.replace("-", " ") if checkpoints else "no checkpoint"
    half = {"half a checkpoint": HALF_CHECKPOINT, "half an export": HALF_EXPORT}
    return ", ".join([f"{shards} shards", newest, *(text for text, pattern in half.items() if run.has(pattern))])


def end(run):
    """Returns a finished run's state arrays, history without times, and checksums of files."""
    with np.load(max(run.folder.glob(CHECKPOINT))) as arrays:
        results = {name: arrays[name] for name in arrays.files if name != "state.json"}
    history = json.loads((run.folder / "run" / "history.json").read_text(encoding="utf-8"))
    for epoch, logs in enumerate(history):
        results |= {f"{name} of epoch {epoch}": value for name, value in logs.items() if "second" not in name}
    for pattern in ("run/records/*", "run/results/**/*", "export/1/**/*"):
        files = (path for path in run.folder.glob(pattern) if path.is_file() and path.name != NAMES_THE_RUN)
        results |= {str(path.relative_to(run.folder)): hashlib.sha256(path.read_bytes()).digest() for path in files}
    return results


def main():
    timing.limit_threads(timing.cores())
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        lines = (f"the square of {i} is {i * i}" + "\n" * (i % LINES_A_DOCUMENT == 0) for i in range(LINES))
        (root / "text.txt").write_text("\n".join(lines), encoding="utf-8")
        whole, parts = Run(root / "whole", root / "text.txt"), Run(root / "parts", root / "text.txt")
        whole.finish()
        rows = []
        for point in points():
            rows.append([point, kills(parts, point), left(parts)])
            print(*rows[-1], sep=" | ", flush=True)
        parts.finish()
        expected, actual = end(whole), end(parts)
    differ = sorted(key for key in {*expected, *actual} if not np.array_equal(expected.get(key), actual.get(key)))
    timing.report(
        "pretraining_kills",
        "# `recipes.pretrain`, killed and started again",
        f"`{SETTINGS}`. After these kills the run went on to its end. Of {len(expected)} arrays, scores and files (the "
        "state of model, optimizer and random numbers, the history, records, results, export) "
        f"{len(differ)} differ from those of a run without interruption{': ' if differ else ''}{', '.join(differ)}.",
        timing.table(["SIGKILL", "kills", "left"], rows),
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
