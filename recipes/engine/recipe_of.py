"""Which recipe a run is of."""

import json
import pathlib

# A setting that runs of one recipe alone have, of runs whose settings do not name their recipe.
MARKS = {"source_language": "translate", "text_column": "classify", "image_size": "imagenet"}


def recipe_of(folder):
    """The recipe that a run was made by, read off its `config.json`.

    Args:
        folder: path of the run.

    Returns:
        str, such as `"recipes.translate"`; `None` if the settings are of none.

    Raises:
        ValueError: if there is no run in the folder.
    """
    path = pathlib.Path(folder) / "config.json"
    if not path.exists():
        raise ValueError(f"There is no run in {folder}: it has no config.json. Train one first.")
    settings = json.loads(path.read_text(encoding="utf-8"))
    name = settings.get("recipe") or next((name for mark, name in MARKS.items() if mark in settings), None)
    return name and f"recipes.{name.removeprefix('recipes.')}"


def check_recipe(folder, recipe):
    """Checks that a run was made by a recipe.

    Args:
        folder: path of the run.
        recipe: str, such as `"recipes.translate"`.

    Raises:
        ValueError: if it was made by another, or there is no run in the folder.
    """
    found = recipe_of(folder)
    if found and found != recipe:
        raise ValueError(f"{folder} is a run of {found}. Give runs of {recipe}.")
