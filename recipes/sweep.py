"""A paper's table: every attention with every number of heads, each trained by `recipes.translate`.

    python -m recipes.sweep --runs runs/sweep --attentions multi_head interacting --heads 2 4 8      the embedded task
    python -m recipes.sweep --runs runs/iwslt16 --config iwslt16 --iwslt de-en      Zhang et al. 2022, tables 3 and 6

An attention is a name that `recipes.translate --attention` takes; `multi_head:20` has keys 20 wide whatever the number
of heads, which Zhang et al. call "head size = n". All other options are those of `recipes.translate`.

Runs are trained one after the other, each in a process of its own. Table (sweep.md) and plot (sweep.png) are written
after each. The same command goes on after an interruption, however hard, and tries failed runs again.
"""

import argparse
import dataclasses
import importlib
import json
import pathlib
import signal
import subprocess
import sys
import time

from recipes.config import add_options, override, save_config
from recipes.lock import lock
from recipes.quiet import quiet_tensorflow
from recipes.translate import base_config, given_settings
from recipes.translation.settings import GROUPS, TranslateConfig

ATTENTIONS = ["multi_head", "talking_heads", "interacting"]
HEADS = [2, 4, 8, 16, 32, 64]
OWN = {"attention", "key_dim", "num_heads", "seed", "run", "export"}  # settings that the sweep gives


def main(arguments=None):
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        configs = plan(options)
        figures = published(options.config)
        quiet_tensorflow()
        cells = sweep(configs, pathlib.Path(options.runs), figures, options.table_only)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. The same command goes on.")
    failed = [f"{cell.name}: {cell.error}" for cell in cells if cell.error]
    if failed:
        sys.exit("\n".join([f"{len(failed)} of {len(cells)} runs failed:", *failed]))


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [options]",
    )
    parser.add_argument("--runs", default="runs/sweep", help="folder of the runs, table and plot [runs/sweep]")
    parser.add_argument("--attentions", nargs="+", help=f"[those of the paper's table, else {' '.join(ATTENTIONS)}]")
    parser.add_argument("--heads", nargs="+", type=int, default=HEADS, help="[2 4 8 16 32 64]")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="several: mean and standard deviation [0]")
    parser.add_argument("--table-only", action="store_true", help="table and plot of what has finished; no training")
    parser.add_argument("--config", help="a name in recipes/configs, or the path of a saved config.json")
    names = {field.name for field in dataclasses.fields(TranslateConfig)} - OWN
    add_options(parser, TranslateConfig, names, groups=GROUPS)
    return parser


def plan(options):
    """The settings of all runs: list of `TranslateConfig`.

    Raises:
        ValueError: for wrong settings, or if there is nothing to score the runs on.
    """
    given = given_settings(options, {field.name for field in dataclasses.fields(TranslateConfig)} - OWN)
    config = override(base_config(options.config, given), given)
    if config.data == "train" and not config.test:
        raise ValueError("A sweep needs a test set to score its runs on. Give --test. Received: none")
    paper = dict.fromkeys(attention for rows in published(options.config).values() for attention in rows)
    configs = []
    for attention in dict.fromkeys(options.attentions or paper or ATTENTIONS):
        name, _, width = attention.partition(":")
        if width and not width.isdecimal():
            raise ValueError(f"An attention is a name, or a name:width of its keys. Received: {attention}")
        for heads in dict.fromkeys(options.heads):
            for seed in dict.fromkeys(options.seeds):
                folder = pathlib.Path(options.runs) / f"{attention.replace(':', ',key_dim=')},heads={heads},seed={seed}"
                own = dict(attention=name, key_dim=int(width) if width else None, num_heads=heads, seed=seed)
                configs.append(override(config, own | dict(run=str(folder), export=None)))
    return configs


def published(name):
    """The figures of a paper that `recipes/configs/<name>.py` has, or none; `recipes.tables` describes them."""
    if not name or name.endswith(".json"):
        return {}
    return getattr(importlib.import_module(f"recipes.configs.{name}"), "PUBLISHED", {})


def sweep(configs, folder, figures, table_only=False):
    """Trains what has not finished, and writes table and plot to `folder` after each run.

    Returns:
        List of `recipes.tables.Cell`, one for each of `configs`.

    Raises:
        ValueError: if a run in the folder has other settings.
    """
    from recipes.tables import write_tables
    from recipes.translation.run import Run

    for config in configs:
        Run(config.run).check(config)
    cells = [find(config) for config in configs]
    write_tables(cells, figures, folder)
    queue = [config for config, cell in zip(configs, cells, strict=True) if not cell.scores]
    print(f"{len(cells) - len(queue)} of {len(cells)} runs have finished. Table and plot: {folder}/sweep.md, .png")
    if table_only or not queue:
        return cells
    show = _progress(queue)
    while queue:
        place = configs.index(queue[0])
        print(f"{cells[place].name}: {queue[0].run}/log.txt", flush=True)
        finish(queue[0], show)
        cells[place] = find(queue.pop(0))
        write_tables(cells, figures, folder)
        show()
        print(f"\n{cells[place].name}: {cells[place].error or 'finished'}", flush=True)
    return cells


def find(config):
    """The `recipes.tables.Cell` of a run: scores if it has finished with these settings, the reason if it failed."""
    from recipes.tables import Cell, read_scores

    attention = config.attention + (f":{config.key_dim}" if config.key_dim else "")
    cell = Cell(attention, config.num_heads, config.seed)
    path = pathlib.Path(config.run) / "outcome.json"
    outcome = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if outcome.get("settings") != _settings(config):
        return cell
    if outcome["error"]:
        return dataclasses.replace(cell, error=outcome["error"])
    return dataclasses.replace(cell, scores=read_scores(config.run))


def _progress(queue):
    """A function that shows how many epochs are done, and the time left for those of the runs still in `queue`."""
    from recipes.progress import progress_bar
    from recipes.translation.run import Run

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


def finish(config, watch):
    """Trains one run to its end, or on from where it was, and notes how it ended."""
    from keras_headattn.files import write_atomically

    folder = pathlib.Path(config.run)
    save_config(config, folder / "settings.json")
    with open(folder / "log.txt", "ab") as log:
        # Of another sweep, or outliving its own: a run inherits the lock with its output.
        lock(log, "Another process trains it still: waiting.", wait=True)
        begin = log.tell()
        code = run(folder / "settings.json", log, watch)
    outcome = {"settings": _settings(config), "error": _reason(code, folder / "log.txt", begin) if code else None}
    write_atomically(folder / "outcome.json", json.dumps(outcome, indent=1).encode())


def run(settings, log, watch):
    """`recipes.translate` in a process of its own; returns its exit code.

    Args:
        settings: path of the settings.
        log: open file for all that it prints.
        watch: function of no arguments, called again and again.
    """
    command = [sys.executable, "-u", "-m", "recipes.translate", "--config", str(settings)]
    # In a process group of its own: Ctrl-C reaches the sweep alone, which lets the run save its state.
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


def _settings(config):
    """What a finished run must have been made with, as JSON has it; its folder may have moved."""
    return json.loads(json.dumps(dataclasses.asdict(config) | {"run": None}))


def _reason(code, path, begin):
    """Why a run failed: the last line it printed, or the signal that ended it."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    with open(path, "rb") as log:
        log.seek(begin)
        lines = [line.strip() for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else f"exit code {code}"


if __name__ == "__main__":
    main()
