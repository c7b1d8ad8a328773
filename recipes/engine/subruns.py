"""Runs of a recipe that another command trains one after the other, each in a process of its own."""

import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import time

from recipes.engine.config import save_config
from recipes.engine.lock import lock


def outcome(config):
    """How the run of these settings ended.

    Args:
        config: settings dataclass with `run`, the folder.

    Returns:
        `None` if it has not, with these settings; else a dictionary whose `error` is `None` if it has finished, or says
        why it failed.
    """
    path = pathlib.Path(config.run) / "outcome.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found if found.get("settings") == _settings(config) else None


def finish(recipe, config, watch):
    """Trains one run to its end, or on from where it was, and notes how it ended.

    Args:
        recipe: name of a module, such as `"recipes.translate"`.
        config: its settings.
        watch: function of no arguments, called again and again.
    """
    from keras_headattn._files import write_atomically

    folder = pathlib.Path(config.run)
    save_config(config, folder / "settings.json")
    with open(folder / "log.txt", "ab") as log:
        # Of another command, or outliving its own: a run inherits the lock with its output.
        lock(log, "Another process trains it still: waiting.", wait=True)
        begin = log.tell()
        code = run(recipe, folder / "settings.json", log, watch)
    found = {"settings": _settings(config), "error": _reason(code, folder / "log.txt", begin) if code else None}
    write_atomically(folder / "outcome.json", json.dumps(found, indent=1).encode())


def run(recipe, settings, log, watch):
    """A recipe in a process of its own; returns its exit code.

    Args:
        recipe: name of its module.
        settings: path of the settings.
        log: open file for all that it prints.
        watch: function of no arguments, called again and again.
    """
    command = [sys.executable, "-u", "-m", recipe, "--config", str(settings)]
    # In a process group of its own: Ctrl-C reaches this command alone, which lets the run save its state.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0)
    try:
        while process.poll() is None:
            watch()
            time.sleep(1)  # `Popen.wait` with a timeout would wake up twenty times a second
        return process.returncode
    except BaseException:
        process.terminate()
        process.wait()
        raise


def show_epochs(queue):
    """A function that shows how many epochs are done, and the time left for those of the runs still in `queue`.

    Args:
        queue: list of settings, which gets shorter.
    """
    from recipes.engine.progress import progress_bar
    from recipes.engine.run import Run

    def left():
        return sum(max(0, config.epochs - len(Run(config.run).history())) for config in queue)

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
    return json.loads(json.dumps(dataclasses.asdict(config) | {"run": None}))


def _reason(code, path, begin):
    """Why a run failed: the last line it printed, or the signal that ended it."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    with open(path, "rb") as log:
        log.seek(begin)
        lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"exit code {code}"
