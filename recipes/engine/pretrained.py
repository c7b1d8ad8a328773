"""Runs of this project that fine-tuning may begin with."""

import pathlib

from keras_headattn._files import read_json

RECIPES = ("pretrain", "glue", "tag", "answer")


def _check_has_model(folder):
    """Checks that a folder, if it is there, has a configuration or a checkpoint of TensorFlow."""
    if not folder.is_dir() or any(path.name.endswith(("config.json", ".index")) for path in folder.iterdir()):
        return
    inside = ", ".join(sorted(path.parent.name for path in folder.glob("*/config.json")))
    raise ValueError(
        "--checkpoint must be the folder of a model, with its config.json. "
        f"Received: {folder}{f', whose folders are of models: {inside}' if inside else ''}"
    )


def run_settings(folder):
    """Returns the settings of a run in a folder, with its `recipe`; `None` for a checkpoint of another library.

    A run of a recipe that has no encoder to fine-tune is an error.
    """
    _check_has_model(pathlib.Path(folder))
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
