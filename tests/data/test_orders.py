"""The contract with `training.Resume`: the batches of an epoch are a function of seed and epoch alone."""

import functools
import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.data import (
    LabelledBatches,
    RecordBatches,
    RowBatches,
    TokenBatches,
    begin_records,
    teacher_forcing,
    write_records,
    write_tokens,
)
from keras_headattn.text import ByteTokenizer
from recipes.imagenet.augmentation import pad_and_crop
from recipes.imagenet.batches import ImageBatches
from recipes.imagenet.folders import MemoryImages
from tests.recipes.imagenet.image_files import png

RNG = np.random.default_rng(0)
COLUMNS = {name: [RNG.integers(1, 99, n) for n in RNG.integers(1, 13, 40)] for name in ("source", "target")}
LABELS = RNG.random((40, 3)) < 0.4
IMAGES = [png(number) for number in range(9)]
KINDS = ["token", "record", "labelled", "image", "stream", "documents"]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Function of a kind and a seed that makes new batches, which know nothing of others."""
    folder = tmp_path_factory.mktemp("records")
    begin_records(folder, {})
    rows = list(zip(*COLUMNS.values(), strict=True))
    encode = lambda some: dict(zip(COLUMNS, zip(*some, strict=True), strict=True))  # noqa: E731
    records = write_records(folder, rows, tuple(COLUMNS), encode, shard_lines=9)

    tokens = write_tokens(folder / "tokens.bin", ["abcdefgh"[: 1 + i % 8] * 3 for i in range(50)], ByteTokenizer())

    def make(kind, seed):
        options = dict(bucket_lengths=(4, 8, 12), seed=seed)
        if kind == "token":
            return TokenBatches(COLUMNS, 24, preprocess=teacher_forcing, **options)
        if kind == "record":
            return RecordBatches(records, 24, preprocess=teacher_forcing, buffer=15, **options)
        if kind == "labelled":
            return LabelledBatches(COLUMNS, LABELS, 4, training=True, **options)
        if kind in ("stream", "documents"):
            return RowBatches(tokens, 8, 4, rows=kind, seed=seed)
        source = MemoryImages(IMAGES, np.arange(9) % 2, ["a", "b"])
        return ImageBatches(source, 2, functools.partial(pad_and_crop, size=8), training=True, seed=seed)

    return make


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 3), epoch=st.integers(0, 3), data=st.data())
def test_going_on_at_any_step_of_any_epoch(make, kind, seed, epoch, data):
    """As if nothing had happened: `whole` goes through all epochs, `resumed` begins in the middle of one."""
    whole, resumed = make(kind, seed), make(kind, seed)
    dataset, epochs = whole.dataset(), []
    for whole.epoch in range(epoch + 2):
        epochs.append(list(dataset.as_numpy_iterator()))
    step = data.draw(st.integers(0, len(whole)))
    resumed.epoch = epoch
    rest = list(itertools.islice(resumed.dataset().as_numpy_iterator(), step, None))
    assert len(epochs[epoch]) == len(whole) and len(rest) == len(whole) - step
    keras.tree.map_structure(np.testing.assert_array_equal, rest, epochs[epoch][step:])
    first, second = (keras.tree.flatten(batches) for batches in epochs[:2])
    assert not all(map(np.array_equal, first, second))
