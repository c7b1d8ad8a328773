import itertools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.data import RecordBatches, Records, TokenBatches
from keras_headattn.data._records import HISTOGRAM, MANIFEST, describe_shard, write_shard
from keras_headattn.training import Model, Resume


def pairs(number):
    """Pairs of 1 to 12 tokens; the first id of both sides is the number of the pair (from 4 on)."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 13, (number, 2))
    return [([i] * (m - 1) + [3], [i] * (n - 1) + [3]) for i, (m, n) in enumerate(lengths.tolist(), 4)]


def make(folder, number=150, shards=5):
    """Records of `pairs(number)`, in shards of about the same size."""
    folder.mkdir(exist_ok=True)
    described = []
    for i in range(shards):
        write_shard(folder / f"shard-{i}", pairs(number)[i::shards])
        described.append(describe_shard(folder / f"shard-{i}"))
    (folder / MANIFEST).write_text(json.dumps({"made_of": {}, "shards": described}))
    return Records(folder)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return make(tmp_path_factory.mktemp("records"))


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
    memory = TokenBatches(*zip(*pairs(150), strict=True), *arguments)
    batches = RecordBatches(records, *arguments, buffer=buffer)
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
        batches = RecordBatches(records, 24, (6, 12), seed=seed, buffer=buffer)
        batches.epoch = epoch
        return np.concatenate([labels[:, 0] for _, labels, _ in batches]).tolist()

    assert order(0, 1) == order(0, 1)
    orders = [order(0, 0), order(0, 1), order(1, 0), sorted(order(0, 0))]
    assert not any(a == b for a, b in itertools.combinations(orders, 2))


def test_too_long_pairs_are_left_out(records):
    batches = RecordBatches(records, 24, (4, 8))
    short = [pair for pair in pairs(150) if max(map(len, pair)) <= 8]
    assert batches.num_dropped == 150 - len(short)
    assert sentences(batches) == sorted(tuple(map(tuple, pair)) for pair in short)
    assert batches.num_tokens == tuple(sum(map(len, side)) for side in zip(*short, strict=True))


@pytest.mark.parametrize("num_workers", [2, 3])
def test_workers_share_the_corpus(records, num_workers):
    arguments = dict(tokens_per_batch=24, bucket_lengths=(6, 12), num_workers=num_workers)
    workers = [RecordBatches(records, worker=worker, **arguments) for worker in range(num_workers)]
    assert len({len(batches) for batches in workers}) == 1
    parts = []
    for batches in workers:
        served = list(batches)
        assert len(served) == len(batches)
        assert all(labels.any() or not weight.any() for _, labels, weight in served)
        parts.append(sentences(served))
    assert sorted(itertools.chain(*parts)) == sorted(tuple(map(tuple, pair)) for pair in pairs(150))
    assert sum(batches.num_tokens[1] for batches in workers) == RecordBatches(records).num_tokens[1]


def test_the_dataset_serves_the_epoch_that_is_set(records):
    batches = RecordBatches(records, 24, (6, 12), buffer=40)
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
        batches = RecordBatches(records, 96, (12,), buffer=40)
        resume = Resume(folder, batches, every=4)
        model.fit(batches.dataset(), epochs=2, shuffle=False, verbose=0, callbacks=[resume, *callbacks])
        return model.get_weights()

    per_epoch = len(RecordBatches(records, 96, (12,)))
    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", Stop())
    keras.tree.map_structure(np.testing.assert_array_equal, whole, train(tmp_path / "stopped"))


def test_each_input_pipeline_reads_its_part(records):
    """How workers read: `fit` takes what the strategy makes of a function of the pipeline."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    seen = []

    class Recorder(keras.Model):
        def call(self, inputs):
            return inputs["target"]

        def train_step(self, data):
            seen.extend(data[1].numpy()[:, 0])
            return {"rows": len(data[1])}

    def pipeline(context):
        workers = dict(num_workers=context.num_input_pipelines, worker=context.input_pipeline_id)
        return RecordBatches(records, 24, (6, 12), **workers).dataset()

    with strategy.scope():
        model = Recorder()
        model.compile(run_eagerly=True)
    model.fit(strategy.distribute_datasets_from_function(pipeline), shuffle=False, verbose=0)
    assert np.count_nonzero(seen) == 150


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(tokens_per_batch=11, bucket_lengths=(12,)), "at least 12.*Received: tokens_per_batch=11"),
        (dict(bucket_lengths=(1,), tokens_per_batch=0), "at least 1"),
        (dict(num_workers=6), "Received: worker=0, num_workers=6 for 5 shards"),
        (dict(num_workers=2, worker=2), "worker=2"),
    ],
)
def test_bad_input(records, arguments, message):
    with pytest.raises(ValueError, match=message):
        RecordBatches(records, **arguments)


def test_no_pair_fits(tmp_path):
    write_shard(tmp_path / "shard", [([4, 3], [4, 3])])
    shard = describe_shard(tmp_path / "shard")
    assert set(shard["histogram"]) == set(HISTOGRAM)
    (tmp_path / MANIFEST).write_text(json.dumps({"made_of": {}, "shards": [shard]}))
    with pytest.raises(ValueError, match=r"All 1 .* longer.*Received: bucket_lengths=\(1,\)"):
        RecordBatches(Records(tmp_path), bucket_lengths=(1,))
