"""A finished run's model with fewer heads, as a run that can be trained further."""

import os
import pathlib
import secrets
import shutil

import tensorflow as tf

from keras_headattn._files import remove_halves, sync
from keras_headattn._terminal import shows_bar
from keras_headattn.analysis import head_ablation, head_importance, prune_heads
from recipes.engine.run import Run, try_folder
from recipes.engine.training import make_trainer


def prune(task, keep, by, output):
    """Writes a new run to the folder `output`: the task's finished model with the share `keep` of its heads."""
    output = pathlib.Path(output)
    model = task.run.load_model()
    prune_heads(model, None, keep)  # refuses other attention before data are read
    try_folder("OUTPUT", output.parent)
    pruned = prune_heads(model, rank_heads(task, model, by), keep)
    write_run(task, pruned, output)
    print(f"{model.count_params():,} parameters, {pruned.count_params():,} after pruning: {output}")
    command = f"python -m recipes.{task.run.recipe.name}"
    print(
        f"It may score far lower before it is trained further: {command} --config {output / 'config.json'} --epochs "
        f"{task.config.epochs}\nNext: {command} evaluate {output}"
    )


def rank_heads(task, model, by):
    """Reads the data and returns how important each head is for the validation loss, as `prune_heads` takes it.

    By `"gradient"` it is the size of the loss's gradient, by `"ablation"` the rise of the loss without the head.
    """
    task.load()
    task.prepare()
    batches, validation = task.make_batches(1)
    _, trainer = make_trainer(task, tf.distribute.get_strategy(), len(batches), model=model)
    if by == "gradient":
        return head_importance(trainer, validation.dataset())

    def measure():
        return -trainer.evaluate(validation.dataset(), verbose=0, return_dict=True)["loss"]

    return head_ablation(trainer, measure, verbose=shows_bar())


def write_run(task, pruned, output):
    """Writes the pruned model as a run with the task's settings; the folder appears once it is complete."""
    remove_halves(output.parent, f"{output.name}.")
    new = Run(output.with_name(f".{output.name}.{secrets.token_hex(4)}"), task.run.recipe)
    new.folder.mkdir()
    try:
        _copy_files(task.run, new)
        new.save_config(task.config.changed({"run": str(output)}))
        new.save_model(pruned, new.pruned)
        shutil.copyfile(new.pruned, new.model)
        for path in new.folder.rglob("*"):
            sync(path)
        os.rename(new.folder, output)
    except BaseException:
        shutil.rmtree(new.folder, ignore_errors=True)
        raise
    sync(output.parent)


def _copy_files(run, new):
    """Copies the run's labels, vocabularies and the like, but no outputs of its model."""
    names = {"data.json", *run.recipe.files} - {"explained", "states", "submission"}
    for path in (run.folder / name for name in sorted(names)):
        if path.is_dir():
            shutil.copytree(path, new.folder / path.name)
        elif path.exists():
            shutil.copyfile(path, new.folder / path.name)
