"""A finished run's model with fewer heads, as a run that can be trained further."""

import shutil

import tensorflow as tf

from headattn_io.terminal import shows_bar
from keras_headattn.analysis import head_ablation, head_importance, prune_heads
from recipes.engine.run import Run
from recipes.engine.training import make_trainer


def prune(task, keep, by, output):
    """Writes a run to the folder `output`, whose model has a share of the heads of the task's finished model.

    Heads are ranked on the validation set: by the gradient of the loss, or by how much it grows without each.
    """
    config, run = task.config, task.run
    model = run.load_model()
    task.load()
    task.prepare()
    batches, validation = task.make_batches(1)
    _, trainer = make_trainer(task, tf.distribute.get_strategy(), len(batches), model=model)
    if by == "gradient":
        importance = head_importance(trainer, validation.dataset())
    else:
        importance = head_ablation(
            trainer,
            lambda: -trainer.evaluate(validation.dataset(), verbose=0, return_dict=True)["loss"],
            verbose=shows_bar(),
        )
    pruned = prune_heads(model, importance, keep)
    new = Run(output, run.recipe)
    new.folder.mkdir(parents=True, exist_ok=True)
    for path in (run.folder / name for name in ("data.json", *run.recipe.files)):
        if path.is_dir():
            shutil.copytree(path, new.folder / path.name, dirs_exist_ok=True)
        elif path.exists():
            shutil.copyfile(path, new.folder / path.name)
    new.save_config(config.changed({"run": str(output)}))
    new.save_model(pruned, new.pruned)
    new.save_model(pruned, new.model)
    print(f"{model.count_params():,} parameters, {pruned.count_params():,} without the other heads: {output}")
    command = f"python -m recipes.{run.recipe.name}"
    print(f"Next: {command} evaluate {output}\nOr train it further: {command} --config {new.folder / 'config.json'}")
