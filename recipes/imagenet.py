"""Image classification by residual networks, with attention beside their convolutions or without.

    python -m recipes.imagenet --quick           a minute, to see that everything works
    python -m recipes.imagenet                   the embedded task: handwritten digits
    python -m recipes.imagenet --config cifar10 --images cifar10 --attention ea
    python -m recipes.imagenet evaluate runs/cifar10
    python -m recipes.imagenet export runs/cifar10
    python -m recipes.imagenet classify runs/cifar10 cat.jpg dog.jpg

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After SIGTERM the state is saved and the exit code is 143.

Source: Wang et al. 2021, "Evolving attention with residual convolutions", section 4.1. Settings are in
recipes/configs/: imagenet, cifar10, tiny_imagenet, digits.
"""

import argparse
import functools
import pathlib

from recipes.engine.command import (
    add_finished,
    add_quick,
    add_training,
    chosen_settings,
    given_settings,
    run_command,
    starts_afresh,
)
from recipes.engine.config import override
from recipes.images.settings import DATA, GROUPS, ImageNetConfig

QUICK = dict(
    epochs=2,
    blocks=1,
    decay_epochs=(1,),
    warmup_epochs=0.5,
    run="runs/quick",
    export="saved_models/quick_imagenet",
    statistics_momentum=0.9,
)
SMALLER = dict(model="small", image_size=32, augmentation="pad_crop", small_images=True, max_images=600, batch_size=32)
OPTIONS = {
    "evaluate": (*DATA, "validation_split", "validation_labels", "batch_size", "resized"),
    "export": ("export", "resized"),
    "classify": ("resized",),
}


def main(arguments=None):
    """Runs one sub-command; `train` where none is named."""
    run_command(_parser(), COMMANDS, arguments, filters=("classify",))


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.imagenet",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    train = add_training(commands, ImageNetConfig, GROUPS, "digits")
    add_quick(train, "a tiny network, two epochs, of your own data 600 images")
    add = functools.partial(add_finished, commands, cls=ImageNetConfig)
    add("evaluate", names=OPTIONS["evaluate"], help="accuracy of a finished run, on its validation split or another")
    add("export", names=OPTIONS["export"], help="write the SavedModels of a finished run again")
    classify = add("classify", names=OPTIONS["classify"], help="the likeliest classes of image files")
    classify.add_argument("files", nargs="+", help="image files")
    classify.add_argument("--top", type=int, default=1, help="how many classes of each [1]")
    return parser


def _train(options):
    config = chosen_settings(options, ImageNetConfig, DATA, "digits", QUICK, SMALLER)
    from recipes.engine.quiet import quiet_tensorflow

    quiet_tensorflow()
    from recipes.images.training import train

    train(config, afresh=starts_afresh(options))


def _evaluate(options):
    run, config = _finished(options)
    from recipes.images.data import load_validation, validation_batches
    from recipes.images.evaluation import evaluate

    source = load_validation(config, run.class_names())
    evaluate(run.load_model(), validation_batches(config, source, 1), run.results / config.validation_split)


def _export(options):
    run, config = _finished(options)
    if not config.export:
        raise ValueError(f"The run in {run.folder} has no folder for SavedModels. Give --export. Received: export=None")
    from recipes.images.exporting import export

    export(config, run.load_model(), run.class_names())


def _classify(options):
    for name in options.files:
        if not pathlib.Path(name).is_file():
            raise FileNotFoundError(f"There is no file {name}")
    if options.top < 1:
        raise ValueError(f"--top must be at least 1. Received: top={options.top}")
    run, config = _finished(options)
    from recipes.images.classifying import classify

    for name, classes in classify(run.load_model(), config, run.class_names(), options.files, options.top):
        print("\t".join([name, *classes]), flush=True)


def _finished(options):
    """Run and settings of a finished run."""
    from recipes.engine.quiet import quiet_tensorflow

    quiet_tensorflow()
    from recipes.images.run import Run

    run = Run(options.folder)
    given = given_settings(options, OPTIONS[options.command])
    config = run.config()
    if given.keys() & set(DATA):
        given = dict.fromkeys(DATA) | {"embedded": False} | given
    return run, override(config, given)


COMMANDS = {"train": _train, "evaluate": _evaluate, "export": _export, "classify": _classify}

if __name__ == "__main__":
    main()
