"""Learning curves of runs of any recipe, in one picture.

    python -m recipes.curves runs/multi_head runs/interacting --output curves.png

Each run is a line named after its folder; each quantity of its history.json that is asked for, a plot.
"""

import argparse
import json
import pathlib
import sys


def draw(folders, quantities, output):
    """Draws `quantities` of the runs in `folders` by epoch.

    Args:
        folders: list of paths, each with a history.json: a list of one dictionary an epoch.
        quantities: list of names in these dictionaries.
        output: path of the picture, `.png` or `.svg`.

    Raises:
        ValueError: if two folders have the same name, a folder has no history, or a history lacks a quantity.
    """
    from matplotlib.figure import Figure

    histories = {pathlib.Path(folder).resolve().name: _history(folder, quantities) for folder in folders}
    if len(histories) < len(folders):
        raise ValueError(f"Runs are told apart by the names of their folders. Received: {', '.join(map(str, folders))}")
    figure = Figure((5 * len(quantities), 3.6), layout="constrained")
    for axes, quantity in zip(figure.subplots(1, len(quantities), squeeze=False)[0], quantities, strict=True):
        for name, history in histories.items():
            axes.plot(range(1, len(history) + 1), [logs[quantity] for logs in history], label=name)
        axes.set(xlabel="epoch", ylabel=quantity)
        axes.xaxis.get_major_locator().set_params(integer=True)
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
        draw(options.runs, options.quantities, options.output)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    print(options.output)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.curves", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--quantities", nargs="+", default=["val_loss", "val_bleu"], help="[val_loss val_bleu]")
    parser.add_argument("--output", default="curves.png", help="[curves.png]")
    return parser


if __name__ == "__main__":
    main()
