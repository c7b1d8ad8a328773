"""A paper's table: every attention with every number of heads, each trained by `recipes.translate`.

    python -m recipes.sweep --runs runs/sweep --attentions multi_head interacting --heads 2 4 8      the embedded task
    python -m recipes.sweep --runs runs/iwslt16 --config iwslt16 --iwslt de-en      Zhang et al. 2022, tables 3 and 6

An attention is a name that `recipes.translate --attention` takes, or a name with arguments, such as
`evolving:alpha=0.1,beta=0.2`; `multi_head:20` has keys 20 wide whatever the number of heads, which Zhang et al. call
"head size = n". All other options are those of `recipes.translate`.

Runs are trained one after the other, each in a process of its own. Table (sweep.md) and plot (sweep.png) are written
after each. The same command goes on after an interruption, however hard, and tries failed runs again.
"""

import dataclasses
import importlib
import pathlib

from recipes.engine.command import make_parser, one_line_errors
from recipes.engine.config import read_arguments
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.subruns import outcome, train_all
from recipes.engine.tables import Cell, read_scores, write_tables
from recipes.translate.__main__ import RECIPE

ATTENTIONS = ["multi_head", "talking_heads", "interacting"]
HEADS = [2, 4, 8, 16, 32, 64]
OWN = {"attention", "attention_arguments", "num_heads", "seed", "run", "export"}  # settings that the sweep sets


def main(arguments=None):
    options = _parser().parse_args(arguments)
    with one_line_errors(again=True):
        configs = plan(options)
        figures = published(options.config)
        for config in configs:
            RECIPE.check(config)
        quiet_tensorflow()
        sweep(configs, _folder(options), figures, options.table_only)


def _parser():
    parser = make_parser("sweep", __doc__)
    parser.add_argument("--runs", help="folder of the runs, table and plot [runs/sweep, of --quick runs/quick_sweep]")
    parser.add_argument("--attentions", nargs="+", help=f"[those of the paper's table, else {' '.join(ATTENTIONS)}]")
    parser.add_argument("--heads", nargs="+", type=int, default=HEADS, help="[2 4 8 16 32 64]")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="several: mean and standard deviation [0]")
    parser.add_argument("--table-only", action="store_true", help="table and plot of what has finished; no training")
    parser.add_argument("--quick", action="store_true", help="see that it works: tiny models, two epochs")
    RECIPE.add_settings(parser, without=OWN)
    return parser


def plan(options):
    """Returns the `TranslateConfig` of all runs. Without a test set there is nothing to score them on."""
    config = RECIPE.chosen_settings(options)
    if config.data == "train" and not config.test:
        raise ValueError("A sweep needs a test set to score its runs on. Give --test. Received: none")
    paper = dict.fromkeys(attention for rows in published(options.config).values() for attention in rows)
    configs = []
    for attention in dict.fromkeys(options.attentions or paper or ATTENTIONS):
        own = _attention(attention)
        name = ",".join([own["attention"], *(f"{key}={value}" for key, value in own["attention_arguments"].items())])
        for heads in dict.fromkeys(options.heads):
            for seed in dict.fromkeys(options.seeds):
                folder = _folder(options) / f"{name},heads={heads},seed={seed}"
                configs.append(config.changed(own | dict(num_heads=heads, seed=seed, run=str(folder), export=None)))
    return configs


def _folder(options):
    return pathlib.Path(options.runs or ("runs/quick_sweep" if options.quick else "runs/sweep"))


def _attention(text):
    """Returns the settings of `evolving:alpha=0.1,beta=0.2`; a number alone is the width of a key."""
    name, colon, arguments = text.partition(":")
    if arguments.isdecimal():
        arguments = f"key_dim={arguments}"
    try:
        return dict(attention=name, attention_arguments=read_arguments(arguments.split(",") if colon else []))
    except ValueError as error:
        raise ValueError(f"{error} in --attentions {text}") from None


def _title(attention, arguments):
    given = [str(value) if name == "key_dim" else f"{name}={value}" for name, value in arguments.items()]
    return attention + (f":{','.join(given)}" if given else "")


def published(name):
    """The figures of the paper in `recipes/translate/configs/<name>.py`, or none; see `recipes.engine.tables`."""
    try:
        return getattr(importlib.import_module(f"recipes.translate.configs.{name}"), "PUBLISHED", {})
    except ModuleNotFoundError:
        return {}


def sweep(configs, folder, figures, table_only=False):
    """Trains what has not finished, and writes table and plot to `folder` after each run."""
    print(f"Table and plot: {folder}/sweep.md, .png")
    train_all(
        RECIPE,
        configs,
        lambda config: find(config).name,
        lambda: write_tables([find(config) for config in configs], figures, folder),
        train=not table_only,
    )


def find(config):
    """Returns the `Cell` of a run: scores if it has finished with these settings, the reason if it failed."""
    cell = Cell(_title(config.attention, config.attention_arguments), config.num_heads, config.seed)
    ended = outcome(RECIPE, config)
    if ended is None:
        return cell
    if ended["error"]:
        return dataclasses.replace(cell, error=ended["error"])
    return dataclasses.replace(cell, scores=read_scores(config.run))


if __name__ == "__main__":
    main()
