"""Export of finished runs: each version appears with its model card and its examples, or not at all."""

import functools
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys

from keras_headattn._files import write_atomically
from keras_headattn.serving import check_export_folder, write_version
from keras_headattn.text import BytePairTokenizer, ByteTokenizer, CharacterTokenizer, WordTokenizer
from recipes.engine.model_card import card

CARD = "README.md"
HALF = ".new."  # begins the names of folders that a version is made in
INPUTS = {"_ids": " (the same model of token ids)", "_tensors": " (the same model of pixels)"}
PLAIN = BytePairTokenizer, ByteTokenizer, CharacterTokenizer, WordTokenizer  # in need of TensorFlow alone
# A server has TensorFlow and the packages that the model needs.
PROGRAM = """
import importlib, json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
path, given, packages = json.load(sys.stdin)
for package in packages:
    importlib.import_module(package)
call = tf.saved_model.load(path).signatures["serving_default"]
%s
print(json.dumps(result))
"""


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
    for path, ending in zip(versions, config.EXPORTED, strict=True):
        kind = "SavedModel" if (path / "saved_model.pb").exists() else "Checkpoint"
        print(f"{kind}: {path}{INPUTS.get(ending, '')}")
    if page is not None:
        show_page(config.export_folder, page)


def _staged(run, config, model, write, stage, versions):
    """Lets a recipe export into a folder, and writes model cards; returns the paths of the versions there."""
    folders = [stage / version.parent.name for version in versions]
    write(model, *map(str, folders))
    staged = [next((path for path in folder.glob("*") if path.name.isdecimal()), folder) for folder in folders]
    for path, version in zip(staged, versions, strict=True):
        if not path.exists():
            raise ValueError(f"`write` must write a SavedModel into each folder that it is given. Received: {path}")
        if not (path / CARD).exists():
            write_atomically(path / CARD, card(run, config, model, path, version).encode("utf-8"))
    return staged


def _next(folder):
    return 1 + max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=0)


def _move(path, folder):
    for child in path.iterdir():
        os.rename(child, pathlib.Path(folder, child.name))


def show_page(folder, shows_heads=True):
    """Prints how to try the SavedModels in a folder in a browser."""
    print(f"Try it{', and see where its heads look' if shows_heads else ''}: python -m recipes.serve {folder}")


def packages_of(tokenizer):
    """Returns the packages that a SavedModel with this tokenizer needs besides TensorFlow."""
    composes = getattr(tokenizer, "pre_tokenizer", None) in ("gpt_neox", "qwen2")
    return [] if type(tokenizer) in PLAIN and not composes else ["tensorflow_text"]


def smoke_test(path, code, given, *packages):
    """Runs a SavedModel in a fresh process; if that fails, raises an `OSError` with what the process wrote.

    Args:
        path: of the SavedModel.
        code: str, lines that make `result` of `given` by `call`, the model's signature. JSON can hold both.
        given: what the model is tried on.
        *packages: names of those to import besides TensorFlow.
    """
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM % code],
        input=json.dumps([str(path), given, packages]),
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},  # this process holds the GPUs' memory
    )
    if process.returncode:
        raise OSError(f"The SavedModel in {path} does not load by itself:\n{process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])
