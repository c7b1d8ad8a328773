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
import pathlib
import signal
import sys

from recipes.engine import subruns
from recipes.engine.command import chosen_settings, field_names
from recipes.engine.config import add_options, override
from recipes.engine.quiet import quiet_tensorflow
from recipes.translate import EMBEDDED
from recipes.translation.settings import DATA, GROUPS, TranslateConfig

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
    add_options(parser, TranslateConfig, field_names(TranslateConfig) - OWN, groups=GROUPS)
    return parser


def plan(options):
    """The settings of all runs: list of `TranslateConfig`.

    Raises:
        ValueError: for wrong settings, or if there is nothing to score the runs on.
    """
    config = chosen_settings(options, TranslateConfig, DATA, EMBEDDED, names=field_names(TranslateConfig) - OWN)
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
    show = subruns.show_epochs(queue)
    while queue:
        place = configs.index(queue[0])
        print(f"{cells[place].name}: {queue[0].run}/log.txt", flush=True)
        subruns.finish("recipes.translate", queue[0], show)
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
    ended = subruns.outcome(config)
    if ended is None:
        return cell
    if ended["error"]:
        return dataclasses.replace(cell, error=ended["error"])
    return dataclasses.replace(cell, scores=read_scores(config.run))


if __name__ == "__main__":
    main()
