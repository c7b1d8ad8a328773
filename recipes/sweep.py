"""A paper's table: its rows trained one after the other, with the paper's own figures beside.

    python -m recipes.sweep evolving_table2 --images imagenet      a table of a paper, by its name
    python -m recipes.sweep evolving_table2 --built-in --quick      on the data made by code, to see that it works
    python -m recipes.sweep --runs runs/mine --attentions multi_head interacting --heads 2 4 8      one of your own

A table of a paper needs the paper's data or --built-in, which trains each row's attention on the task made by code.
Without a name, each attention is trained with each number of heads by `recipes.translate`. An attention is a name
that `--attention` takes there, or a name with arguments, such as `evolving:alpha=0.1,beta=0.2`; `multi_head:20` has
keys 20 wide whatever the number of heads. All other options are those of the recipe that trains the rows.

Each run has a process of its own. Table (sweep.md, sweep.csv) and plot (sweep.png) are written after each. The same
command goes on after an interruption, however hard, and tries failed runs again. What another sweep has scored, on
another day or machine, is not trained again with --scores.
"""

import argparse
import dataclasses
import pathlib
import sys

from keras_headattn._figures import write_figure
from keras_headattn._files import write_atomically
from recipes.classify.__main__ import RECIPE as CLASSIFY
from recipes.engine.command import make_parser, one_line_errors
from recipes.engine.config import read_arguments
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import config_modules
from recipes.engine.settings import Heads
from recipes.engine.subruns import outcome, train_all
from recipes.engine.table_figures import draw
from recipes.engine.tables import (
    RELATIVE_TIME,
    Cell,
    Table,
    as_csv,
    markdown,
    read_csv,
    read_scores,
    with_relative_time,
)
from recipes.glue.__main__ import RECIPE as GLUE
from recipes.graphs.__main__ import RECIPE as GRAPHS
from recipes.imagenet.__main__ import RECIPE as IMAGENET
from recipes.lm.__main__ import RECIPE as LM
from recipes.rationales.__main__ import RECIPE as RATIONALES
from recipes.translate.__main__ import RECIPE as TRANSLATE

WITH_TABLES = CLASSIFY, GLUE, GRAPHS, IMAGENET, LM, RATIONALES, TRANSLATE
ATTENTIONS = ["multi_head", "talking_heads", "interacting"]
HEADS = [2, 4, 8, 16, 32, 64]
OF_DATA = {"checkpoint", "records", "score", "vocabulary_size"}  # settings of rows that are not for --built-in
OWN = {"seed", "run", "export"}  # settings that the sweep sets
WITHOUT_TEST = ("training", "validation")  # data of measures that need no test set


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    with one_line_errors(again=True):
        recipe, table, options = parse(arguments)
        recipe, table = (recipe, _part_of(table, options)) if table else attentions_by_heads(options)
        cells = _with_scores(plan(recipe, table, options), options.scores)
        for cell, config in cells:
            if "after" not in table.columns[cell.column]:  # the run that it begins with is not there yet
                recipe.check(config)
        quiet_tensorflow()
        sweep(recipe, table, cells, _folder(options), options.table_only)


def _with_scores(cells, files):
    """Returns the cells with the scores of other sweeps' files."""
    scores, places = {}, [(cell.row, str(cell.column), cell.seed) for cell, _ in cells]
    for file in files:
        try:
            found = read_csv(file)
        except (KeyError, ValueError) as error:
            raise ValueError(f"--scores takes files that a sweep wrote, sweep.csv. Received: {file}") from error
        if found and not found.keys() & {*places}:  # an unfinished sweep has none
            raise ValueError(f"--scores must have a row, column and seed of this table. Received: {file}")
        scores |= found
    return [
        (dataclasses.replace(cell, scores=scores.get(place, {})), config)
        for place, (cell, config) in zip(places, cells, strict=True)
    ]


def parse(arguments):
    """Returns the `Recipe` and the `Table` of the name that a command line begins with, or `None`, and its options."""
    recipe, table = named_table(arguments[0]) if arguments and not arguments[0].startswith("-") else (None, None)
    return recipe, table, _parser(recipe, table).parse_args(arguments[1:] if table else arguments)


def _parser(recipe=None, table=None):
    parser = make_parser("sweep", __doc__)
    parser.add_argument("--runs", help="folder of the runs, table and plot [runs/TABLE, of --quick runs/quick_TABLE]")
    without = set(OWN)
    if table:
        parser.description = f"{table.title}\n\nRows: {', '.join(table.rows)}"
        rows = list(table.rows)
        parser.add_argument("--rows", dest="table_rows", nargs="+", choices=rows, metavar="ROW", help="[all]")
        if len(table.columns) > 1:
            names = list(map(str, table.columns))
            parser.add_argument(
                "--table-columns", nargs="+", choices=names, metavar="COLUMN", help=f"[{' '.join(names)}]"
            )
        without |= {"rows"}  # a setting of language models
        without |= {name for changes in (*table.rows.values(), *table.columns.values()) for name in changes}
        parser.set_defaults(name=table.name)
    else:
        recipe = TRANSLATE
        parser.add_argument("--attentions", nargs="+", default=ATTENTIONS, help=f"[{' '.join(ATTENTIONS)}]")
        parser.add_argument("--heads", nargs="+", type=int, default=HEADS, help="[2 4 8 16 32 64]")
        without |= {"attention", "attention_arguments", "num_heads"}
        parser.set_defaults(name="sweep")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="several: mean and standard deviation [0]")
    parser.add_argument(
        "--scores", nargs="+", default=[], metavar="CSV", help="sweep.csv of other sweeps of this table"
    )
    parser.add_argument("--table-only", action="store_true", help="table and plot of what has finished; no training")
    parser.add_argument("--quick", action="store_true", help="see that it works: tiny models, two epochs")
    recipe.add_settings(parser, without=without)
    if table:
        parser.set_defaults(config=table.config)
    return parser


def named_tables():
    """Returns the papers' tables, in the files of the recipes' configs: dictionary of name to `Recipe` and `Table`."""
    return {
        name: (recipe, dataclasses.replace(table, name=name))
        for recipe in WITH_TABLES
        for file in config_modules(recipe.name)
        for name, table in getattr(file, "TABLES", {}).items()
    }


def named_table(name):
    """Returns the `Recipe` and the `Table` of a name."""
    tables = named_tables()
    if name not in tables:
        raise ValueError(f"The tables are {', '.join(sorted(tables))}. Received: {name}")
    return tables[name]


def _part_of(table, options):
    """Returns the table with the rows and columns that were asked for."""
    columns = getattr(options, "table_columns", None) or list(map(str, table.columns))
    if options.table_rows and next(iter(table.rows)) not in options.table_rows and RELATIVE_TIME in table.measures:
        table = dataclasses.replace(table, measures=tuple(m for m in table.measures if m != RELATIVE_TIME))
    if getattr(options, "built_in", False):
        table, columns = _synthetic(table, columns)
    return dataclasses.replace(
        table,
        rows={name: changes for name, changes in table.rows.items() if name in (options.table_rows or table.rows)},
        columns={name: changes for name, changes in table.columns.items() if str(name) in columns},
    )


def _synthetic(table, columns):
    """Returns the table on the task made by code, with the names of its columns; those that are data become one."""
    title = f"{table.title}; here on the synthetic task"
    table = dataclasses.replace(table, title=title, published={}, measures=(), of_model=())
    if not any("{column}" in (row.get("config") or "") for row in table.rows.values()):
        return table, columns
    rows = {name: row | {"config": row["config"].format(column=columns[0])} for name, row in table.rows.items()}
    title = f"{title}, with the attention of {columns[0]}"
    return dataclasses.replace(table, title=title, rows=rows, columns={"": {}}, headlines={}), [""]


def attentions_by_heads(options):
    """Returns the recipe of translation and the `Table` of all attentions with all numbers of heads."""
    rows = {}
    for attention in options.attentions:
        settings = _attention(attention)
        arguments = [
            str(value) if name == "key_dim" else f"{name}={value}"
            for name, value in settings["attention_arguments"].items()
        ]
        rows[settings["attention"] + (f":{','.join(arguments)}" if arguments else "")] = settings
    columns = {heads: {"num_heads": heads} for heads in options.heads}
    return TRANSLATE, Table(title="Scores by the number of heads", rows=rows, columns=columns, over="heads")


def _attention(text):
    """Returns the settings of `evolving:alpha=0.1,beta=0.2`; a number alone is the width of a key."""
    name, colon, arguments = text.partition(":")
    if arguments.isdecimal():
        arguments = f"key_dim={arguments}"
    try:
        return dict(attention=name, attention_arguments=read_arguments(arguments.split(",") if colon else []))
    except ValueError as error:
        raise ValueError(f"{error} in --attentions {text}") from None


def plan(recipe, table, options):
    """Returns all runs: pairs of a `Cell` and its settings; places of equal settings share a run.

    Without a test set there is nothing to score them on.
    """
    cells, folders = [], {}
    for row, of_row in table.rows.items():
        for column, of_column in table.columns.items():
            changes = {key: of_column[key] for key in of_column if key not in ("column", "after")}
            config = _settings_of(recipe, options, of_row, of_column.get("column", column)).changed(changes)
            scores_tests = not table.measures or any(data not in WITHOUT_TEST for data, _ in table.measures)
            if config.data == "train" and not config.test and scores_tests:
                raise ValueError("A sweep needs a test set to score its runs on. Give --test. Received: none")
            for seed in dict.fromkeys(options.seeds):
                cell = Cell(row, column, seed)
                changes = dict(seed=seed, run=str(_folder(options) / table.folder(cell)), export=None)
                if "after" in of_column:
                    before = Cell(row, of_column["after"], seed)
                    changes["checkpoint"] = str(_folder(options) / table.folder(before))
                run = config.changed(changes)
                folder = folders.setdefault(repr(dataclasses.replace(run, run="")), run.run)
                cells.append((cell, dataclasses.replace(run, run=folder)))
    return cells


def _settings_of(recipe, options, row, column):
    """Returns the settings of a row; `--quick` keeps its own sizes, `--built-in` its data and sizes."""
    name, changes = row.get("config", options.config), {key: row[key] for key in row if key != "config"}
    name = name and name.format(column=column)
    if getattr(options, "built_in", False):
        config = recipe.named_config(name).changed(changes)
        heads = {field.name for field in dataclasses.fields(Heads)} - {"num_heads"} | set(_roles(config))
        changes = {key: changes[key] for key in changes if key not in OF_DATA}
        changes, name = changes | {key: getattr(config, key) for key in heads}, None
    if options.quick:
        changes = {key: changes[key] for key in changes if key not in {**recipe.quick, **recipe.quick_data}}
    return recipe.chosen_settings(argparse.Namespace(**{**vars(options), "config": name})).changed(changes)


def _roles(config):
    """Returns the names of the settings of single roles' attention, and of their arguments."""
    return [f"{name}{ending}" for name in config.names_of_attention() for ending in ("", "_arguments")]


def _folder(options):
    return pathlib.Path(options.runs or f"runs/{'quick_' * options.quick}{options.name}")


def sweep(recipe, table, cells, folder, table_only=False):
    """Trains what has no scores yet, and writes table and plot to `folder` after each run."""
    print(f"Table and plot: {folder}/sweep.md, .csv, .png")
    runs = {}
    for cell, config in cells:
        if not cell.scores:
            runs.setdefault(config.run, (config, table.run_name(cell)))

    def report():
        found = [find(recipe, cell, config) for cell, config in cells if not cell.scores]
        if RELATIVE_TIME in table.measures:  # of runs of this machine; other sweeps' files have theirs
            found = with_relative_time(found, table)
        trained = iter(found)
        write_tables([cell if cell.scores else next(trained) for cell, _ in cells], table, folder)

    train_all(
        recipe,
        [config for config, _ in runs.values()],
        lambda config: runs[config.run][1],
        report,
        train=not table_only,
    )


def find(recipe, cell, config):
    """Returns the `Cell` of a run: scores if it has finished with these settings, the reason if it failed."""
    ended = outcome(recipe, config)
    if ended is None:
        return cell
    if ended["error"]:
        return dataclasses.replace(cell, error=ended["error"])
    return dataclasses.replace(cell, scores=read_scores(config.run))


def write_tables(cells, table, folder):
    """Writes `sweep.md`, `sweep.csv` and `sweep.png` to the folder."""
    folder = pathlib.Path(folder)
    write_atomically(folder / "sweep.md", markdown(cells, table).encode("utf-8"))
    write_atomically(folder / "sweep.csv", as_csv(cells).encode("utf-8"))
    write_figure(folder / "sweep.png", draw(cells, table))


if __name__ == "__main__":
    main()
