"""Sequences for pre-training: written by any number of processes, and read in epochs of a number of steps."""

import contextlib
import json
import pathlib
import tracemalloc

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import Records, begin_records, write_shard
from keras_headattn.text import WordPieceTokenizer
from keras_headattn.training import Model, Resume
from recipes.pretrain.batches import SequenceBatches, read_held_out
from recipes.pretrain.documents import Documents
from recipes.pretrain.packing import pack_lines
from recipes.pretrain.records import adopt_sequences, write_sequences
from tests.refusals import refused

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LENGTH = 16


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer([*SPECIALS, *map(str, range(200))])


def text(documents=40):
    """Documents of 3 to 9 lines of up to 9 numbers."""
    rng = np.random.default_rng(0)
    for _ in range(documents):
        for _ in range(rng.integers(3, 10)):
            yield " ".join(map(str, rng.integers(0, 200, rng.integers(1, 10))))
        yield ""


def write(folder, tokenizer, lines=None, **options):
    begin_records(folder, {"text": "numbers"})
    options = dict(max_length=LENGTH, shard_size=900) | options
    return write_sequences(folder, text() if lines is None else lines, tokenizer, **options)


@pytest.fixture(scope="module")
def records(tmp_path_factory, tokenizer):
    return write(tmp_path_factory.mktemp("records"), tokenizer)


def rows(records):
    """All that was written: dictionary of columns, arrays (number of sequences, L)."""
    features = {name: tf.io.FixedLenFeature((LENGTH,), tf.int64) for name in ("input_ids", "input_mask", "segment_ids")}
    paths = [str(records.folder / shard["name"]) for shard in records.shards]
    parsed = tf.io.parse_example(list(tf.data.TFRecordDataset(paths)), features)
    return {name: values.numpy() for name, values in parsed.items()}


def content(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).glob("*") if path.is_file()}


def test_records_are_those_of_the_original_program(records):
    """Its feature names and its padding; the mask is where ids are."""
    found = rows(records)
    np.testing.assert_array_equal(found["input_mask"], found["input_ids"] != 0)
    assert set(found["input_ids"][:, 0]) == {2}
    ends = found["input_ids"] == 3
    assert set(ends.sum(axis=1)) == {1, 2}
    second = (np.cumsum(ends, axis=1) - ends) * found["input_mask"]  # after the first [SEP]
    np.testing.assert_array_equal(found["segment_ids"], second)


def test_each_shard_is_packed_by_its_own_numbers(records, tokenizer):
    """The first shard: whole documents of at least 900 characters."""
    lines, held = [], 0
    for line in text():
        lines.append([int(word) + 5 for word in line.split()] if line else None)
        held += len(line)
        if held >= 900 and not line:
            break
    expected = list(pack_lines(lines, LENGTH, np.random.default_rng([0, 0])))
    assert records.shards[0]["examples"] == len(expected)
    for row, (first, second) in zip(rows(records)["input_ids"], expected, strict=False):
        ids = [2, *first, 3] + ([*second, 3] if second else [])
        assert row.tolist() == ids + [0] * (LENGTH - len(ids))


def test_the_manifest_counts(records):
    found, manifest = rows(records), json.loads((records.folder / "corpus.json").read_text())
    assert manifest["examples"] == len(found["input_ids"])
    assert manifest["tokens"]["input_ids"] == (found["input_ids"] != 0).sum()
    assert manifest["tokens"]["segment_ids"] == found["segment_ids"].sum()
    assert sum(shard["pairs"] for shard in manifest["shards"]) == found["segment_ids"].any(axis=1).sum()
    histogram, lengths = records.histogram(), (found["input_ids"] != 0).sum(axis=1)
    for length in set(lengths):
        assert histogram["examples"][histogram["length"] == length].sum() == (lengths == length).sum()
    made_of = {"text": "numbers", "max_length": LENGTH, "seed": 0, "shard_size": 900}
    assert manifest["made_of"] == made_of


def test_any_number_of_processes_writes_the_same_files(records, tokenizer, tmp_path):
    done = []
    write(tmp_path, tokenizer, processes=3, progress=done.append)
    assert content(tmp_path) == content(records.folder)
    assert done == list(range(1, len(records.shards) + 1)) and len(done) > 3


def test_going_on_writes_only_what_is_missing(records, tokenizer, tmp_path):
    def failing():
        for number, line in enumerate(text()):
            if number == 120:
                raise RuntimeError("power cut")
            yield line

    with pytest.raises(RuntimeError):
        write(tmp_path, tokenizer, failing())
    with pytest.raises(FileNotFoundError, match="no corpus.json"):
        Records(tmp_path)
    names = sorted(path.name for path in tmp_path.glob("shard-*"))
    assert names and names[-1] < records.shards[-1]["name"]
    (tmp_path / names[0]).write_bytes((tmp_path / names[0]).read_bytes()[:-3])
    (tmp_path / ".shard-00009.0123abcd.tfrecord").touch()
    before = [(tmp_path / name).stat().st_mtime_ns for name in names]
    write(tmp_path, tokenizer)
    after = [(tmp_path / name).stat().st_mtime_ns for name in names]
    assert after[1:] == before[1:] and after[0] != before[0]
    assert content(tmp_path) == content(records.folder)


def test_a_full_disk_loses_nothing(records, tokenizer, tmp_path, monkeypatch):
    full = [False, False, True]

    @contextlib.contextmanager
    def path_on_a_full_disk(path):
        if full.pop(0):
            yield pathlib.Path("/dev/full")
        else:
            yield path

    with monkeypatch.context() as patch:
        patch.setattr("keras_headattn.data._shards.atomic_path", path_on_a_full_disk)
        with refused("written", tmp_path / "shard-00002", OSError):
            write(tmp_path, tokenizer)
    assert sorted(path.name for path in tmp_path.glob("shard-*")) == ["shard-00000.tfrecord", "shard-00001.tfrecord"]
    write(tmp_path, tokenizer)
    assert content(tmp_path) == content(records.folder)


@pytest.mark.parametrize("lines", [[], ["", ""], ["1 2 3", ""], ["\u200b"]])
def test_a_text_that_is_too_short(tokenizer, tmp_path, lines):
    number = 5 if "1 2 3" in lines else 0
    with refused("16 tokens", f"{number} tokens"):
        write(tmp_path, tokenizer, lines)
    assert not (tmp_path / "corpus.json").exists()


def test_a_wrong_tokenizer(tmp_path):
    with refused("tokenizer", "[PAD] as id 4"):
        write(tmp_path, WordPieceTokenizer([*reversed(SPECIALS), "a"]))


def test_a_long_document_is_split(tokenizer, tmp_path):
    records = write(tmp_path, tokenizer, ["1 2 3 4 5 6 7 8"] * 600)
    assert len(records.shards) > 3 and {shard["examples"] for shard in records.shards[:-1]} <= set(range(40, 80))


def test_records_of_another_program_are_adopted(records, tmp_path):
    """Named as ELECTRA's program names them."""
    for number, shard in enumerate(records.shards):
        path = tmp_path / f"pretrain_data.tfrecord-{number}-of-{len(records.shards)}"
        path.write_bytes((records.folder / shard["name"]).read_bytes())
    begin_records(tmp_path, {"vocab.txt": "a"})
    adopted = adopt_sequences(tmp_path, LENGTH, 205)
    assert adopted.manifest["examples"] == records.manifest["examples"]
    assert adopted.manifest["made_of"] == {"vocab.txt": "a", "max_length": LENGTH}
    np.testing.assert_array_equal(rows(adopted)["input_ids"], rows(records)["input_ids"])
    assert len(list(SequenceBatches(adopted, 4, 2))) == 2


@pytest.mark.parametrize("arguments, name, received", [
    ((8, 205), "8 tokens", "one of 16"), ((16, 60), "60 tokens", "the id"),
])  # fmt: skip
def test_records_that_do_not_fit_are_not_adopted(records, tmp_path, arguments, name, received):
    shard = records.shards[0]["name"]
    (tmp_path / shard).write_bytes((records.folder / shard).read_bytes())
    with refused(name, received):
        adopt_sequences(tmp_path, *arguments)


def test_a_folder_without_records(tmp_path):
    with refused("TFRecord files", tmp_path):
        adopt_sequences(tmp_path, 16, 205)


def served(batches, epochs):
    """Token ids of the sequences of some epochs, in the order in which they come."""
    found = []
    for batches.epoch in epochs:
        of_epoch = list(batches)
        assert len(of_epoch) == len(batches)
        for batch in of_epoch:
            assert {name: (ids.shape, ids.dtype.name) for name, ids in batch.items()} == dict.fromkeys(
                ("token_ids", "segment_ids"), ((batches.batch_size, LENGTH), "int32")
            )
        found += [tuple(row) for batch in of_epoch for row in batch["token_ids"].tolist()]
    return found


@pytest.mark.parametrize("buffer", [40, 10_000])
@pytest.mark.parametrize("steps, held_out", [(4, 0), (7, 12), (150, 12)])
def test_every_sequence_comes_once_a_pass(records, buffer, steps, held_out):
    """Epochs of fewer and of more steps than a pass has."""
    batches = SequenceBatches(records, 8, steps, held_out, buffer=buffer)
    number = batches.num_sequences
    assert number == records.manifest["examples"] - held_out
    epochs = -(-2 * number // (8 * steps))
    found = served(batches, range(epochs))
    kept = sorted(map(tuple, rows(records)["input_ids"].tolist()))
    for row in read_held_out(records, held_out)["token_ids"].tolist():
        kept.remove(tuple(row))
    assert sorted(found[:number]) == sorted(found[number : 2 * number]) == kept
    assert found[:number] != found[number : 2 * number]


@pytest.mark.parametrize("buffer", [40, 10_000])
def test_the_order_is_that_of_seed_and_epoch(records, buffer):
    def order(seed, epoch):
        return served(SequenceBatches(records, 8, 5, seed=seed, buffer=buffer), [epoch])

    assert order(0, 1) == order(0, 1)
    assert len({tuple(order(*which)) for which in ((0, 0), (0, 1), (1, 0), (0, 30))}) == 4


def test_segments_go_with_their_tokens(records):
    found = rows(records)
    known = {
        tuple(ids): tuple(s) for ids, s in zip(found["input_ids"].tolist(), found["segment_ids"].tolist(), strict=True)
    }
    for batch in SequenceBatches(records, 8, 5, buffer=40):
        for ids, segments in zip(batch["token_ids"].tolist(), batch["segment_ids"].tolist(), strict=True):
            assert known[tuple(ids)] == tuple(segments)


def test_what_is_held_out_comes_from_many_shards(records):
    held_out = read_held_out(records, 7)
    assert held_out["token_ids"].shape == held_out["segment_ids"].shape == (7, LENGTH)
    ids = rows(records)["input_ids"].tolist()
    places = [ids.index(row) for row in held_out["token_ids"].tolist()]
    starts = np.cumsum([0] + [shard["examples"] for shard in records.shards])
    assert set(np.searchsorted(starts, places, side="right")) == {1, 2, 3, 4}
    assert read_held_out(records, 0)["token_ids"].shape == (0, LENGTH)
    with refused("left to train on", "held_out=9999"):
        SequenceBatches(records, held_out=9999)


def test_the_dataset_serves_the_epoch_that_is_set(records):
    batches = SequenceBatches(records, 8, 5, buffer=40)
    dataset = batches.dataset()
    assert int(dataset.cardinality()) == 5
    for batches.epoch in (2, 0):
        keras.tree.map_structure(np.testing.assert_array_equal, list(dataset.as_numpy_iterator()), list(batches))
    assert "sequences of 16 tokens (0 held out)" in batches.summary() and "5 steps of 8" in batches.summary()


@pytest.mark.parametrize("buffer", [40, 10_000])
def test_resumed_training_sees_the_same_batches(records, tmp_path, buffer):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if self.model.optimizer.iterations == 13:
                raise KeyboardInterrupt

    def train(folder, *callbacks):
        keras.utils.set_random_seed(1)
        inputs = {name: keras.Input([LENGTH], dtype="int32", name=name) for name in ("token_ids", "segment_ids")}
        embedded = [keras.layers.Embedding(205, 2)(ids) for ids in inputs.values()]
        model = Model(inputs, keras.layers.Dense(1)(keras.layers.add(embedded)))
        model.compile("adam", loss=lambda x, y: keras.ops.mean(keras.ops.square(y - 1)), jit_compile=False)
        batches = SequenceBatches(records, 8, 10, seed=3, buffer=buffer)
        data = batches.dataset().map(lambda batch: (batch, batch["token_ids"]))
        model.fit(data, epochs=2, shuffle=False, verbose=0, callbacks=[Resume(folder, batches, every=4), *callbacks])
        return model.get_weights()

    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", Stop())
    keras.tree.map_structure(np.testing.assert_array_equal, whole, train(tmp_path / "stopped"))


def test_a_damaged_shard_is_named(records, tmp_path):
    for path in records.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "shard-00003.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert Records(tmp_path).faults(checksums=False) == {}
    with pytest.raises(ValueError, match="shard is damaged. Received: .*shard-00003"):
        list(SequenceBatches(Records(tmp_path), 8, 100, buffer=40))
    path.unlink()
    assert Records(tmp_path).faults(checksums=False) == {"shard-00003.tfrecord": "missing"}
    with pytest.raises(ValueError, match="must be a file of TFRecords. Received: .*shard-00003"):
        list(SequenceBatches(Records(tmp_path), 8, 100, buffer=40))


def test_other_records_are_refused(tmp_path):
    write_shard(tmp_path / "shard-0", [{"inputs": [4, 3]}])
    (tmp_path / "corpus.json").write_text(json.dumps({"made_of": {}, "columns": ["inputs"], "shards": []}))
    with refused("sequences", "columns inputs"):
        SequenceBatches(Records(tmp_path))


def test_memory_does_not_grow_with_the_text(tokenizer, tmp_path):
    """Neither writing nor reading holds more than a shard, or a buffer."""

    def peak(function):
        tracemalloc.start()
        function()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    line = " ".join(map(str, range(90)))
    peaks = []
    for number in (400, 400, 4_000):  # the first one fills caches
        folder = tmp_path / str(len(peaks))
        lines = (line if i % 5 else "" for i in range(number))
        written = peak(lambda: write(folder, tokenizer, lines, shard_size=20_000))  # noqa: B023
        batches = SequenceBatches(Records(folder), 8, number // 16, buffer=100)
        assert batches.num_sequences > number // 3
        peaks.append([written, peak(lambda: sum(1 for _ in batches))])  # noqa: B023
    for few, many in zip(*peaks[1:], strict=True):
        assert many < 1.5 * few + 500_000  # the tokens of all the text are 3 MB, and its sequences 1 MB


def test_documents_are_written(tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(text()))
    records = write(tmp_path / "records", tokenizer, Documents(tmp_path / "text.txt"))
    assert records.manifest["examples"] > 50
