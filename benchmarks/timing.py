"""Paired rounds and their spread, worker processes, and the benchmarks' reports."""

import ctypes
import dataclasses
import datetime
import functools
import importlib
import importlib.metadata
import math
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
LOAD_BEFORE = os.getloadavg()[0]
ONEDNN = "TF_ENABLE_ONEDNN_OPTS"  # a variable of the environment that changes times
SPREAD = (
    "Ratios are paired: each round runs everything once, in an order that is reversed every other round, and a "
    "ratio is the median over rounds of the quotients within a round. ± is the standard error of that median, "
    "estimated as 0.93 × interquartile range / √rounds, in percent of the median."
)


@dataclasses.dataclass
class Rounds:
    """Seconds of every case in every round: `seconds[name][round]`."""

    seconds: dict

    def __len__(self):
        return min(len(values) for values in self.seconds.values())

    def median(self, name):
        """Returns the median seconds of a case."""
        return float(np.median(self.seconds[name]))

    def fastest(self, names):
        """Returns the case with the least median."""
        return min(names, key=self.median)

    def ratio(self, name, reference):
        """Returns `(ratio, spread)`: the time of `name` relative to `reference`, and its relative standard error."""
        ratios = np.divide(self.seconds[name], self.seconds[reference])
        median = float(np.median(ratios))
        low, high = np.percentile(ratios, [25, 75])
        return median, float(0.93 * (high - low) / math.sqrt(len(ratios)) / median)


def run_rounds(cases, reference, max_spread=0.05, min_rounds=5, max_rounds=25, max_seconds=60.0):
    """Runs all cases in turn until their ratios to the reference are precise enough, and returns `Rounds`.

    A first call of each case, which may compile, is not counted.

    Args:
        cases: dictionary from name to function that runs once and returns its seconds.
        reference: name of the case the others are compared with.
        max_spread: stops when every ratio's spread is below it and `min_rounds` are done.
        max_rounds, max_seconds: stops in any case.
    """
    for count, run in enumerate(cases.values(), start=1):
        run()
        print(f"{count} of {len(cases)} cases ready", file=sys.stderr, flush=True)
    rounds = Rounds({name: [] for name in cases})
    start = time.perf_counter()
    for index in range(max_rounds):
        names = list(cases) if index % 2 == 0 else list(cases)[::-1]
        for name in names:
            rounds.seconds[name].append(cases[name]())
        if index + 1 < min_rounds:
            continue
        spreads = [rounds.ratio(name, reference)[1] for name in cases if name != reference]
        if max(spreads) < max_spread or time.perf_counter() - start > max_seconds:
            break
    return rounds


def timed(function):
    """Returns a function that calls `function` and returns its seconds."""

    def run():
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return run


def memory(function):
    """Returns the peak megabytes of a call of `function`, above those of the process before.

    It counts Linux's resident pages, after freed ones are given back. oneDNN's allocator keeps them: set
    `TF_ENABLE_ONEDNN_OPTS=0`.
    """
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident()
    function()
    return resident("VmHWM") - before


def resident(name="VmRSS"):
    """Returns megabytes of this process's resident pages; with `"VmHWM"` their peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name)) / 1e3  # from kB


class Worker:
    """Process for one library, stopped except in its turns, so that busy waiting (OpenMP) takes no cores from others.

    Args:
        make_cases: `"module:function"`, called with `arguments` in the process; it imports its library and returns a
            dictionary from name to function.
        threads: number of threads the library may use.
    """

    def __init__(self, make_cases, *arguments, threads):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make_cases, arguments, threads), daemon=True)
        self._process.start()
        theirs.close()
        self.cases = {name: functools.partial(self._seconds, name) for name in self._receive()}
        os.kill(self._process.pid, signal.SIGSTOP)

    def _seconds(self, name):
        os.kill(self._process.pid, signal.SIGCONT)
        self._connection.send(name)
        seconds = self._receive()
        os.kill(self._process.pid, signal.SIGSTOP)
        return seconds

    def _receive(self):
        try:
            return self._connection.recv()
        except EOFError:
            raise RuntimeError("The process of a benchmark ended early; its error is printed above.") from None

    def close(self):
        os.kill(self._process.pid, signal.SIGCONT)
        self._connection.send(None)
        self._process.join()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close() if error[0] is None else self._process.kill()


def _serve(connection, make_cases, arguments, threads):
    limit_threads(threads)
    module, function = make_cases.split(":")
    cases = getattr(importlib.import_module(module), function)(*arguments)
    runs = {name: timed(case) for name, case in cases.items()}
    connection.send(list(runs))
    while (name := connection.recv()) is not None:
        connection.send(runs[name]())


def limit_threads(threads):
    """Sets the thread count of every library; call it before any is imported."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(threads)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["KERAS_BACKEND"] = "tensorflow"


def cores():
    """Returns the number of cores this process may use."""
    return len(os.sched_getaffinity(0))


def machine(*packages, commit=None):
    """Describes processor, cores, package versions and commit as lines of Markdown.

    Args:
        *packages: names of installed packages.
        commit: to name in place of the checkout's.
    """
    versions = [f"{package} {importlib.metadata.version(package)}" for package in packages]
    if ONEDNN in os.environ:
        versions.append(f"{ONEDNN}={os.environ[ONEDNN]}")
    return [
        f"- Processor: {_processor()}, {cores()} cores, {_memory_gb():.0f} GB memory",
        f"- {platform.system()}, Python {platform.python_version()}, {', '.join(versions)}",
        f"- Load of the machine before the start: {LOAD_BEFORE:.1f} processes",
        f"- {datetime.date.today().isoformat()}, {f'commit {commit}' if commit else _commit()}, `{_command()}`",
    ]


def _commit():
    if shutil.which("git") is None:
        return "of no commit"
    git = ["git", "-C", str(RESULTS.parents[1])]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if commit.returncode:
        return "of no commit"  # not a checkout
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "*.py"]).returncode
    return f"commit {commit.stdout.strip()}{' with changes' if changed else ''}"


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


def _memory_gb():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _command():
    return " ".join(["python -m", sys.modules["__main__"].__spec__.name, *sys.argv[1:]])


def table(header, rows):
    """Formats a Markdown table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def report(name, *paragraphs):
    """Prints the paragraphs, and writes them to `results/<name>.md` unless `name` is `None`."""
    text = "\n\n".join(paragraphs) + "\n"
    print(text)
    if name is None:
        return
    from keras_headattn._files import write_atomically  # here: a worker may take the library from another checkout

    write_atomically(RESULTS / f"{name}.md", text.encode("utf-8"))
