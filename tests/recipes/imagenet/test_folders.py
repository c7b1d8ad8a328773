"""Folders of images."""

import os

import numpy as np
import pytest

from recipes.imagenet.batches import ImageBatches, Subset
from recipes.imagenet.folders import read_digits, read_folder, read_labelled_folder
from tests.recipes.imagenet.image_files import jpeg, make_folder, png, webp
from tests.recipes.imagenet.test_batches import EVALUATION, numbers, served
from tests.refusals import refused


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("images") / "train", each=5)


def test_folders_of_classes(folder):
    source = read_folder(folder)
    assert source.class_names == ["cat", "dog"] and len(source) == 10
    assert source.name(7) == str(folder / "dog" / "07.png")
    batches = ImageBatches(source, 4, EVALUATION)
    assert served(batches) == [
        ([0, 1, 2, 3], [0, 0, 0, 0]),
        ([4, 5, 6, 7], [0, 1, 1, 1]),
        ([8, 9], [1, 1]),
    ]
    assert len(batches) == 3 and batches.damaged == {}
    weights = np.concatenate([weights for *_, weights in batches.dataset()])
    np.testing.assert_allclose(weights, [1.2] * 10 + [0, 0], rtol=1e-6)
    assert int(batches.dataset().cardinality()) == 3


def test_endings_and_depths(tmp_path):
    make_folder(tmp_path, each=1)
    (tmp_path / "dog" / "images").mkdir()
    (tmp_path / "dog" / "images" / "5.JPEG").write_bytes(jpeg(5))
    (tmp_path / "dog" / "images" / "7.WebP").write_bytes(webp(7))
    source = read_folder(tmp_path)
    assert numbers(ImageBatches(source, 9, EVALUATION)) == [0, 1, 5, 7] and source.left_out == ()


def test_what_is_left_out_of_a_folder_is_told(tmp_path):
    make_folder(tmp_path, each=2)
    for name in ("a.tif", "b.HEIC", "c.tif", "README", ".DS_Store", "Thumbs.db"):
        (tmp_path / "dog" / name).write_text("no image")
    os.mkfifo(tmp_path / "cat" / "9.png")  # nobody would ever end reading it
    (tmp_path / "empty").mkdir()
    (tmp_path / "loose.jpg").write_bytes(jpeg(4))
    source = read_folder(tmp_path)
    assert source.left_out == (
        f"{tmp_path}: 5 files are not images by their names: .heic, .tif, a pipe, or a link to a folder or to nothing, "
        "without an ending",
        f"{tmp_path}: 1 image is in no folder of a class: loose.jpg",
        f"{tmp_path}: 1 folder has no images: empty",
    )
    assert numbers(ImageBatches(source, 9, EVALUATION)) == [0, 1, 2, 3] and source.class_names == ["cat", "dog"]
    assert Subset(source, 2).left_out == source.left_out


def test_classes_of_the_training_set(folder, tmp_path):
    validation = make_folder(tmp_path / "val", classes=["dog"], each=1)
    source = read_folder(validation, ["cat", "dog", "owl"])
    assert served(ImageBatches(source, 2, EVALUATION)) == [([0], [1])] and len(source.class_names) == 3
    with refused("class", "dog"):
        read_folder(validation, ["cat"])


def test_classes_in_a_text_file(tmp_path):
    make_folder(tmp_path / "val", classes=["images"], each=3)
    labels = tmp_path / "val_annotations.txt"
    labels.write_text("02.png\tcat\t0\t32\n00.png\tdog\t1\t2\n")
    source = read_labelled_folder(tmp_path / "val", labels, ["cat", "dog"])
    assert served(ImageBatches(source, 2, EVALUATION)) == [([2, 0], [0, 1])]
    assert source.left_out == (f"{tmp_path / 'val'}: 1 image is on no line of {labels}: 01.png",)
    (tmp_path / "val" / "01.png").write_bytes(png(4))  # a name of two images
    for line in ("09.png cat", "01.png cat", "01.png cow", "01.png", "", "00.png cat"):
        labels.write_text(f"00.png dog\n{line}\n")
        with refused(f"{labels}, line 2", repr(line)):
            read_labelled_folder(tmp_path / "val", labels, ["cat", "dog"])


def test_a_folder_without_classes(tmp_path):
    with refused("folder for each class", tmp_path):
        read_folder(tmp_path)


def test_digits():
    train, validation = read_digits("train"), read_digits("validation")
    assert (len(train), len(validation), train.class_names) == (1500, 297, list("0123456789"))
    images, labels, _ = next(iter(ImageBatches(train, 1500, EVALUATION).dataset()))
    assert (
        images.shape == (1500, 8, 8, 3) and images.numpy().max() == 255 and np.ptp(images.numpy(), axis=-1).max() == 0
    )
    assert np.bincount(labels).min() > 120
    others = next(iter(ImageBatches(validation, 297, EVALUATION).dataset()))[0]
    seen = {image.tobytes() for image in images.numpy()}
    assert not any(image.tobytes() in seen for image in others.numpy())
