"""Writes the seconds of each test file, setup and teardown included, to build/test_durations.txt."""

import collections
import pathlib
import time

PATH = pathlib.Path(__file__).resolve().parents[1] / "build" / "test_durations.txt"


class Durations:
    """A plugin of pytest; of several processes, the one that reports."""

    def __init__(self):
        self.seconds = collections.Counter()
        self.tests = collections.Counter()
        self.slowest = {}
        self.written = time.monotonic()

    def pytest_runtest_logreport(self, report):
        file, _, test = report.nodeid.partition("::")
        self.seconds[file] += report.duration
        self.tests[file] += report.when == "call"
        slowest = self.slowest.get(file, (0, ""))
        self.slowest[file] = max(slowest, (report.duration, f"{test} ({report.when})"))
        if time.monotonic() - self.written > 30:
            self.write()

    def pytest_sessionfinish(self):
        self.write()

    def write(self):
        self.written = time.monotonic()
        lines = [f"{'seconds':>8} {'tests':>6} {'slowest':>8}  file: its slowest part"]
        for file, seconds in self.seconds.most_common():
            most, name = self.slowest[file]
            lines.append(f"{seconds:8.1f} {self.tests[file]:6} {most:8.1f}  {file}: {name}")
        PATH.parent.mkdir(exist_ok=True)
        PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")
