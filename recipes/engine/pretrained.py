"""Runs of this project that fine-tuning may begin with."""

import pathlib

from headattn_io.files import read_json

RECIPES = ("pretrain", "glue", "tag", "answer")


def run_settings(folder):
    """Returns the settings of a run in a folder, with its `recipe`; `None` for a checkpoint of another library.

    A run of a recipe that has no encoder to fine-tune is an error.
    """
    path = pathlib.Path(folder, "config.json")
    values = read_json(path) if path.is_file() else {}
    if not isinstance(values, dict) or "recipe" not in values:
        return None
    if values["recipe"] not in RECIPES:
        raise ValueError(
            f"--checkpoint takes runs of {', '.join(f'recipes.{name}' for name in RECIPES)}. "
            f"Received: {folder}, of recipes.{values['recipe']}"
        )
    return values
