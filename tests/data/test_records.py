import functools
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import (
    ParallelCorpus,
    Records,
    Sentences,
    begin_records,
    describe_shard,
    write_records,
    write_shard,
)
from keras_headattn.data._shards import read_blocks
from recipes.translate.cleaning import CleaningReport, clean_pairs
from tests.refusals import refused

COLUMNS = "inputs", "targets"


def corpus(number, name="demo"):
    """Sentences of 1 to 6 words, each the number of the line; every tenth source is empty."""
    source = ["" if i % 10 == 9 else f"{i} " * (i % 6 + 1) for i in range(number)]
    return ParallelCorpus(source, [f"{i} " * (i % 4 + 1) for i in range(number)], name)


def encode(pairs):
    """Ids from 4 on, and the end symbol."""
    sides = zip(*pairs, strict=True)
    ids = ([np.array([int(word) + 4 for word in text.split()] + [3]) for text in side] for side in sides)
    return dict(zip(COLUMNS, ids, strict=True))


def clean(report=None):
    return functools.partial(clean_pairs, report=report or CleaningReport("demo"), max_words=5)


def write(folder, number=50, encode=encode, report=None, **options):
    begin_records(folder, {"vocabulary": "a"})
    return write_records(folder, corpus(number), COLUMNS, encode, clean(report), shard_lines=20, **options)


def content(records):
    paths = [str(records.folder / shard["name"]) for shard in records.shards]
    return [
        tuple(map(tuple, row))
        for block in read_blocks(paths, records.columns, 7)
        for row in zip(*(column.to_list() for column in block.values()), strict=True)
    ]


def expected(number=50):
    kept = [pair for pair in corpus(number) if 0 < len(pair[0].split()) <= 5]
    return [tuple(map(tuple, pair)) for pair in zip(*encode(kept).values(), strict=True)]


def test_records_hold_the_cleaned_corpus(tmp_path):
    done, report = [], CleaningReport("demo")
    records = write(tmp_path, report=report, progress=done.append)
    assert content(records) == expected()
    assert [shard["name"] for shard in records.shards] == [f"shard-0000{i}.tfrecord" for i in range(3)]
    assert report.total == 50 and report.counts == {"empty_source": 5, "too_long": 7}
    assert done[-1] == 50 and done == sorted(done)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.json", *(s["name"] for s in records.shards)]


def test_the_manifest_counts(tmp_path):
    records = write(tmp_path)
    pairs = expected()
    manifest = json.loads((tmp_path / "corpus.json").read_text())
    assert manifest["made_of"] == {"vocabulary": "a"} and manifest["examples"] == len(pairs)
    assert manifest["tokens"]["inputs"] == sum(len(source) for source, _ in pairs)
    assert sum(shard["examples"] for shard in records.shards) == len(pairs)
    histogram = records.histogram()
    for length in range(1, 8):
        there = [(s, t) for s, t in pairs if max(len(s), len(t)) == length]
        assert histogram["examples"][histogram["length"] == length].sum() == len(there)
        tokens = histogram["tokens"]["targets"][histogram["length"] == length]
        assert tokens.sum() == sum(len(t) for _, t in there)


@pytest.mark.parametrize("columns", [("ids",), ("title", "entities", "text")])
def test_any_number_of_columns(tmp_path, columns):
    rows = [[[i + 1] * ((i + k) % 4) for k in range(len(columns))] for i in range(30)]
    folder = str(tmp_path)
    begin_records(folder, {})
    encode = lambda some: {name: [row[k] for row in some] for k, name in enumerate(columns)}  # noqa: E731
    records = write_records(folder, rows, columns, encode)
    assert content(records) == [tuple(map(tuple, row)) for row in rows] and records.columns == list(columns)
    histogram = records.histogram()
    lengths = np.array([[len(ids) for ids in row] for row in rows])
    assert histogram["length"].tolist() == sorted({*lengths.max(axis=1)})
    assert histogram["examples"].tolist() == np.unique(lengths.max(axis=1), return_counts=True)[1].tolist()
    for name, of_rows in zip(columns, lengths.T, strict=True):
        assert histogram["tokens"][name].sum() == of_rows.sum() == records.manifest["tokens"][name]


def test_the_encoder_must_return_the_columns(tmp_path):
    with refused("encode", "source"):
        write(tmp_path, encode=lambda pairs: {"source": [[3]] * len(pairs)})


def test_going_on_after_an_error_writes_only_what_is_missing(tmp_path):
    def failing(pairs):
        if any(int(source.split()[0]) > 30 for source, _ in pairs):
            raise RuntimeError("power cut")
        return encode(pairs)

    with pytest.raises(RuntimeError):
        write(tmp_path, encode=failing)
    with pytest.raises(FileNotFoundError, match="no corpus.json"):
        Records(tmp_path)
    first = tmp_path / "shard-00000.tfrecord"
    assert [path.name for path in tmp_path.glob("shard-*")] == [first.name]
    before = first.stat().st_mtime_ns
    encoded, report = [], CleaningReport("demo")
    records = write(tmp_path, encode=lambda pairs: encoded.extend(pairs) or encode(pairs), report=report)
    assert content(records) == expected() and report.total == 50
    assert first.stat().st_mtime_ns == before
    assert len(encoded) == sum(shard["examples"] for shard in records.shards[1:])


def test_going_on_after_a_kill(tmp_path):
    """The process is killed by the system while it writes."""
    code = f"""
import sys, time
sys.path[:0] = {sys.path!r}
from tests.data.test_records import *
def slow(pairs):
    time.sleep(1000 if int(pairs[0][0].split()[0]) >= 20 else 0)
    return encode(pairs)
import pathlib
write(pathlib.Path({str(tmp_path)!r}), encode=slow)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (tmp_path / "shard-00000.tfrecord").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, process.stderr.read().decode()
    process.stderr.close()
    assert content(write(tmp_path)) == expected()
    assert not list(tmp_path.glob(".*"))


def test_a_half_shard_is_written_again(tmp_path):
    begin_records(tmp_path, {"vocabulary": "a"})
    write_shard(tmp_path / "shard-00000.tfrecord", [{"inputs": [5, 3], "targets": [6, 3]}])
    whole = (tmp_path / "shard-00000.tfrecord").read_bytes()
    (tmp_path / "shard-00000.tfrecord").write_bytes(whole[:-3])
    assert content(write(tmp_path)) == expected()


def test_other_text_is_refused(tmp_path):
    begin_records(tmp_path, {"vocabulary": "a"})
    write_shard(tmp_path / "shard-00000.tfrecord", [{"inputs": [5, 3], "targets": [6, 3]}])
    with refused("shard-00000", "15 lines instead of 1"):
        write(tmp_path)


def test_other_settings_are_refused(tmp_path):
    begin_records(tmp_path, {"max_words": 5})
    with refused("settings", "max_words=5 (now 6)"):
        begin_records(tmp_path, {"max_words": 6})
    begin_records(tmp_path, {"vocabulary": "a"})
    write(tmp_path)
    with refused("settings", "vocabulary='a' (now 'b')"):
        begin_records(tmp_path, {"max_words": 5, "vocabulary": "b"})


def test_a_flipped_byte_is_found_and_named(tmp_path):
    records = write(tmp_path)
    assert records.faults() == {}
    path = tmp_path / "shard-00001.tfrecord"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert records.faults() == {"shard-00001.tfrecord": "damaged: another checksum"}
    with pytest.raises(ValueError, match="damaged. Received: .*shard-00001"):
        describe_shard(path, COLUMNS)
    with pytest.raises(ValueError, match="damaged. Received: .*shard-00001"):
        content(records)  # of several files, of which TensorFlow does not say which
    path.write_bytes(bytes(10**6))
    with pytest.raises(ValueError, match="damaged. Received: .*shard-00001"):
        describe_shard(path, COLUMNS)
    path.unlink()
    (tmp_path / "shard-00002.tfrecord").write_bytes(b"")
    done = []
    assert list(records.faults(done.append)) == ["shard-00001.tfrecord", "shard-00002.tfrecord"] and done == [1, 2, 3]
    records.reopen(records.faults())
    again = write(tmp_path)
    assert content(again) == expected() and again.manifest == records.manifest


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/shard-00000.tfrecord", "..", "", "a/b"])
def test_shards_lie_in_their_folder(tmp_path, name):
    """`reopen` would remove such a file."""
    write(tmp_path / "records")
    path = tmp_path / "records" / "corpus.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][0]["name"] = name
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=f"a file in the folder, not '{name}'. Received: .*corpus.json"):
        Records(tmp_path / "records")


def shard(**histogram):
    return {"name": "a", "examples": 2, "histogram": {"length": [1], "examples": [2], "tokens": {}} | histogram}


@pytest.mark.parametrize("change", [
    {"shards": None}, {"shards": [5]}, {"columns": ["other"]}, {"columns": 5}, {"shards": [{"name": "a"}]},
    {"columns": [], "shards": [shard(examples=[-2])]}, {"columns": [], "shards": [shard(length=[1, 2])]},
    {"columns": [], "shards": [shard(examples=[1])]}, {"columns": [], "shards": [shard(length=[10**30])]},
])  # fmt: skip
def test_a_damaged_manifest_is_named(tmp_path, change):
    manifest = write(tmp_path).manifest
    for text in (json.dumps(manifest | change), "[1]", "{}", "5", "[" * 100_000, json.dumps(manifest)[:-9]):
        (tmp_path / "corpus.json").write_text(text)
        with pytest.raises(ValueError, match="corpus.json"):
            Records(tmp_path)
    for text in ("[1]", "{}", "[" * 100_000):
        (tmp_path / "corpus.json").write_text(text)
        with pytest.raises(ValueError, match="corpus.json"):
            begin_records(tmp_path, {"vocabulary": "a"})


def test_nothing_left(tmp_path):
    begin_records(tmp_path, {})
    with refused("No line", 2):
        write_records(tmp_path, ParallelCorpus(["", ""], ["a", "b"], "demo"), COLUMNS, encode, clean())
    assert not (tmp_path / "corpus.json").exists()


def test_few_lines_are_held_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_headattn.data._records.ENCODED_TOGETHER", 50)
    held, most = 0, 0

    class Line(str):
        def __init__(self, text):
            nonlocal held, most
            held, most = held + 1, max(most, held + 1)

        def __del__(self):
            nonlocal held
            held -= 1

    lines = Sentences(lambda: (Line(f"{i}") for i in range(600)))
    begin_records(tmp_path, {})
    some = ParallelCorpus(lines, lines, "made")
    encode = lambda pairs: dict.fromkeys(COLUMNS, [[3]] * len(pairs))  # noqa: E731
    records = write_records(tmp_path, some, COLUMNS, encode, clean(), 200)
    assert records.manifest["examples"] == 600 and held < 10
    assert most < 2 * (50 + 50) + 10  # both sides of the pairs that are encoded together, and of those before


def test_a_shard_of_tensor2tensor(shared_data):
    folder = shared_data / "wmt_ende_t2t_shard"
    shard = describe_shard(folder / "translate_ende_wmt32k-train-00511-of-00512", COLUMNS)
    assert shard["examples"] == 8_941
    block, *_ = read_blocks([str(folder / "translate_ende_wmt32k-train-00511-of-00512")], COLUMNS, 8)
    assert isinstance(block["inputs"], tf.RaggedTensor)
    assert all(ids[-1] == 1 for column in block.values() for ids in column.to_list())
