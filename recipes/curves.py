"""Learning curves of runs of any recipe, in one picture.

    python -m recipes.curves runs/multi_head runs/interacting --output curves.png
    python -m recipes.curves runs/multi_head runs/evolving --by minutes --quantities loss val_bleu

Each run is a line named after its folder; each quantity of its history.json that is asked for, a plot. Minutes are
those of training steps, as in figure 5 of Wang et al. 2021, "Evolving attention".
"""

import argparse
import itertools
import json
import pathlib
import sys


def draw(folders, quantities, output, by="epoch"):
    """Draws `quantities` of the runs in `folders` by epoch, or by minutes of training.

    Args:
        folders: list of paths, each with a history.json: a list of one dictionary an epoch.
        quantities: list of names in these dictionaries.
        output: path of the picture, `.png` or `.svg`.
        by: `"epoch"` or `"minutes"`.

    Raises:
        ValueError: if two folders have the same name, a folder has no history, or a history lacks a quantity.
    """
    from matplotlib.figure import Figure

    needed = [*quantities, *(["training_seconds"] if by == "minutes" else [])]
    histories = {pathlib.Path(folder).resolve().name: _history(folder, needed) for folder in folders}
    if len(histories) < len(folders):
        raise ValueError(f"Runs are told apart by the names of their folders. Received: {', '.join(map(str, folders))}")
    figure = Figure((5 * len(quantities), 3.6), layout="constrained")
    for axes, quantity in zip(figure.subplots(1, len(quantities), squeeze=False)[0], quantities, strict=True):
        for name, history in histories.items():
            seconds = itertools.accumulate(logs.get("training_seconds", 0) for logs in history)
            places = [t / 60 for t in seconds] if by == "minutes" else range(1, len(history) + 1)
            axes.plot(places, [logs[quantity] for logs in history], label=name)
        axes.set(xlabel="epoch" if by == "epoch" else "minutes of training", ylabel=quantity)
        axes.xaxis.get_major_locator().set_params(integer=by == "epoch")
        axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(output, dpi=120)


def _history(folder, quantities):
    path = pathlib.Path(folder) / "history.json"
    if not path.exists():
        raise ValueError(f"There is no run in {folder}: it has no history.json.")
    history = json.loads(path.read_text())
    missing = [name for name in quantities if any(name not in logs for logs in history)]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(history[0])}.")
    return history


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        draw(options.runs, options.quantities, options.output, options.by)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(options.output)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.curves", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--quantities", nargs="+", default=["val_loss", "val_bleu"], help="[val_loss val_bleu]")
    parser.add_argument("--by", choices=("epoch", "minutes"), default="epoch", help="what runs across [epoch]")
    parser.add_argument("--output", default="curves.png", help="[curves.png]")
    return parser


if __name__ == "__main__":
    main()
