"""Export of finished runs: each version appears with its model card and its examples, or not at all."""

import functools
import os
import pathlib
import secrets
import shutil

from keras_headattn._files import write_atomically
from keras_headattn.serving import check_export_folder, write_version
from recipes.engine.fresh_process import show_page
from recipes.engine.model_card import card

CARD = "README.md"
HALF = ".new."  # begins the names of folders that a version is made in


def export(run, config, model, write, page=None, notes=()):
    """Writes the next version of each SavedModel of a finished run, and tries it, before any of them appears.

    A killed call is continued by the next one, with the same numbers. `write` and `page` are as of `Session.export`;
    `notes` are kept in the run with its end.
    """
    folders = [pathlib.Path(folder) for folder in config.export_folders]
    for folder in folders:
        check_export_folder(folder, config.run)
        for half in folder.glob(f"{HALF}*"):
            shutil.rmtree(half)
    of = repr([getattr(config, name) for name in run.recipe.exported])
    begun = run.finished().get("exporting", {})
    versions = [folder / str(_next(folder)) for folder in folders]
    if begun.get("of") == of and [pathlib.Path(path).parent for path in begun["versions"]] == folders:
        versions = list(map(pathlib.Path, begun["versions"]))
    if not all(path.exists() for path in versions):
        stage = folders[0] / f"{HALF}{secrets.token_hex(4)}"
        try:
            staged = _staged(run, config, model, write, stage, versions)
            run.note_finished({"exporting": {"of": of, "versions": list(map(str, versions))}})
            for path, version in zip(staged, versions, strict=True):
                if not version.exists():
                    write_version(version.parent, functools.partial(_move, path), config.run)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    run.note_finished({"exporting": None, **dict(notes)})
    for path in versions:
        print(f"{'SavedModel' if (path / 'saved_model.pb').exists() else 'Checkpoint'}: {path}")
    if page is not None:
        show_page(config.export_folder, page)


def _staged(run, config, model, write, stage, versions):
    """Lets a recipe export into a folder, and writes model cards; returns the paths of the versions there."""
    folders = [stage / version.parent.name for version in versions]
    write(model, *map(str, folders))
    staged = [next(path for path in folder.iterdir() if path.name.isdecimal()) for folder in folders]
    for path, version in zip(staged, versions, strict=True):
        if not (path / CARD).exists():
            write_atomically(path / CARD, card(run, config, model, path, version).encode("utf-8"))
    return staged


def _next(folder):
    return 1 + max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=0)


def _move(path, folder):
    for child in path.iterdir():
        os.rename(child, pathlib.Path(folder, child.name))
