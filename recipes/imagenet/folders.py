"""Labelled images in files of their own, or in memory."""

import collections
import os
import pathlib

import numpy as np
import tensorflow as tf

from keras_headattn._files import read_lines
from keras_headattn._optional import optional_import
from recipes.imagenet.batches import ImageSource
from recipes.imagenet.names import ENDINGS, describe_others, find_images, first_names, is_image


class ImageFiles(ImageSource):
    """Image files with their labels, ints `(N,)`; `left_out` are sentences on files that were passed over."""

    def __init__(self, paths, labels, class_names, left_out=()):
        if not len(paths):
            raise ValueError("There are no images. Received: an empty list of files")
        super().__init__(class_names, left_out=left_out)
        self._paths = tf.constant(paths)
        self._labels = tf.constant(np.asarray(labels, "int32"))

    def __len__(self):
        return int(self._paths.shape[0])

    def name(self, index):
        return self._paths[index].numpy().decode()

    def paths(self):
        return [path.decode() for path in self._paths.numpy()]

    def load(self, index):
        return tf.io.read_file(tf.gather(self._paths, index)), tf.gather(self._labels, index)


def read_folder(folder, class_names=None):
    """Reads images from one folder for each class, at any depth below it: `ImageFiles`.

    Images are told by the endings of their names: .jpg, .jpeg, .png, .webp, .gif and .bmp. The attribute `left_out`
    says what else there was. `class_names` are the names of the folders in the order of their labels, by default all in
    the order of their names; a folder that is no class is a `ValueError`.
    """
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise ValueError(f"There is no folder of images. Received: {folder}")
    others = collections.Counter()
    paths_by_class = {path.name: find_images(path, others) for path in sorted(folder.iterdir()) if path.is_dir()}
    empty = [name for name, paths in paths_by_class.items() if not paths and not name.startswith(".")]
    paths_by_class = {name: paths for name, paths in paths_by_class.items() if paths}
    if not paths_by_class:
        raise ValueError(
            f"The folder must have a folder for each class, with files {', '.join(sorted(ENDINGS))}. Received: {folder}"
        )
    class_names = list(paths_by_class) if class_names is None else list(class_names)
    unknown = sorted(set(paths_by_class) - set(class_names))
    if unknown:
        raise ValueError(
            f"{folder} has folders that are no class of the training set. Images that are not in a folder for each "
            f"class need a file of labels. Received: {first_names(unknown)}"
        )
    left_out = describe_others(others)
    if loose := [path.name for path in sorted(folder.iterdir()) if is_image(path.name) and path.is_file()]:
        left_out.append(f"{_images(len(loose))} in no folder of a class: {first_names(loose)}")
    if empty:
        folders = "1 folder has" if len(empty) == 1 else f"{len(empty):,} folders have"
        left_out.append(f"{folders} no images: {first_names(empty)}")
    labels = [label for label, name in enumerate(class_names) for _ in paths_by_class.get(name, ())]
    paths = [path for name in class_names for path in paths_by_class.get(name, ())]
    return ImageFiles(paths, labels, class_names, _placed(folder, left_out))


def read_labelled_folder(folder, labels, class_names):
    """Reads images in or below one folder whose classes are in a text file, as in Tiny ImageNet: `ImageFiles`.

    A line of `labels` has the name of an image file, none of them twice, white space, and its class; the rest is not
    read. The attribute `left_out` says which files have no label. A line with another class, or of a file that is not
    there or there twice, is an error that names it.
    """
    others, paths = collections.Counter(), collections.defaultdict(list)
    for path in find_images(folder, others):
        paths[os.path.basename(path)].append(path)
    number_of = {name: label for label, name in enumerate(class_names)}
    label_of_path = {}
    for line_number, line in enumerate(read_lines(labels), 1):
        name, label = (*line.split(), None, None)[:2]
        if len(paths.get(name, ())) != 1 or label not in number_of or paths[name][0] in label_of_path:
            raise ValueError(
                f"{labels}, line {line_number}: expected the name of another image file below {folder}, of which there "
                f"is one, and one of {len(number_of)} classes. Received: {line!r}"
            )
        label_of_path[paths[name][0]] = number_of[label]
    left_out = describe_others(others)
    if unnamed := [name for name, files in paths.items() if files[0] not in label_of_path]:
        left_out.append(f"{_images(len(unnamed))} on no line of {labels}: {first_names(unnamed)}")
    return ImageFiles(list(label_of_path), list(label_of_path.values()), class_names, _placed(folder, left_out))


class MemoryImages(ImageFiles):
    """Encoded images in memory: bytes of image files, with their labels, ints `(N,)`."""

    def __init__(self, images, labels, class_names):
        super().__init__([f"image {index}" for index in range(len(images))], labels, class_names)
        self._images = tf.constant(images)

    def load(self, index):
        return tf.gather(self._images, index), tf.gather(self._labels, index)


def read_digits(split):
    """Reads scikit-learn's handwritten digits, 8 x 8 pixels, as PNG: 1,500 to train on, 297 for validation."""
    if split not in ("train", "validation"):
        raise ValueError(f"The splits of --built-in are train and validation. Received: {split}")
    digits = optional_import("sklearn.datasets", "recipes").load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    chosen = order[:1500] if split == "train" else order[1500:]
    pixels = np.uint8(np.round(digits.images[chosen] * (255 / 16)))[..., None]
    images = [tf.io.encode_png(image).numpy() for image in pixels]
    return MemoryImages(images, digits.target[chosen], map(str, digits.target_names))


def _images(count):
    return "1 image is" if count == 1 else f"{count:,} images are"


def _placed(folder, sentences):
    return [f"{folder}: {sentence}" for sentence in sentences]
