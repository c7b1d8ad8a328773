import itertools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.data import (
    RecordBatches,
    TokenBatches,
    begin_records,
    describe_shard,
    finish_records,
    teacher_forcing,
    write_shard,
)
from keras_headattn.training import Model, Resume
from tests.refusals import refused


def pairs(number):
    """Pairs of 1 to 12 tokens; the first id of both sides is the number of the pair (from 4 on)."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 13, (number, 2))
    return [([i] * (m - 1) + [3], [i] * (n - 1) + [3]) for i, (m, n) in enumerate(lengths.tolist(), 4)]


def make(folder, rows, columns=("inputs", "targets"), shards=5):
    """Records of rows of ids, in shards of about the same size."""
    described = []
    for i in range(shards):
        write_shard(folder / f"shard-{i}", [dict(zip(columns, row, strict=True)) for row in rows[i::shards]])
        described.append(describe_shard(folder / f"shard-{i}", columns))
    begin_records(folder, {})
    return finish_records(folder, columns, described)


def batches_of(records, *arguments, **options):
    names = {"source": "inputs", "target": "targets"}
    return RecordBatches(records, *arguments, preprocess=teacher_forcing, columns=names, **options)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return make(tmp_path_factory.mktemp("records"), pairs(150))


def sentences(batches):
    return sorted(
        (tuple(s[s != 0].tolist()), tuple(t[t != 0].tolist()))
        for inputs, labels, _ in batches
        for s, t in zip(inputs["source"], labels, strict=True)
        if t.any()
    )


def same(batches, others):
    keras.tree.map_structure(np.testing.assert_array_equal, list(batches), list(others))


@settings(max_examples=6, deadline=None)
@given(st.sets(st.integers(3, 11), max_size=2), st.integers(24, 100), st.integers(1, 2), st.integers(1, 200))
def test_the_same_pairs_and_shapes_as_batches_from_memory(records, buckets, tokens, num_replicas, buffer):
    arguments = (tokens, (*sorted(buckets), 12), num_replicas)
    columns = dict(zip(("source", "target"), zip(*pairs(150), strict=True), strict=True))
    memory = TokenBatches(columns, *arguments, preprocess=teacher_forcing)
    batches = batches_of(records, *arguments, buffer=buffer)
    assert batches.summary() == memory.summary() and batches.shapes == memory.shapes
    for batches.epoch in range(2):
        served = list(batches)
        assert len(served) == len(batches) == len(memory)
        assert sentences(served) == sentences(memory)
        assert sorted(labels.shape for _, labels, _ in served) == sorted(labels.shape for _, labels, _ in memory)
        for inputs, labels, weight in served:
            assert labels.dtype == inputs["source"].dtype == inputs["target"].dtype == "int32"
            assert weight.dtype == "float32" and abs(weight.mean(dtype="float64") - 1) < 1e-6


def test_the_order_is_that_of_seed_and_epoch(records):
    def order(seed, epoch, buffer=40):
        batches = batches_of(records, 24, (6, 12), seed=seed, buffer=buffer)
        batches.epoch = epoch
        return np.concatenate([labels[:, 0] for _, labels, _ in batches]).tolist()

    assert order(0, 1) == order(0, 1)
    orders = [order(0, 0), order(0, 1), order(1, 0), sorted(order(0, 0))]
    assert not any(a == b for a, b in itertools.combinations(orders, 2))


def test_too_long_pairs_are_left_out(records):
    batches = batches_of(records, 24, (4, 8))
    short = [pair for pair in pairs(150) if max(map(len, pair)) <= 8]
    assert batches.num_dropped == 150 - len(short)
    assert sentences(batches) == sorted(tuple(map(tuple, pair)) for pair in short)
    assert [*batches.num_tokens.values()] == [sum(map(len, side)) for side in zip(*short, strict=True)]


def test_the_dataset_serves_the_epoch_that_is_set(records):
    batches = batches_of(records, 24, (6, 12), buffer=40)
    dataset = batches.dataset()
    assert int(dataset.cardinality()) == len(batches)
    for batches.epoch in (2, 0):
        same(dataset.as_numpy_iterator(), batches)


def test_resumed_training_sees_the_same_batches(records, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == per_epoch + 5:
                raise KeyboardInterrupt

    def train(folder, *callbacks):
        keras.utils.set_random_seed(1)
        inputs = {name: keras.Input([None], dtype="int32", name=name) for name in ("source", "target")}
        embedded = [keras.layers.Embedding(200, 2)(ids) for ids in inputs.values()]
        model = Model(inputs, keras.layers.Dense(200)(keras.layers.add(embedded)))
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        batches = batches_of(records, 96, (12,), buffer=40)
        resume = Resume(folder, batches, every=4)
        model.fit(batches.dataset(), epochs=2, shuffle=False, verbose=0, callbacks=[resume, *callbacks])
        return model.get_weights()

    per_epoch = len(RecordBatches(records, 96, (12,)))
    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", Stop())
    keras.tree.map_structure(np.testing.assert_array_equal, whole, train(tmp_path / "stopped"))


@pytest.mark.parametrize("columns", [("ids",), ("title", "entities", "text")])
def test_any_number_of_columns(tmp_path, columns):
    """The same as from memory; the batch is a dictionary of them."""
    rng = np.random.default_rng(0)
    rows = [tuple(rng.integers(1, 99, n).tolist() for n in rng.integers(1, 9, len(columns))) for _ in range(30)]
    batches = RecordBatches(make(tmp_path, rows, columns, shards=2), 16, (4, 8))
    memory = TokenBatches(dict(zip(columns, zip(*rows, strict=True), strict=True)), 16, (4, 8))
    assert batches.summary() == memory.summary() and len(batches) == len(memory)

    def served(batches):
        padded = (row for batch in batches for row in zip(*(batch[name] for name in columns), strict=True))
        return sorted(tuple(tuple(ids[ids != 0].tolist()) for ids in row) for row in padded if np.any(row))

    assert served(batches.dataset().as_numpy_iterator()) == served(memory) == sorted(tuple(map(tuple, r)) for r in rows)


def test_some_of_the_columns(records):
    """The others count in the choice of the bucket, and are left out."""
    batches = RecordBatches(records, 24, (6, 12), columns={"text": "targets"})
    assert batches.shapes == batches_of(records, 24, (6, 12)).shapes and list(batches.num_tokens) == ["text"]
    assert sum(np.count_nonzero(batch["text"]) for batch in batches) == batches.num_tokens["text"]
    with refused("columns", "'sources'"):
        RecordBatches(records, columns={"text": "sources"})


def test_no_batch_or_no_example_fits(records, tmp_path):
    with refused("tokens_per_batch", "0 x 12"):
        RecordBatches(records, 11, (12,))
    with refused("bucket_lengths", (1,)):
        RecordBatches(make(tmp_path, [([4, 3], [4, 3])], shards=1), bucket_lengths=(1,))


ORDER = {
    0: [[9, 18], [6, 12], [5, 11], [13, 4], [3, 16, 10, 17], [3, 20], [15, 8, 3, 23], [19, 0], [22, 0, 0, 0]],
    5: [[6, 4], [19, 9], [16, 3, 10, 22], [12, 5], [15, 17, 3, 8], [11, 18], [13, 3], [23, 0, 0, 0], [20, 0]],
}


def test_the_order_is_that_of_the_first_version(tmp_path):
    """A run that was begun with it goes on with the same batches."""
    rows = [([i] * (i % 5) + [3], [i] * (i % 7) + [3]) for i in range(4, 24)]
    batches = batches_of(make(tmp_path, rows, shards=3), 16, (4, 8), seed=3, buffer=9)
    for batches.epoch, order in ORDER.items():
        assert [labels[:, 0].tolist() for _, labels, _ in batches] == order
