import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import central_crop
from keras_headattn.training import Model, Resume
from recipes.imagenet.augmentation import pad_and_crop
from recipes.imagenet.batches import ImageBatches, Subset
from recipes.imagenet.folders import ImageFiles, MemoryImages, read_folder
from tests.recipes.imagenet.image_files import jpeg, make_folder, number_of, png
from tests.refusals import refused

EVALUATION = functools.partial(central_crop, size=8, resized=8)
TRAINING = functools.partial(pad_and_crop, size=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("images") / "train", each=5)


def served(batches):
    """Numbers and labels of the images, batch by batch, without those of weight 0."""
    found = []
    for images, labels, *weights in batches.dataset():
        assert len(images) == batches.batch_size
        rows = np.flatnonzero(weights[0]) if weights else np.arange(len(images))
        found.append(([number_of(image) for image in images.numpy()[rows]], labels.numpy()[rows].tolist()))
    return found


def numbers(batches):
    return list(itertools.chain(*(images for images, _ in served(batches))))


def test_the_loss_of_batches_is_that_of_the_images(folder):
    batches = ImageBatches(read_folder(folder), 4, EVALUATION)
    model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Rescaling(1 / 255), keras.layers.Flatten()])
    model.add(keras.layers.Dense(2, activation="softmax"))
    model.compile(loss="sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    found = model.evaluate(batches.dataset(), verbose=0)
    images = np.concatenate([images for images, *_ in batches.dataset()])[:10]
    of_labels = model(images).numpy()[np.arange(10), [0] * 5 + [1] * 5]
    np.testing.assert_allclose(found, [-np.log(of_labels).mean(), (of_labels > 0.5).mean()], rtol=1e-5)


def test_each_epoch_has_an_order_and_pixels_of_its_own(folder):
    def epoch(number, seed=0):
        batches = ImageBatches(read_folder(folder), 5, TRAINING, training=True, seed=seed)
        batches.epoch = number
        return [(images.numpy().tolist(), labels.numpy().tolist()) for images, labels in batches.dataset()]

    assert epoch(1) == epoch(1)
    epochs = [epoch(0), epoch(1), epoch(0, seed=1)]
    assert not any(one == other for one, other in itertools.combinations(epochs, 2))
    for each in epochs:
        assert sorted(itertools.chain(*(labels for _, labels in each))) == [0] * 5 + [1] * 5


def test_one_object_serves_all_epochs(folder):
    batches = ImageBatches(read_folder(folder), 4, as_it_is, training=True)
    dataset = batches.dataset()
    assert int(dataset.cardinality()) == len(batches) == 2  # the other two images are of other epochs
    orders = []
    for batches.epoch in (0, 1, 0):
        orders.append([number_of(image) for images, _ in dataset for image in images.numpy()])
        assert len(set(orders[-1])) == 8
    assert orders[0] == orders[2] != orders[1]


def as_it_is(data, seed):
    return EVALUATION(data)


@pytest.fixture
def damaged(tmp_path):
    """Images 0 to 9, of which 0, 3, 4 and 9 are damaged in different ways."""
    folder = make_folder(tmp_path / "images", each=5)
    (folder / "cat" / "00.png").write_bytes(b"")
    (folder / "cat" / "03.png").write_bytes(jpeg(3)[:80])
    (folder / "cat" / "04.png").write_text("no image")
    source = read_folder(folder)
    (folder / "dog" / "09.png").unlink()
    return source


def test_damaged_images_are_skipped_and_named(damaged):
    batches = ImageBatches(damaged, 4, EVALUATION)
    assert served(batches) == [([1, 2, 5, 6], [0, 0, 1, 1]), ([7, 8], [1, 1]), ([], [])]
    assert served(batches) == served(batches)
    assert batches.num_damaged == 4
    faults = {name[-6:]: fault for name, fault in batches.damaged.items()}
    assert sorted(faults) == ["00.png", "03.png", "04.png", "09.png"]
    assert "empty" in faults["00.png"] and "JPEG" in faults["03.png"] and "Unknown" in faults["04.png"]
    assert "No such file" in faults["09.png"]


def test_damaged_images_leave_training_batches_full(damaged):
    batches = ImageBatches(damaged, 4, as_it_is, training=True)
    for batches.epoch in range(3):
        epoch = served(batches)
        assert [len(labels) for _, labels in epoch] == [4, 4]
        order = list(itertools.chain(*(images for images, _ in epoch)))
        assert sorted(order[:6]) == [1, 2, 5, 6, 7, 8] and order[6:] == order[:2]
    assert batches.num_damaged == 4


@pytest.mark.parametrize("training", [False, True])
def test_no_image_can_be_read(tmp_path, training):
    paths = [str(tmp_path / name) for name in "abc"]
    preprocess = as_it_is if training else EVALUATION
    batches = ImageBatches(ImageFiles(paths, [0, 0, 0], ["a"]), 2, preprocess, training=training)
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of the 3 images can be read"):
        served(batches)


def test_fewer_images_than_a_batch(folder):
    with refused("10 images", "batch_size=11"):
        ImageBatches(read_folder(folder), 11, TRAINING, training=True)


def test_some_images_and_the_others(folder):
    source = read_folder(folder)
    some, others = (numbers(ImageBatches(Subset(source, 3, 1, each), 10, EVALUATION)) for each in (False, True))
    assert len(some) == 3 and sorted(some + others) == list(range(10))


def test_some_images(folder):
    source = read_folder(folder)
    subset = Subset(source, 4)
    chosen = numbers(ImageBatches(subset, 9, EVALUATION))
    assert len(set(chosen)) == 4 and chosen == sorted(chosen)
    assert subset.name(2) == source.name(chosen[2])
    batches = ImageBatches(subset, 4, as_it_is, training=True)
    assert sorted(numbers(batches)) == chosen
    assert len(Subset(source, 99)) == 10


def test_resumed_training_sees_the_same_images(damaged, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 4:
                raise KeyboardInterrupt

    def train(folder, *callbacks):
        keras.utils.set_random_seed(1)
        images = keras.Input((8, 8, 3))
        flat = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(images))
        model = Model(images, keras.layers.Dense(2)(flat))
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        batches = ImageBatches(damaged, 3, TRAINING, training=True, seed=5)
        resume = Resume(folder, batches, every=2)
        model.fit(batches.dataset(), epochs=3, shuffle=False, verbose=0, callbacks=[resume, *callbacks])
        return model.get_weights()

    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", Stop())
    keras.tree.map_structure(np.testing.assert_array_equal, whole, train(tmp_path / "stopped"))


def test_real_photographs(shared_data):
    """Full size, three of them grey: none is taken for damaged."""
    paths = sorted(map(str, (shared_data / "imagenet_samples").glob("*.JPEG")))[::20]
    source = ImageFiles(paths, range(len(paths)), list(map(str, range(len(paths)))))
    batches = ImageBatches(source, 10, functools.partial(central_crop, size=64, resized=73))
    ((images, labels, _),) = batches.dataset()
    assert labels.numpy().tolist() == list(range(10)) and batches.num_damaged == 0
    assert images.numpy().std(axis=(1, 2, 3)).min() > 10


def test_memory_files():
    images = [png(1), b"damaged", jpeg(2)]
    batches = ImageBatches(MemoryImages(images, [0, 0, 1], ["a", "b"]), 3, EVALUATION)
    assert served(batches) == [([1, 2], [0, 1])] and list(batches.damaged) == ["image 1"]
