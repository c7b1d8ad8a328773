"""The GPU benchmark measures every part in a rehearsal on the CPU."""

import json
import subprocess
import sys

import pytest

from benchmarks import gpu_heads, timing
from tests.full import FULL

SHARE = 6 if FULL else 40  # one in so many heads

# Parts with cells that may fail on CPUs, and the reason.
EXPECTED = {6: "NotImplementedError"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rehearsal")
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu_heads",
        "--rehearse",
        "--share",
        str(SHARE),
        "--minutes",
        "30",
        "--output",
        folder,
    ]
    run = subprocess.run(command, cwd=timing.RESULTS.parents[1], capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    return json.loads((folder / "gpu_heads.json").read_text())


def test_every_part_has_rows_in_both_files(folder, rows):
    assert {row["part"] for row in rows} == set(gpu_heads.TITLES)
    assert {row["name"] for row in rows if row["part"] == 2} >= {*list(gpu_heads.CASES)[::SHARE], *gpu_heads.REFERENCES}
    text = (folder / "gpu_heads.md").read_text()
    assert all(f"## {part} {title}" in text for part, title in gpu_heads.TITLES.items())
    assert f"`python -m benchmarks.gpu_heads --rehearse --share {SHARE}" in text.splitlines()[-1]


def test_nothing_fails_that_should_not(rows):
    errors = [row for row in rows if "error" in row]
    assert [row for row in errors if EXPECTED.get(row["part"], "\n") not in row["error"]] == []


def test_times_ratios_and_rates_are_positive(rows):
    names = ("ms", "us a step", "TB/s", "TFLOP/s", "tokens/s", "peak MB", "temporary MB")
    numbers = [x for row in rows for key, x in row.items() if key in names or key.startswith(("to ", "of the "))]
    assert len(numbers) > 50
    assert all(x > 0 for x in numbers)


def test_results_equal_float64(rows):
    errors = [(row["dtype"], x) for row in rows for key, x in row.items() if key in ("output", "gradients")]
    assert errors
    assert all(x < {"bfloat16": 0.03, "float32": 1e-5}[dtype] for dtype, x in errors)


def test_a_goal_is_met_or_missed():
    goals = {"cudnn": 1.1, "stock": 1.0}
    assert gpu_heads.meets({"cudnn": (1.0, 1.1), "stock": (1.0, 1.0)}, goals)["met"]
    assert not gpu_heads.meets({"cudnn": (1.2, 1.1), "stock": (1.0, 1.0)}, goals)["met"]
    assert "met" not in gpu_heads.meets({"stock": (1.0, 1.0)}, goals)  # cuDNN was not measured


def test_shares_of_ceilings_and_of_the_whole_map():
    rows = [
        {"part": 0, "name": "copy", "TB/s": 2.0},
        {"part": 3, "name": "talking_heads", "peak MB": 10.0, "chunk": 16},
        {"part": 3, "name": "talking_heads", "peak MB": 200.0},
        {"part": 8, "name": "multi_head", "TB/s": 1.0},
    ]
    gpu_heads.finish(rows)
    assert (rows[1]["of the whole map"], rows[1]["met"]) == (0.05, True)
    assert (rows[3]["of the copy rate"], rows[3]["met"]) == (0.5, False)
