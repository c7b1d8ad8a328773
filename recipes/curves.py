"""Learning curves of runs of any recipe, in one picture.

    python -m recipes.curves runs/multi_head runs/interacting --output curves.png
    python -m recipes.curves runs/multi_head runs/evolving --by minutes --quantities loss val_bleu

A run is a folder of one, or that of several seeds, as `--seeds` makes it, whose lines have one colour. It is named by
the part of its folder that differs. Each quantity of the runs' history.json is a plot: by default scores of training
and validation that all runs have. Minutes are those of training steps, as in figure 5 of Wang et al. 2021, "Evolving
attention".
"""

import itertools
import pathlib

from keras_headattn._files import read_json
from keras_headattn._optional import optional_import
from keras_headattn.utils import new_figure, not_below_zero
from recipes.engine.command import make_parser, one_line_errors
from recipes.engine.finished import by_title, folders_of_seeds, new_path, save
from recipes.engine.quiet import quiet_tensorflow

COLUMNS = 3  # plots in a row


def draw(folders, quantities, output, by="epoch"):
    """Draws quantities of the runs in `folders` by epoch, or by minutes of training.

    Args:
        folders: list of paths, each of a run with a history.json, a list of one dictionary an epoch, or of the runs of
            several seeds.
        quantities: list of names in these dictionaries. `None`: the scores that all runs have.
        output: path of the picture, `.png` or `.svg`.
        by: `"epoch"` or `"minutes"`.
    """
    runs = by_title(folders, _histories)
    quiet_tensorflow()

    Line2D = optional_import("matplotlib.lines", "recipes").Line2D
    histories = {path: history for run in runs.values() for path, history in run.items()}
    quantities = quantities or common_scores(histories)
    _check(histories, [*quantities, *(["training_seconds"] if by == "minutes" else [])])
    columns = 2 if len(quantities) == 4 else min(COLUMNS, len(quantities))
    rows = -(-len(quantities) // columns)
    named = ", ".join(runs) if len(runs) < 4 else f"{len(runs)} runs"
    figure = new_figure(1 + 4 * columns, 0.8 + 3 * rows, f"Learning curves of {named}")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, quantity in zip(grid.flat, quantities, strict=False):
        for index, run in enumerate(runs.values()):
            for history in run.values():
                axes.plot(_places(history, by), [logs[quantity] for logs in history], color=f"C{index}", marker=".")
        axes.set(xlabel="epoch" if by == "epoch" else "minutes of training", ylabel=_named(quantity))
        axes.xaxis.get_major_locator().set_params(integer=by == "epoch")
        axes.grid(alpha=0.3)
        not_below_zero(axes, [logs[quantity] for history in histories.values() for logs in history])
    for axes in grid.flat[len(quantities) :]:
        axes.set_axis_off()
    names = [title if len(run) == 1 else f"{title}, {len(run)} seeds" for title, run in runs.items()]
    lines = [Line2D([], [], color=f"C{index}", marker=".") for index in range(len(names))]
    figure.legend(lines, names, loc="outside lower center", ncols=min(4, len(names)))
    save(figure, output)


def common_scores(histories):
    """Returns the quantities drawn by default: scores of validation, and of training where they have the same name.

    >>> common_scores({"a": [{"loss": 2.0, "val_loss": 3.0, "val_bleu": 1.0, "seconds": 9.0}]})
    ['loss', 'val_loss', 'val_bleu']
    """
    epochs = [logs for history in histories.values() for logs in history]
    common = [name for name in epochs[0] if all(name in logs for logs in epochs)]
    validated = {name.removeprefix("val_") for name in common if name.startswith("val_")} or {"loss"}
    quantities = [name for name in common if name.removeprefix("val_") in validated]
    if not quantities:
        raise ValueError(
            f"The runs have no scores in common. Name --quantities. Received: {', '.join(map(_recipe, histories))}"
        )
    names = ["loss", *(name.removeprefix("val_") for name in quantities)]
    return sorted(quantities, key=lambda name: (names.index(name.removeprefix("val_")), name.startswith("val_")))


def _recipe(path):
    """Returns the folder of a history, and the recipe that its settings name."""
    config = pathlib.Path(path).with_name("config.json")
    values = read_json(config) if config.exists() else None
    recipe = values.get("recipe") if isinstance(values, dict) else None
    return f"{config.parent} of recipes.{recipe}" if recipe else str(config.parent)


def _histories(folder):
    """Returns the histories of a run or of its seeds, by path."""
    paths = [seed_folder / "history.json" for seed_folder in folders_of_seeds(folder)]
    histories = {path: read_json(path) for path in paths if path.exists()}
    if not any(histories.values()):
        raise ValueError(
            f"No run in the folder has finished an epoch: history.json is missing or empty. Received: {folder}"
        )
    return {path: history for path, history in histories.items() if history}


def _check(histories, quantities):
    for path, history in histories.items():
        missing = [name for name in quantities if any(name not in logs for logs in history)]
        if missing:
            raise ValueError(
                f"--quantities must be in the history of each run; {path} has {', '.join(history[0])}. "
                f"Received: {', '.join(missing)}"
            )


def _places(history, by):
    if by == "epoch":
        return list(range(1, len(history) + 1))
    return [seconds / 60 for seconds in itertools.accumulate(logs["training_seconds"] for logs in history)]


def _named(quantity):
    """Returns "validation loss" for `val_loss`, say."""
    words = quantity.removeprefix("val_").replace("_", " ")
    words = " ".join(word.upper() if word in ("bleu", "ter", "mcc") else word for word in words.split())
    return f"validation {words}" if quantity.startswith("val_") else words


def main(arguments=None):
    options = _parser().parse_args(arguments)
    with one_line_errors():
        draw(options.runs, options.quantities, options.output, options.by)


def _parser():
    parser = make_parser("curves", __doc__)
    parser.add_argument("runs", nargs="+", help="folders of runs, or of their seeds")
    parser.add_argument("--quantities", nargs="+", help="[scores of training and validation that all runs have]")
    parser.add_argument("--by", choices=("epoch", "minutes"), default="epoch", help="what runs across [epoch]")
    parser.add_argument(
        "--output", default=new_path("curves.png"), help=".png, .svg or .pdf [curves.png, then curves-2.png]"
    )
    return parser


if __name__ == "__main__":
    main()
