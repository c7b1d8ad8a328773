import os
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from recipes.imagenet.batches import ImageBatches
from recipes.imagenet.records import IMAGENET_KEYS, TFDS_KEYS, ImageRecords, read_records, read_tfds_images
from tests.recipes.imagenet.image_files import jpeg
from tests.recipes.imagenet.test_batches import as_it_is, numbers, served
from tests.refusals import refused

EVALUATION = lambda data: as_it_is(data, None)  # noqa: E731
CLASSES = ["cat", "dog", "owl"]


def example(number, label, keys=IMAGENET_KEYS):
    features = {
        keys[0]: tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg(number)])),
        keys[1]: tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path


def make(folder, shards=3, each=4, keys=IMAGENET_KEYS, first_label=1):
    """Files of records; image i has class i modulo 3."""
    for shard in range(shards):
        images = range(shard * each, (shard + 1) * each)
        records = [example(i, first_label + i % 3, keys) for i in images]
        write(folder / f"train-{shard:05}-of-{shards:05}", records)
    return folder


def test_every_record_is_read(tmp_path):
    source = read_records(make(tmp_path), "train", CLASSES)
    assert served(ImageBatches(source, 6, EVALUATION)) == [
        ([0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 1, 2]),
        ([6, 7, 8, 9, 10, 11], [0, 1, 2, 0, 1, 2]),
    ]
    assert source.name(5) == f"{tmp_path / 'train-00001-of-00003'}, record 2"
    assert source.faults == {}


@pytest.mark.parametrize("window", [1, 5, 100])
def test_each_record_comes_once_an_epoch(tmp_path, window):
    paths = sorted(make(tmp_path, shards=20, each=2).iterdir())
    source = ImageRecords(paths, CLASSES, window=window)
    orders = [source.order(np.random.default_rng(seed)).tolist() for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == list(range(40)) for order in orders)


def test_shuffled_far_apart(tmp_path):
    source = read_records(make(tmp_path, each=12), "train", CLASSES)
    batches = ImageBatches(source, 9, as_it_is, training=True)
    first = served(batches)[0][0]
    assert len({number // 12 for number in first}) == 3  # of all three files
    batches.epoch = 1
    assert served(batches)[0][0] != first


def test_damaged_records(tmp_path):
    """Each costs itself alone, but for those beyond a place where the lengths end."""
    make(tmp_path)
    write(tmp_path / "train-a", [example(1, 1), b"no example", example(2, 9), example(3, 2)])
    whole = write(tmp_path / "train-b", [example(4, 3), example(5, 1)]).read_bytes()
    (tmp_path / "train-b").write_bytes(whole[:-20])
    cut = bytearray(write(tmp_path / "train-c", [example(6, 2), example(7, 1)]).read_bytes())
    cut[100:400] = bytes(300)  # within the first record
    (tmp_path / "train-c").write_bytes(cut)
    (tmp_path / "train-d").write_bytes(b"nothing of the kind")
    (tmp_path / "train-e").write_bytes(bytes(10**6))
    os.mkfifo(tmp_path / "train-f")  # nobody would ever end reading it
    batches = ImageBatches(read_records(tmp_path, "train", CLASSES), 32, EVALUATION)
    assert numbers(batches)[12:] == [1, 3, 4, 7]
    faults = {name[len(str(tmp_path)) + 1 :]: fault for name, fault in batches.damaged.items()}
    records = ["train-a, record 2", "train-a, record 3", "train-c, record 1"]
    assert sorted(faults) == sorted([*records, "train-b", "train-d", "train-e", "train-f"])
    assert "not in 1 to 3" in faults["train-a, record 3"]
    assert "lost from there" in faults["train-b"] and "byte 0 of 19" in faults["train-d"]
    assert "byte 0 of 1000000" in faults["train-e"] and "no file" in faults["train-f"]


def test_names_of_files(tmp_path):
    make(tmp_path)
    write(tmp_path / "training_notes", [])
    assert len(read_records(tmp_path, "train", CLASSES)) == 12
    for folder in (tmp_path, tmp_path / "nothing"):
        with refused("validation-00000-of-01024", folder):
            read_records(folder, "validation", CLASSES)
    with refused("no records", tmp_path / "empty"):
        ImageRecords([write(tmp_path / "empty", [])], CLASSES)
    (tmp_path / "zeros").write_bytes(bytes(99))
    with refused("no records", "zeros: no record begins at byte 0 of 99"):
        ImageRecords([tmp_path / "zeros"], CLASSES)


def test_progress(tmp_path):
    done = []
    read_records(make(tmp_path), "train", CLASSES, progress=done.append)
    assert done == [1, 2, 3]


@pytest.fixture
def fake_tfds(monkeypatch, tmp_path):
    """In place of tensorflow-datasets: a data set of two files, as its builder describes it."""
    make(tmp_path, 2, 3, TFDS_KEYS, first_label=0)
    files = [str(tmp_path / f"train-0000{i}-of-00002") for i in range(2)]

    def part(number, skip=0, take=-1):
        return types.SimpleNamespace(filename=files[number], skip=skip, take=take)

    label = types.SimpleNamespace(names=CLASSES)
    info = types.SimpleNamespace(
        features={"image": None, "label": label},
        file_format="tfrecord",
        splits={
            "train": types.SimpleNamespace(file_instructions=[part(0), part(1)]),
            "train[1:4]": types.SimpleNamespace(file_instructions=[part(0, 1, 2), part(1, 0, 1)]),
        },
    )
    tfds = types.ModuleType("tensorflow_datasets")
    tfds.download = types.SimpleNamespace(DownloadError=type("DownloadError", (Exception,), {}))
    tfds.builder = lambda name: types.SimpleNamespace(info=info, download_and_prepare=lambda: None)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", tfds)
    return tfds


def test_tfds(fake_tfds):
    source = read_tfds_images("pets", "train")
    assert source.class_names == CLASSES
    assert served(ImageBatches(source, 6, EVALUATION)) == [([0, 1, 2, 3, 4, 5], [0, 1, 2, 0, 1, 2])]
    assert numbers(ImageBatches(read_tfds_images("pets", "train[1:4]"), 6, EVALUATION)) == [1, 2, 3]
    with refused("train[1:4]", "split='test'"):
        read_tfds_images("pets", "test")


def test_tfds_of_another_kind(fake_tfds):
    info = fake_tfds.builder("pets").info
    info.file_format = "array_record"
    with refused("TFRecords", "array_record"):
        read_tfds_images("pets", "train")
    del info.features["label"]
    with refused("image and label", ["image"]):
        read_tfds_images("pets", "train")


def test_tfds_that_cannot_be_had(fake_tfds, monkeypatch):
    def fail(name):
        raise AssertionError("Manual directory does not exist")

    fake_tfds.builder = fail
    with pytest.raises(OSError, match="Received: imagenet2012.*Manual"):
        read_tfds_images("imagenet2012", "train")
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(ImportError, match="datasets"):
        read_tfds_images("pets", "train")
