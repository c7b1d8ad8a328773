"""Images that a configuration names."""

import functools
import os
import pathlib

import tensorflow as tf

from keras_headattn._files import read_lines
from keras_headattn.data import central_crop
from recipes.engine.data import Corpora, checksum
from recipes.imagenet.augmentation import inception_crop, pad_and_crop
from recipes.imagenet.batches import ImageBatches, Subset
from recipes.imagenet.folders import read_digits, read_folder, read_labelled_folder
from recipes.imagenet.mixing import mix
from recipes.imagenet.rand_augment import erase, rand_augment
from recipes.imagenet.records import read_records, read_tfds_images


def read_corpora(config):
    """Reads the images that `config` names as `Corpora`; those for validation are the test set."""
    train = load_training(config)
    validation = load_validation(config, train.class_names)
    return Corpora(train, validation, {config.validation_split: validation})


def load_training(config):
    """Reads the training split: `ImageFiles`, `ImageRecords` or a `Subset` of these."""
    class_names = None  # those of the data set
    if config.class_names:
        class_names = list(read_lines(config.class_names))
    elif config.data == "records":
        class_names = list(map(str, range(config.first_label, config.first_label + config.num_classes)))
    source = _source(config, config.train_split, class_names)
    share = config.validation_share
    return _reported(_part(source, share, others=True) if share else source, config.max_images)


def load_validation(config, class_names):
    """Reads the validation split, or a share of training, whose classes are those of training."""
    if config.validation_share:
        source = _source(config, config.train_split, class_names)
        return _reported(_part(source, config.validation_share), config.max_images)
    if config.validation_labels:
        folder = f"{config.images}/{config.validation_split}"
        source = read_labelled_folder(folder, config.validation_labels, class_names)
        return _reported(source, config.max_images)
    source = _reported(_source(config, config.validation_split, class_names), config.max_images)
    if source.class_names != class_names:
        raise ValueError(
            f"The validation split must have the classes of training, {len(class_names)} of them. "
            f"Received: {len(source.class_names)}, {source.class_names[:5]}"
        )
    return source


def fingerprint(images):
    """Returns numbers of images, and checksums of the names of their files and classes, and of the files' sizes.

    Of more than 10,000 files only some sizes count: a million would take minutes from a network.
    """
    fingerprints = {}
    for part, source in (("training", images.train), ("validation", images.validation)):
        paths = source.paths()
        names = ["/".join(pathlib.Path(path).parts[-2:]) for path in paths]
        sizes = [os.path.getsize(path) for path in paths[:: 1 + len(paths) // 10_000] if os.path.exists(path)]
        fingerprints[part] = {"examples": len(source), "sha256": checksum([source.class_names, names, sizes])}
    return fingerprints


def training_batches(config, source, num_replicas):
    """Augmented batches, as `ImageBatches`."""
    mixing = None
    if config.mixes:
        arguments = dict(num_classes=len(source.class_names), mixup=config.mixup, cutmix=config.cutmix)
        mixing = functools.partial(mix, **arguments)
    size, augment = config.batch_size * num_replicas, augmentation(config)
    return ImageBatches(source, size, augment, training=True, seed=config.seed, mix=mixing)


def validation_batches(config, source, num_replicas=1, one_hot=False):
    """Batches to evaluate on, each image once, as `ImageBatches`."""
    return ImageBatches(source, config.batch_size * num_replicas, evaluation_pixels(config), one_hot=one_hot)


def augmentation(config):
    """Returns the function from the bytes of an image file and a seed to the pixels that are trained on."""
    common = dict(size=config.image_size, **config.augmentation_arguments)
    crop = {
        "inception": functools.partial(inception_crop, **common),
        "pad_crop": functools.partial(pad_and_crop, **common),
        "none": lambda data, seed: evaluation_pixels(config)(data),
    }[config.augmentation]

    def augment(data, seed):
        image = crop(data, seed=seed)
        of_operations, of_erasing = tf.unstack(tf.random.split(seed, 2))
        if config.rand_augment:
            image = rand_augment(image, of_operations, config.rand_augment)
        return erase(image, of_erasing, config.random_erasing) if config.random_erasing else image

    return augment


def evaluation_pixels(config):
    """Returns a function from the bytes of an image file to the pixels that the model sees, when it is not trained."""
    return functools.partial(central_crop, size=config.image_size, resized=config.evaluation_side)


def _source(config, split, class_names):
    if config.data == "built_in":
        return read_digits(split)
    if config.data == "images":
        return read_folder(f"{config.images}/{split}", class_names)
    if config.data == "records":
        return read_records(config.records, split, class_names, config.first_label)
    return read_tfds_images(config.tfds, split)


def _reported(source, max_images):
    """Limits a source to `max_images`; prints a line on each kind of file that was left out."""
    for sentence in source.left_out:
        print(sentence)
    return source if max_images is None else Subset(source, max_images)


def _part(source, share, others=False):
    """Returns the images for validation, the same ones in each run, or all others."""
    count = max(1, round(share * len(source)))
    if count >= len(source):
        raise ValueError(f"--validation must leave images to train on. Received: {share} of {len(source)}")
    return Subset(source, count, others=others)
