"""A finished run's model with fewer heads, as a run that can be trained further."""

import os
import pathlib
import secrets
import shutil

from keras_headattn._files import remove_halves, sync
from keras_headattn._terminal import shows_bar
from keras_headattn.analysis import head_ablation, head_importance, prune_heads
from recipes.engine.command import program
from recipes.engine.run import Run, try_folder
from recipes.engine.session import Rereading, Stopped


def prune(run, config, keep, by, output):
    """Writes a new run to the folder `output`: the finished model of a run with the share `keep` of its heads."""
    output = pathlib.Path(output)
    model = run.load_model()
    prune_heads(model, None, keep)  # refuses other attention before data are read
    try_folder("OUTPUT", output.parent)
    pruned = prune_heads(model, rank_heads(run, config, model, by), keep)
    write_run(run, config, pruned, output)
    print(f"{model.count_params():,} parameters, {pruned.count_params():,} after pruning: {output}")
    command = f"python {' '.join(program(run.recipe.name))}"
    print(
        f"It may score far lower before it is trained further: {command} --config {output / 'config.json'} --epochs "
        f"{config.epochs}\nNext: {command} evaluate {output}"
    )


def rank_heads(run, config, model, by):
    """Reads the data and returns how important each head is for the validation loss, as `prune_heads` takes it.

    By `"gradient"` it is the size of the loss's gradient, by `"ablation"` the rise of the loss without the head.
    """
    ranking = Ranking(config, run.recipe)
    ranking.model_to_rank, ranking.by = model, by
    ranking.run()
    return ranking.ranks


class Ranking(Rereading):
    """Session that ranks the heads of a finished model."""

    def fit(self, batches, validation, model, *, optimizer, loss, metrics=list, trainer=None, jit_compile=None, **_):
        _, built = self.build(lambda: self.model_to_rank, trainer, optimizer, loss, metrics, jit_compile)
        if self.by == "gradient":
            self.ranks = head_importance(built, validation.dataset())
        else:

            def measure():
                return -built.evaluate(validation.dataset(), verbose=0, return_dict=True)["loss"]

            self.ranks = head_ablation(built, measure, verbose=shows_bar())
        raise Stopped


def write_run(run, config, pruned, output):
    """Writes the pruned model as a run with these settings; the folder appears once it is complete."""
    remove_halves(output.parent, f"{output.name}.")
    new = Run(output.with_name(f".{output.name}.{secrets.token_hex(4)}"), run.recipe)
    new.folder.mkdir()
    try:
        _copy_files(run, new)
        new.save_config(config.changed({"run": str(output)}))
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
