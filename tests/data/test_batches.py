import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_headattn.data import TokenBatches, teacher_forcing
from tests.buffers import keeps_buffers
from tests.refusals import refused

LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)


def pairs(lengths):
    """Sentence pairs of these lengths; the first id of both sides is the number of the pair (from 4 on)."""
    sides = zip(*([np.array([i] * (n - 1) + [3]) for n in pair] for i, pair in enumerate(lengths, 4)), strict=True)
    return dict(zip(("source", "target"), map(list, sides), strict=True))


def batches_of(columns, *arguments, **options):
    return TokenBatches(columns, *arguments, preprocess=teacher_forcing, **options)


def mirrored():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def sentences(array):
    return sorted(tuple(row[row != 0].tolist()) for row in array if row.any())


@settings(max_examples=80, deadline=None)
@given(LENGTHS, st.integers(1, 3), st.booleans(), st.integers(0, 5), st.data())
def test_batches(lengths, num_replicas, shuffle, seed, data):
    columns = pairs(lengths)
    buckets = tuple(sorted(data.draw(st.sets(st.integers(1, 11), max_size=3)))) + (12,)
    tokens = data.draw(st.integers(12 * num_replicas, 100))
    args = dict(bucket_lengths=buckets, num_replicas=num_replicas, shuffle=shuffle, seed=seed)
    batches, same = batches_of(columns, tokens, **args), batches_of(columns, tokens, **args)
    for epoch in range(2):
        served = list(batches)
        same.epoch = epoch
        assert same.num_batches == len(served)
        seen_source, seen_target = [], []
        for batch, again in zip(served, same, strict=True):
            keras.tree.map_structure(np.testing.assert_array_equal, batch, again)
            inputs, labels, weight = batch
            assert labels.shape in batches.shapes
            assert labels.shape == inputs["source"].shape == inputs["target"].shape == weight.shape
            assert labels.dtype == inputs["source"].dtype == inputs["target"].dtype == "int32"
            assert labels.shape[0] % num_replicas == 0 and labels.size <= tokens
            assert weight.dtype == "float32" and abs(weight.mean(dtype="float64") - 1) < 1e-6
            assert not weight[labels == 0].any() and len(np.unique(weight[labels != 0])) == 1
            rows = labels.any(axis=1)
            assert (inputs["target"][rows, 0] == 2).all() and not inputs["target"][~rows].any()
            seen_source += sentences(inputs["source"])
            seen_target += sentences(labels)
        assert sorted(seen_source) == sorted(tuple(ids.tolist()) for ids in columns["source"])
        assert sorted(seen_target) == sorted(tuple(ids.tolist()) for ids in columns["target"])
        batches.on_epoch_end()


@settings(max_examples=30, deadline=None)
@given(LENGTHS)
def test_figures_count_what_is_served(lengths):
    batches = batches_of(pairs(lengths), tokens_per_batch=40, bucket_lengths=(4, 7, 12))
    source = np.concatenate([inputs["source"].ravel() for inputs, _, _ in batches])
    target = np.concatenate([labels.ravel() for _, labels, _ in batches])
    assert batches.num_tokens == {"source": np.count_nonzero(source), "target": np.count_nonzero(target)}
    assert batches.padding_share == pytest.approx({"source": np.mean(source == 0), "target": np.mean(target == 0)})
    assert set(batches.shapes) == {labels.shape for _, labels, _ in batches}


def test_decoder_input_is_shifted_by_one():
    columns = {"source": [[7, 3]], "target": [[4, 5, 6, 3]]}
    inputs, labels, weight = batches_of(columns, 12, bucket_lengths=(6,))[0]
    assert inputs["source"].tolist() == [[7, 3, 0, 0, 0, 0], [0] * 6]
    assert inputs["target"].tolist() == [[2, 4, 5, 6, 0, 0], [0] * 6]
    assert labels.tolist() == [[4, 5, 6, 3, 0, 0], [0] * 6]
    assert weight.tolist() == [[3, 3, 3, 3, 0, 0], [0] * 6]


def test_weights_give_the_global_token_mean_on_any_split():
    batches = batches_of(pairs([(2, 2), (9, 9), (3, 1), (5, 8)]), 80, (10,), num_replicas=2)
    _, labels, weight = batches[0]
    losses = np.random.default_rng(0).random(labels.shape)
    token_mean = losses[labels != 0].mean()
    per_replica = [np.mean(part) for part in np.split(losses * weight, 2)]
    np.testing.assert_allclose(np.mean(per_replica), token_mean, rtol=1e-6)


def test_epochs_differ_and_unshuffled_ones_do_not():
    data = pairs([(3, 4)] * 50)
    shuffled = batches_of(data, 40, (4,))
    first = shuffled[0][1]
    shuffled.on_epoch_end()
    assert shuffled.epoch == 1 and not np.array_equal(first, shuffled[0][1])
    assert not np.array_equal(first, batches_of(data, 40, (4,), seed=1)[0][1])
    plain = batches_of(data, 40, (4,), shuffle=False)
    assert plain[0][1][:, 0].tolist() == list(range(4, 14))
    plain.on_epoch_end()
    assert plain[0][1][:, 0].tolist() == list(range(4, 14))


def test_first_two_batches_differ_in_shape():
    for seed in range(20):
        batches = batches_of(pairs([(3, 3)] * 40 + [(9, 9)]), 16, (4, 16), seed=seed)
        assert batches[0][1].shape != batches[1][1].shape


@pytest.mark.parametrize("shuffle", [True, False])
def test_fit_compiles_once_per_shape(shuffle):
    """Through Keras's own adapter, whose tf.data signature must allow every bucket."""
    batches = batches_of(pairs([(3, 3)] * 30 + [(7, 6)] * 9 + [(12, 12)]), 40, (4, 8, 12), shuffle=shuffle)
    traced = []

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding, self.logits = keras.layers.Embedding(50, 4), keras.layers.Dense(50)

        def call(self, inputs):
            traced.append(inputs["source"].shape)
            return self.logits(self.embedding(inputs["source"]) + self.embedding(inputs["target"]))

    model = Model()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss, jit_compile=True)
    # Keras calls `on_epoch_end` before the first epoch too.
    in_order = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: setattr(batches, "epoch", epoch))
    history = model.fit(batches, epochs=2, callbacks=[in_order], verbose=0)
    assert len(set(traced)) <= 1 + len(batches.shapes)
    # The learning rate is 0: every loss is that of the final weights. Keras averages batches by rows.
    for batches.epoch, reported in enumerate(history.history["loss"]):
        losses, rows = [], []
        for inputs, labels, _ in batches:
            by_token = keras.losses.sparse_categorical_crossentropy(labels, model(inputs), from_logits=True)
            losses.append(np.mean(np.asarray(by_token)[labels != 0]))
            rows.append(len(labels))
        np.testing.assert_allclose(reported, np.average(losses, weights=rows), rtol=1e-5)


def test_two_replicas_get_the_loss_of_one():
    batches = batches_of(pairs([(3, 2), (3, 3), (7, 1), (7, 6), (12, 12)]), 48, (4, 12), num_replicas=2)

    def loss():
        keras.utils.set_random_seed(1)
        inputs = {name: keras.Input([None], dtype="int32", name=name) for name in ("source", "target")}
        embedded = [keras.layers.Embedding(50, 4)(ids) for ids in inputs.values()]
        model = keras.Model(inputs, keras.layers.Dense(50)(keras.layers.add(embedded)))
        model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
        return model.evaluate(batches, verbose=0)

    alone = loss()
    with mirrored().scope():
        np.testing.assert_allclose(loss(), alone, rtol=1e-5)


def test_too_long_examples_are_counted_and_left_out():
    data = pairs([(3, 3), (3, 9), (10, 3)])
    batches = batches_of(data, 20, (4,))
    assert batches.num_dropped == 2 and batches.num_examples == 1 and batches.num_tokens == {"source": 3, "target": 3}
    assert "1 examples in 1 batches an epoch (2 longer than 4 tokens left out)" in batches.summary()
    with refused("all 2 are longer", (4,)):
        batches_of({name: column[1:] for name, column in data.items()}, 20, (4,))


def test_summary():
    batches = batches_of(pairs([(3, 3)] * 30 + [(7, 6)] * 9), 40, (4, 8, 16))
    assert batches.summary().splitlines() == [
        "39 examples in 5 batches an epoch (0 longer than 16 tokens left out)",
        "tokens: source 153, target 144",
        "padding: source 23.5%, target 28.0%",
        "shapes (rows x length): 10 x 4, 5 x 8",
    ]


@pytest.mark.parametrize("names", [("ids",), ("title", "entities", "text")])
def test_any_number_of_columns(names):
    """Each is padded to the length of the longest of its example; the batch is the dictionary of them."""
    rng = np.random.default_rng(0)
    columns = {name: [rng.integers(1, 99, n) for n in rng.integers(1, 13, 40)] for name in names}
    batches = TokenBatches(columns, 24, (4, 12), num_replicas=2)
    assert list(batches.num_tokens) == list(batches.padding_share) == list(names) == list(batches[0])
    rows = [
        tuple(tuple(ids[ids != 0].tolist()) for ids in row)
        for batch in batches.dataset().as_numpy_iterator()
        for row in zip(*(batch[name] for name in names), strict=True)
        if any(map(np.any, row))
    ]
    assert sorted(rows) == sorted(zip(*([tuple(ids.tolist()) for ids in columns[name]] for name in names), strict=True))
    for batch in batches:
        longest = max(max(np.count_nonzero(ids, axis=1).max() for ids in batch.values()), 1)
        assert {ids.shape for ids in batch.values()} == {(6, 4) if longest <= 4 else (2, 12)}


def test_other_columns_are_inputs_of_a_decoder():
    columns = {"title": [[7, 8, 3]], "entities": [[9]], "text": [[4, 3]]}
    forcing = functools.partial(teacher_forcing, target="text", bos_id=1)
    inputs, labels, weight = TokenBatches(columns, 3, (3,), preprocess=forcing)[0]
    assert {name: ids.tolist() for name, ids in inputs.items()} == {
        "title": [[7, 8, 3]],
        "entities": [[9, 0, 0]],
        "text": [[1, 4, 0]],
    }
    assert labels.tolist() == [[4, 3, 0]] and weight.tolist() == [[1.5, 1.5, 0]]


def test_the_loss_of_evaluation_is_the_mean_over_tokens():
    columns = {"source": [[9]] * 9, "target": [[4] * size for size in (1, 1, 2, 3, 3, 3, 7, 8, 8)]}
    batches = TokenBatches(columns, 8, (4, 8), shuffle=False)
    assert batches.num_rows == 3 * 2 + 3 * 1
    tokens_per_row = batches.num_tokens["target"] / batches.num_rows
    batches.preprocess = functools.partial(teacher_forcing, tokens_per_row=tokens_per_row)
    total = sum((weights * (labels == 4)).mean() * len(weights) for _, labels, weights in batches)
    assert total / batches.num_rows == pytest.approx(1)
    assert len({float(weights.max() / weights.shape[1]) for _, _, weights in batches}) == 1


ORDER = {
    0: [[17, 10], [3, 3, 0, 0], [16, 22], [9, 23], [13, 8], [15, 3], [14, 5, 6, 21], [20, 12, 7, 19]],
    5: [[8, 13], [7, 3, 21, 20], [22, 15], [3, 10], [14, 12, 6, 3], [17, 23], [5, 19, 0, 0], [9, 16]],
}


def test_the_order_is_that_of_the_first_version():
    """A run that was begun with it goes on with the same batches."""
    batches = batches_of(pairs([(i % 5 + 1, i % 7 + 1) for i in range(20)]), 16, (4, 8), seed=3)
    for batches.epoch, order in ORDER.items():
        assert [labels[:, 0].tolist() for _, labels, _ in batches] == order


@pytest.mark.parametrize(
    "use", [lambda batches: next(iter(batches.dataset())), lambda batches: batches[0]], ids=["dataset", "index"]
)
def test_glibc_keeps_freed_buffers(use):
    batches = batches_of(pairs([(3, 3)]), 12, bucket_lengths=(12,))
    assert keeps_buffers(lambda: use(batches))
