"""Labelled images in TFRecords, read one by one in any order."""

import concurrent.futures
import os
import struct

import numpy as np
import tensorflow as tf

from recipes.engine.data import load_tfds
from recipes.imagenet.batches import ImageSource

# Features of ImageNet as TensorFlow's scripts write it, and of tensorflow-datasets.
IMAGENET_KEYS = ("image/encoded", "image/class/label")
TFDS_KEYS = ("image", "label")
HEADER, FOOTER = 12, 4  # bytes around a record: its length and checksums
PARALLEL_SHARDS = 16


class ImageRecords(ImageSource):
    """Images in TFRecord files, which `ImageBatches` reads.

    Where each record begins is found out once, from the lengths before them; then records are read singly, so that an
    interrupted epoch goes on at any place and a damaged record costs no other.

    Args:
        paths: list of paths.
        class_names: list of str.
        keys: tuple of str, the features with the encoded image and its label. Default `IMAGENET_KEYS`.
        first_label: int, the label of the first class. Default 1, as in ImageNet's, where 0 is no class.
        ranges: list of (first record, number of records), one for each file. Default `None`: all of them.
        window: int, records that are shuffled together: those of 16 files, in memory only if the system keeps the
            files there. Default 16,384.
        progress: function of (files done), called after each.
    """

    def __init__(
        self, paths, class_names, keys=IMAGENET_KEYS, first_label=1, ranges=None, window=16_384, progress=None
    ):
        super().__init__(class_names)
        self._paths = [str(path) for path in paths]
        self._keys, self._first_label, self._window = keys, first_label, window
        parts = []
        with concurrent.futures.ThreadPoolExecutor(PARALLEL_SHARDS) as pool:
            for index, (places, fault) in enumerate(pool.map(find_records, self._paths)):
                first, count = ranges[index] if ranges else (0, len(places))
                parts.append(places[first : first + count])
                if fault:
                    self.faults[self._paths[index]] = fault
                if progress:
                    progress(index + 1)
        self._starts = np.cumsum([0] + [len(part) for part in parts])
        if not self._starts[-1]:
            first = "".join(f"; {name}: {fault}" for name, fault in list(self.faults.items())[:1])
            raise ValueError(f"There are no records. Received: {len(self._paths)} files {self._paths[:3]}{first}")
        self._places = np.concatenate(parts)

    def __len__(self):
        return len(self._places)

    def name(self, index):
        shard = self._shard(index)
        return f"{self._paths[shard]}, record {index - self._starts[shard] + 1}"

    def paths(self):
        return list(self._paths)

    def order(self, rng):
        # Kind to the disk: the order of the files is random, and 16 of them are read in turn.
        shards = rng.permutation(len(self._paths))
        interleaved = []
        for begin in range(0, len(shards), PARALLEL_SHARDS):
            group = [np.arange(self._starts[i], self._starts[i + 1]) for i in shards[begin : begin + PARALLEL_SHARDS]]
            turns = np.concatenate([np.arange(len(indices)) for indices in group])
            interleaved.append(np.concatenate(group)[np.argsort(turns, kind="stable")])
        order = np.concatenate(interleaved)
        return np.concatenate(
            [rng.permutation(order[begin : begin + self._window]) for begin in range(0, len(order), self._window)]
        )

    def load(self, index):
        image_key, label_key = self._keys
        features = {image_key: tf.io.FixedLenFeature((), tf.string), label_key: tf.io.FixedLenFeature((), tf.int64)}
        parsed = tf.io.parse_single_example(tf.numpy_function(self._read, [index], tf.string), features)
        label = tf.cast(parsed[label_key], tf.int32)
        first, last = self._first_label, self._first_label + len(self.class_names) - 1
        known = tf.Assert((first <= label) & (label <= last), [f"The label is not in {first} to {last}:", label])
        with tf.control_dependencies([known] if known is not None else []):
            return tf.ensure_shape(parsed[image_key], ()), label - first

    def _shard(self, index):
        return int(np.searchsorted(self._starts, index, side="right")) - 1

    def _read(self, index):
        start, length = map(int, self._places[index])
        file = os.open(self._paths[self._shard(index)], os.O_RDONLY)
        try:
            return os.pread(file, length, start)
        finally:
            os.close(file)


def find_records(path):
    """Finds the records of a TFRecord file: int64 `(N, 2)`, first byte and length; and its fault or `None`."""
    places, position = [], 0
    if not os.path.isfile(path):  # opening a pipe would block
        return np.zeros((0, 2), "int64"), "cannot be read: it is no file, or not there"
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        return np.zeros((0, 2), "int64"), f"cannot be read: {error.strerror}"
    try:
        size = os.fstat(file).st_size
        while position + HEADER <= size:
            (length,) = struct.unpack("<Q", os.pread(file, 8, position))
            if not length or position + HEADER + length + FOOTER > size:  # a length of zero is no record
                break
            places.append((position + HEADER, length))
            position += HEADER + length + FOOTER
    finally:
        os.close(file)
    fault = f"no record begins at byte {position} of {size}: lost from there" if position < size else None
    return np.array(places, "int64").reshape(-1, 2), fault


def read_records(folder, split, class_names, first_label=1, progress=None):
    """Reads ImageNet's usual TFRecords, files such as `train-00000-of-01024`: `ImageRecords`.

    The names of the files begin with `split`, before a hyphen or a full stop.
    """
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names if name.startswith((f"{split}-", f"{split}."))]
    if not paths:
        raise ValueError(f"The folder must have files such as {split}-00000-of-01024. Received: {folder}")
    return ImageRecords(paths, class_names, first_label=first_label, progress=progress)


def read_tfds_images(name, split, progress=None):
    """Reads an image classification data set of TensorFlow Datasets, which is downloaded on first use: `ImageRecords`.

    `name` is "imagenet2012" or "cifar10", say, and `split` "train" or "train[:10%]".
    """
    with load_tfds(name) as tfds:
        builder = tfds.builder(name)
        builder.download_and_prepare()
    info = builder.info
    if not {*TFDS_KEYS} <= set(info.features):
        raise ValueError(f"The data set must have {' and '.join(TFDS_KEYS)}. Received: {name}, {list(info.features)}")
    try:
        instructions = info.splits[split].file_instructions
    except (KeyError, ValueError) as error:
        raise ValueError(f"{name} has the splits {', '.join(info.splits)}. Received: split={split!r}") from error
    if getattr(info.file_format, "value", info.file_format) not in (None, "tfrecord"):
        raise ValueError(f"The data set must be kept as TFRecords. Received: {name}, {info.file_format}")
    ranges = [(part.skip, np.iinfo("int64").max if part.take < 0 else part.take) for part in instructions]
    paths = [part.filename for part in instructions]
    return ImageRecords(paths, info.features["label"].names, TFDS_KEYS, 0, ranges, progress=progress)
