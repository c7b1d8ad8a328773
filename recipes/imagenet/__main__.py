"""Image classification by residual networks, with or without attention, and by Vision Transformers.

    python -m recipes.imagenet --quick           a minute, to see that everything works
    python -m recipes.imagenet                   the built-in task: handwritten digits
    python -m recipes.imagenet --config cifar10 --images cifar10 --attention evolving
    python -m recipes.imagenet --config vit_tiny --images imagenet --attention talking_heads
    python -m recipes.imagenet evaluate runs/cifar10
    python -m recipes.imagenet export runs/cifar10
    python -m recipes.imagenet classify runs/cifar10 cat.jpg photographs/

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Wang et al. 2021, "Evolving attention with residual convolutions", section 4.1. Settings are in
configs/: imagenet, cifar10, tiny_imagenet, digits; with today's schedule vit_tiny and resnet50_modern.
"""

import collections
import pathlib
import sys

from keras_headattn.serving import ImageClassifier
from recipes.engine.command import Command
from recipes.engine.recipe import Recipe, check_readable, given_settings
from recipes.imagenet.data import evaluation_pixels
from recipes.imagenet.names import describe_others, find_images
from recipes.imagenet.settings import ImageNetConfig
from recipes.imagenet.train import class_names, evaluate, train, write


def _check_files(config):
    if config.records and not (config.class_names or config.num_classes):
        raise ValueError(f"--records needs --class-names or --num-classes. Received: records={config.records!r}")
    check_readable(config.validation_labels, config.class_names)
    for name, folder in (("images", config.images), ("records", config.records)):
        if folder and not pathlib.Path(folder).is_dir():
            raise NotADirectoryError(f"--{name} must be a folder. Received: {folder}")
    if config.images:
        _check_splits(pathlib.Path(config.images), config)


def _check_splits(folder, config):
    """Checks that there are folders of both splits, and that those for validation are classes of training."""
    train, validation = (_folders_in(folder / split) for split in (config.train_split, config.validation_split))
    splits = f"Received: folders {', '.join(sorted(_folders_in(folder))) or 'none'}"
    if train is None:
        raise NotADirectoryError(f"There is no folder {folder / config.train_split}. Give --train-split. {splits}")
    if config.validation_share:
        return
    if validation is None:
        raise NotADirectoryError(
            f"There is no folder {folder / config.validation_split}. Give --validation, a split or a share of the "
            f"training images such as 0.1. {splits}"
        )
    if not (validation & train or config.validation_labels or config.class_names):
        raise ValueError(
            f"{folder / config.validation_split} has none of the folders of {folder / config.train_split}. Give "
            "--validation-labels if its images are in no folders of classes. "
            f"Received: {', '.join(sorted(validation)[:5]) or 'no folders'}"
        )


def _folders_in(folder):
    """Returns the names of the folders in a folder, but for hidden ones; `None` if there is no such folder."""
    if not folder.is_dir():
        return None
    return {path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")}


def _add_classify(parser):
    RECIPE.add_run(parser, ("resized",))
    parser.add_argument("files", nargs="+", help="image files, or folders of them")
    parser.add_argument("--top", type=int, default=1, help="how many classes of each [1]")


def _classify(options):
    names = [name for file in options.files for name in _images_of(file)]
    if options.top < 1:
        raise ValueError(f"--top must be at least 1. Received: top={options.top}")
    run, config = RECIPE.open(options.folder, given_settings(options, ("resized",)))
    classify = ImageClassifier(run.load_model(), evaluation_pixels(config), class_names(run), options.top)
    unread = 0
    for begin in range(0, len(names), classify.batch_size):
        files = names[begin : begin + classify.batch_size]
        for name, image in zip(files, classify(files), strict=True):
            columns = image and [
                f"{label} {score:.3f}" for label, score in zip(image.classes, image.scores, strict=True)
            ]
            print(name, *(columns or ["not an image that can be read"]), sep="\t", flush=True)
            unread += not columns
    if unread:
        raise ValueError(f"The files must be images: PNG, JPEG, GIF or BMP. Received: {unread} of {len(names)} others")


def _images_of(name):
    """Returns the image file of this name, or those below the folder of this name, sorted."""
    if pathlib.Path(name).is_file():
        return [name]
    if not pathlib.Path(name).is_dir():
        raise FileNotFoundError(f"There is no such file. Received: {name}")
    others = collections.Counter()
    paths = find_images(name, others)
    if not paths:
        raise ValueError(f"The folder must have image files. Received: {'; '.join([name, *describe_others(others)])}")
    for sentence in describe_others(others):
        print(f"{name}: {sentence}", file=sys.stderr)
    return paths


RECIPE = Recipe(
    name="imagenet",
    doc=__doc__,
    settings=ImageNetConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    built_in="digits",
    quick=dict(blocks=1, decay_epochs=(1,), warmup_epochs=0.5, statistics_momentum=0.9),
    quick_data=dict(
        model="small",
        image_size=32,
        augmentation="pad_crop",
        model_arguments=dict(small_images=True),
        max_images=600,
        batch_size=32,
    ),
    files=("classes.txt", "damaged.txt"),
    check_files=_check_files,
    evaluated=(
        *ImageNetConfig.SOURCES,
        "validation",
        "validation_labels",
        "first_label",
        "batch_size",
        "resized",
    ),
    exported=("export", "resized"),
    commands={"classify": Command(_classify, "the likeliest classes of image files", _add_classify, filters=True)},
)
main = RECIPE.main

if __name__ == "__main__":
    main()
