"""The folders of runs: their names in tables and pictures, and the runs of several seeds."""

import pathlib


def titles(folders):
    """Names of runs: the part of their folders that differs.

    Args:
        folders: list of paths.

    Returns:
        List of str, all different.

    Raises:
        ValueError: if a folder is given twice.

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
    # What all end in is left out, then what all begin with; something is left of each.
    while all(len(each) > 1 for each in parts) and len({each[-1] for each in parts}) == 1:
        parts = [each[:-1] for each in parts]
    while all(len(each) > 1 for each in parts) and len({each[0] for each in parts}) == 1:
        parts = [each[1:] for each in parts]
    return ["/".join(each) for each in parts]


def folders_of_seeds(folder):
    """The runs in a folder: of one run itself, of a folder made by `--seeds` one for each seed.

    Args:
        folder: path.

    Returns:
        List of paths, sorted by seed. It is empty if there is no run.
    """
    folder = pathlib.Path(folder)
    if _has_run(folder):
        return [folder]
    found = [path for path in folder.glob("seed=*") if _has_run(path)]
    return sorted(found, key=lambda path: (len(path.name), path.name))


def _has_run(folder):
    return (folder / "config.json").exists() or (folder / "history.json").exists()
