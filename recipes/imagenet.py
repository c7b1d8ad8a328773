"""Image classification by residual networks, with attention beside their convolutions or without.

    python -m recipes.imagenet --quick           a minute, to see that everything works
    python -m recipes.imagenet                   the embedded task: handwritten digits
    python -m recipes.imagenet --config cifar10 --images cifar10 --attention evolving
    python -m recipes.imagenet evaluate runs/cifar10
    python -m recipes.imagenet export runs/cifar10
    python -m recipes.imagenet classify runs/cifar10 cat.jpg dog.jpg

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Source: Wang et al. 2021, "Evolving attention with residual convolutions", section 4.1. Settings are in
recipes/configs/: imagenet, cifar10, tiny_imagenet, digits.
"""

import pathlib

from recipes.engine.command import Command
from recipes.engine.recipe import Recipe, check_readable, given_settings
from recipes.images.settings import ImageNetConfig


def _check_files(config):
    if config.records and not (config.class_names or config.num_classes):
        raise ValueError(f"--records needs --class-names or --num-classes. Received: records={config.records!r}")
    check_readable(config.validation_labels, config.class_names)
    for name in ("images", "records"):
        folder = getattr(config, name)
        if folder and not pathlib.Path(folder).is_dir():
            raise NotADirectoryError(f"--{name} must be a folder. Received: {folder}")


def _add_classify(parser):
    RECIPE.add_run(parser, ("resized",))
    parser.add_argument("files", nargs="+", help="image files")
    parser.add_argument("--top", type=int, default=1, help="how many classes of each [1]")


def _classify(options):
    for name in options.files:
        if not pathlib.Path(name).is_file():
            raise FileNotFoundError(f"There is no file {name}")
    if options.top < 1:
        raise ValueError(f"--top must be at least 1. Received: top={options.top}")
    task = RECIPE.finished(options.folder, given_settings(options, ("resized",)))
    from keras_headattn.serving import ImageClassifier
    from recipes.images.data import evaluation_pixels

    classify = ImageClassifier(task.run.load_model(), evaluation_pixels(task.config), task.class_names, options.top)
    for begin in range(0, len(options.files), classify.batch_size):
        files = options.files[begin : begin + classify.batch_size]
        for name, image in zip(files, classify(files), strict=True):
            found = image and [f"{label} {score:.3f}" for label, score in zip(image.classes, image.scores, strict=True)]
            print(name, *(found or ["not an image that can be read"]), sep="\t", flush=True)


RECIPE = Recipe(
    name="imagenet",
    doc=__doc__,
    settings=ImageNetConfig,
    task="recipes.images.task:ImageNet",
    embedded="digits",
    quick=dict(blocks=1, decay_epochs=(1,), warmup_epochs=0.5, statistics_momentum=0.9),
    quick_data=dict(
        model="small", image_size=32, augmentation="pad_crop", small_images=True, max_images=600, batch_size=32
    ),
    files=("classes.txt", "damaged.txt"),
    check_files=_check_files,
    evaluated=(
        *ImageNetConfig.SOURCES,
        "validation_split",
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
