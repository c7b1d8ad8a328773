"""Finished runs as a user names them: by their folders, and layers and heads by numbers from 1."""

import itertools
import pathlib

from keras_headattn._figures import write_figure


def titles(folders):
    """Returns the names of runs: the part of their folders that differs. A folder given twice is an error.

    >>> titles(["runs/standard", "runs/svgd"])
    ['standard', 'svgd']
    >>> titles(["runs/standard/seed=1", "runs/svgd/seed=1"])
    ['standard', 'svgd']
    """
    paths = [pathlib.Path(folder).resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        raise ValueError(f"Give each folder once. Received: {' '.join(map(str, folders))}")
    parts = [list(path.parts) for path in paths]
    if len(parts) == 1:
        return [parts[0][-1]]
    # Leaves out the common end, then the common beginning; something is left of each.
    while all(len(part) > 1 for part in parts) and len({part[-1] for part in parts}) == 1:
        parts = [part[:-1] for part in parts]
    while all(len(part) > 1 for part in parts) and len({part[0] for part in parts}) == 1:
        parts = [part[1:] for part in parts]
    longest = max(map(len, parts))  # of folders in different places: the shortest end that tells them apart
    end = next(size for size in range(2, longest + 2) if len({tuple(part[-size:]) for part in parts}) == len(parts))
    return ["/".join(part[-end:]) for part in parts]


def by_title(folders, find):
    """Returns a dictionary of `titles` to what the function `find` returns for each folder."""
    return dict(zip(titles(folders), map(find, folders), strict=True))


def folders_of_seeds(folder):
    """The runs in a folder, sorted by seed: that of one run itself, or those of `--seeds`; empty without any."""
    folder = pathlib.Path(folder)
    if _has_run(folder):
        return [folder]
    folders = [path for path in folder.glob("seed=*") if _has_run(path)]
    return sorted(folders, key=lambda path: (len(path.name), path.name))


def _has_run(folder):
    return (folder / "config.json").exists() or (folder / "history.json").exists()


def chosen_layers(paths, numbers=None):
    """Layers by number, from 1 or from the last, -1: dictionary of number to path. Default: the last three.

    >>> chosen_layers(["a", "b"])
    {1: 'a', 2: 'b'}
    >>> chosen_layers(["a", "b"], [-1])
    {2: 'b'}
    """
    paths = list(paths)
    if numbers is None:
        return dict(list(enumerate(paths, 1))[-3:])
    wrong = [number for number in numbers if not 1 <= abs(number) <= len(paths)]
    if wrong:
        raise ValueError(
            f"The model has {len(paths)} attention layers, counted from 1. "
            f"Received: --layers {' '.join(map(str, wrong))}"
        )
    positions = [number - 1 if number > 0 else len(paths) + number for number in numbers]
    return {position + 1: paths[position] for position in positions}


def indices(option, numbers, count):
    """Turns numbers from 1 to `count` into indices; an error names the `option` that gave them.

    >>> indices("--heads", [1, 3], 4)
    [0, 2]
    """
    if wrong := [number for number in numbers if not 1 <= number <= count]:
        raise ValueError(f"There are {count}, counted from 1. Received: {option} {' '.join(map(str, wrong))}")
    return [number - 1 for number in numbers]


def explained(run, file, suffix=""):
    """Returns a new path for what explains a file: in the run's folder, under the file's name (`"-"`: standard input).

    >>> explained("runs/a", "texts/films.txt.gz", ".html").as_posix()
    'runs/a/explained/films.html'
    """
    name = "stdin" if file == "-" else pathlib.Path(file).name.strip(".").partition(".")[0]
    return new_path(pathlib.Path(run) / "explained" / (name + suffix))


def new_path(path):
    """Returns a path where nothing is yet: `maps.png`, or `maps-2.png` beside a `maps.png` or `maps-cat.png`."""
    path = pathlib.Path(path)
    others = [other.name for other in path.parent.glob("*")]
    for name in itertools.chain([path.stem], (f"{path.stem}-{count}" for count in itertools.count(2))):
        if not any(other == name or other.startswith((f"{name}.", f"{name}-")) for other in others):
            return path.with_name(name + path.suffix)


def save(figure, output):
    """Writes a figure, and prints its path."""
    write_figure(output, figure, dpi=120)
    print(output)
