"""The recipe, killed at random moments and started again, ends as if nothing had happened.

HEADATTN_KILLS=10 kills it as many times while it trains, besides once before that and once after it.
"""

import json
import os
import random
import signal
import time

import numpy as np

from tests.full import FULL
from tests.processes import CONTEXT, wait

KILLS = int(os.environ.get("HEADATTN_KILLS", 1))


def train(folder):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background of a shell
    with open(folder.with_suffix(".log"), "a", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        from recipes.translate.__main__ import main

        size = f"--max-sentences {1000 * (KILLS + 1)} --validation-sentences 9 --num-buckets 1"
        ends = f"--model-arguments num_layers=1 --beam-size 1 --export none --run {folder}"
        main(["--quick", "--config", "numbers", "--callback-arguments", "save_steps=2", *size.split(), *ends.split()])


def start(folder):
    process = CONTEXT.Process(target=train, args=(folder,))
    process.start()
    return process


def checkpoints(folder):
    return sorted((folder / "checkpoints").glob("epoch-*.npz"))


def stop(folder, number, delay, reached=None):
    """Starts the recipe, and sends it a signal some time after a point; the exit code.

    The point is that `reached` returns `True`; by default that there is another checkpoint.
    """
    before = checkpoints(folder)
    process = start(folder)
    while process.is_alive() and not (reached() if reached else checkpoints(folder)[-1:] != before[-1:]):
        time.sleep(0.05)
    time.sleep(delay)
    os.kill(process.pid, number)
    wait([process])
    return process.exitcode


def end(folder):
    """What a finished run leaves: the whole state, the history without times, the translations and scores."""
    history = json.loads((folder / "history.json").read_text())
    for epoch in history:
        assert epoch.pop("tokens_per_second") > 0 and epoch.pop("training_seconds") > 0
    results = folder / "results" / "test"
    texts = [(results / name).read_text() for name in ("hypotheses.txt", "scores.json")]
    arrays = np.load(checkpoints(folder)[-1])
    return {name: arrays[name] for name in arrays.files if name != "state.json"}, history, texts


def test_killed_and_started_again(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    uninterrupted = start(whole)
    moments = random.Random(0)
    if FULL:
        began = (parts / "config.json").exists
        assert stop(parts, signal.SIGKILL, 0.0, began) == -signal.SIGKILL  # while it learns the vocabulary
        assert stop(parts, signal.SIGINT, 0.3) == 128 + signal.SIGINT
    assert stop(parts, signal.SIGTERM, 0.3) == 128 + signal.SIGTERM
    for _ in range(KILLS):
        assert stop(parts, signal.SIGKILL, moments.uniform(0, 0.3)) == -signal.SIGKILL
    trained = (parts / "model.keras").exists
    assert stop(parts, signal.SIGKILL, 0.0, trained) == -signal.SIGKILL  # while it translates the test set
    process = start(parts)
    assert wait([process, uninterrupted]) == [0, 0], parts.with_suffix(".log").read_text()
    (arrays, *rest), (expected, *expected_rest) = end(parts), end(whole)
    assert rest == expected_rest
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
