"""Runs that another command trains one after the other, each in a process of its own."""

import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import time

from keras_headattn._files import read_json, write_atomically
from recipes.engine.command import program
from recipes.engine.config import save_config
from recipes.engine.progress import progress_bar
from recipes.engine.run import Run, lock
from recipes.engine.settings import Devices, changeable


def train_all(recipe, configs, title, report, train=True, afresh=False):
    """Trains those runs that have not finished, one after the other. The same call continues after an interruption.

    The process ends with the reasons why runs failed, if any did.

    Args:
        recipe: `Recipe`.
        configs: list of its settings, each with a folder of its own.
        title: function of the settings that names a run.
        report: function of no arguments, called at the beginning and after each run. The str it returns, if any, is
            printed at the end.
        train: False to train nothing.
        afresh: True to train all; each run removes what an earlier one left in its folder, once it has read the data.
    """
    # SIGTERM raises an exception here, which stops the current run and lets it save its state.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for config in configs:
        if config.strategy == "multi_worker":
            raise ValueError("Several runs are trained on one machine. Received: strategy='multi_worker'")
        if not afresh:
            Run(config.run, recipe).check(config)
    queue = [config for config in configs if afresh or not is_finished(recipe, config)]
    text = report()
    print(f"{len(configs) - len(queue)} of {len(configs)} runs have finished.")
    show = _show_epochs(recipe, queue) if queue and train else None
    while queue and train:
        name = title(queue[0])
        print(f"{name}: {queue[0].run}/log.txt", flush=True)
        _finish(recipe, queue[0], show, afresh)
        error = outcome(recipe, queue.pop(0))["error"]
        text = report()
        show()
        print(f"\n{name}: {error or 'finished'}", flush=True)
    if text:
        print(f"\n{text}")
    ended = {title(config): outcome(recipe, config) for config in configs}
    reasons = [f"{name}: {result['error']}" for name, result in ended.items() if result and result["error"]]
    if reasons:
        sys.exit("\n".join([f"{len(reasons)} of {len(configs)} runs failed:", *reasons]))


def is_finished(recipe, config):
    """True if the run of these settings has finished."""
    result = outcome(recipe, config)
    return bool(result) and not result["error"]


def outcome(recipe, config):
    """Returns how the run of these settings ended: `None` if it has not, else a dictionary.

    Its `error` is `None` if the run has finished, or says why it failed. A run that was trained on since then, by
    other settings, is a `ValueError`.
    """
    path = pathlib.Path(config.run) / "outcome.json"
    result = read_json(path) if path.exists() else {}
    if result.get("settings") != _settings(config):
        return None
    if not result["error"]:
        now, then = _settings(Run(config.run, recipe).read_config()), result["settings"]
        for name in ("epochs", "patience", *recipe.evaluated):
            if now[name] != then[name]:
                raise ValueError(
                    "The run was trained or scored by other settings since then: give these, or remove it. "
                    f"Received: {config.run}, {name}={now[name]!r} in place of {then[name]!r}"
                )
    return result


def _finish(recipe, config, watch, afresh):
    """Trains one run to its end, or on from where it was, and notes how it ended."""
    folder = pathlib.Path(config.run)
    save_config(config, folder / "settings.json", recipe.name)
    with open(folder / "log.txt", "ab") as log:
        # Another command may train it, or a run that outlived its own: runs inherit the lock with their output.
        lock(log, "Another process is still training it: waiting.", wait=True)
        begin = log.tell()
        code = run(recipe.name, folder / "settings.json", log, watch, *["--afresh"] * afresh)
    result = {"settings": _settings(config), "error": _reason(code, folder / "log.txt", begin) if code else None}
    write_atomically(folder / "outcome.json", json.dumps(result, indent=1).encode())


def run(name, settings, log, watch, *options):
    """Trains in a process of its own; returns its exit code.

    Args:
        name: str, the recipe's.
        settings: path of the settings.
        log: open file for all that it prints.
        watch: function of no arguments, called again and again.
        *options: further ones of its command line.
    """
    command = [sys.executable, "-u", *program(name), "--config", str(settings), *options]
    # In its own process group: Ctrl-C reaches only this command, which lets the run save its state.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0)
    try:
        while process.poll() is None:
            watch()
            time.sleep(1)  # `Popen.wait` with a timeout would poll twenty times a second
        return process.returncode
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _show_epochs(recipe, queue):
    """Returns a function that shows how many epochs are done, and the time left for the runs still in `queue`."""

    def left():
        return sum(max(0, config.epochs - len(Run(config.run, recipe).history())) for config in queue)

    total = shown = left()
    bar = progress_bar(f"{len(queue)} runs to train, {total} epochs", max(1, total))

    def show():
        nonlocal shown
        if left() < shown:
            shown = left()
            bar(total - shown)

    return show


def _settings(config):
    """The settings that a finished run must have been made with, as JSON has them; its folder may have moved."""
    values, left_out = dataclasses.asdict(config), {"run", "quiet", *changeable(Devices)}
    return json.loads(json.dumps({name: value for name, value in values.items() if name not in left_out}))


def _reason(code, path, begin):
    """Why a run failed: the last line it printed, or the signal that ended it."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    with open(path, "rb") as log:
        log.seek(begin)
        lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"exit code {code}"
