"""The text of pre-training as records, by the recipe, without training."""

import contextlib
import dataclasses
import json
import pathlib

import pytest

from keras_headattn.data import Records
from recipes.engine.data import named_apart
from recipes.engine.recipe import named_configs
from recipes.pretrain.__main__ import main
from recipes.pretrain.prepare import prepare, tokenizer_of
from recipes.pretrain.settings import PretrainConfig
from tests.recipes.commands import run_here
from tests.refusals import refused


@pytest.fixture
def config(tmp_path):
    """Settings with two files of 30 documents, of lines of a few words."""
    (tmp_path / "text").mkdir()
    for name in ("a.txt", "b.txt"):
        lines = (f"the {name[0]} number {i} is {i * i}" + "\n" * (i % 6 == 5) for i in range(180))
        (tmp_path / "text" / name).write_text("\n".join(lines))
    return PretrainConfig(
        train=(str(tmp_path / "text"),),
        records=str(tmp_path / "records"),
        vocabulary_size=80,
        max_length=32,
        shard_characters=2_000,
        processes=1,
    )


def options(config, *names):
    given = ((name, getattr(config, name)) for name in ("records", "vocabulary_size", "max_length", "shard_characters"))
    arguments = [text for name, value in given for text in (f"--{name.replace('_', '-')}", str(value))]
    return ["prepare", "--train", *config.train, *arguments, "--processes", "1", *names]


def test_the_command_prepares_finds_and_repairs(config, capsys, tmp_path):
    assert "Give --records" in run_here(main, capsys, "prepare", "--train", *config.train)
    printed = run_here(main, capsys, *options(config))
    records = Records(config.records)
    assert f"{records.manifest['examples']:,} sequences of " in printed and "Packing 0.0 MB of text: " in printed
    assert len(records.shards) > 3 and "word pieces from up to" in printed
    shard = records.folder / "shard-00001.tfrecord"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with refused("prepare", "shard-00001.tfrecord (damaged"):
        prepare(config)
    assert "Written anew: shard-00001.tfrecord" in run_here(main, capsys, *options(config))
    assert shard.read_bytes() == whole
    shard.write_bytes(whole[:-1])
    with refused("prepare", "bytes in place of"):
        prepare(config, checksums=False)


def test_complete_records_need_no_text(config):
    prepare(config)
    pathlib.Path(config.train[0]).rename(config.train[0] + ".away")
    assert prepare(config).manifest["examples"] == prepare(alone(config)).manifest["examples"]


def alone(config, **changed):
    """Settings that name the records and no text."""
    return dataclasses.replace(config, train=(), **changed)


@pytest.mark.parametrize(
    "changed, received",
    [
        (dict(max_length=64), "max_length=32 (now 64)"),
        (dict(packing_seed=1), "seed=0 (now 1)"),
        (dict(lowercase=False), "lowercase=True (now False)"),
        (dict(vocabulary_size=70), "vocabulary_size=80 (now 70)"),
        (dict(whole_files=True), "whole_files=False (now True)"),
        (dict(seed=5, batch_size=7, processes=2), None),
    ],
)
def test_only_settings_of_the_sequences_matter(config, changed, received):
    prepare(config)
    with contextlib.nullcontext() if received is None else refused("settings", received):
        prepare(dataclasses.replace(config, **changed))


def test_another_text_is_refused(config):
    prepare(config)
    with open(pathlib.Path(config.train[0], "a.txt"), "a", encoding="utf-8") as file:
        file.write("one more\n")
    with refused("settings", "bytes="):
        prepare(config)


def test_records_alone_must_fit(config, tmp_path):
    """Records of another length or vocabulary, or without theirs."""
    records = prepare(config)
    with refused("settings", "max_length=32 (now 64)"):
        prepare(alone(config, max_length=64))
    vocabulary = records.folder / "vocab.txt"
    other = tmp_path / "other.txt"
    other.write_bytes(vocabulary.read_bytes() + b"more\n")
    with refused("settings", "vocab.txt='"):
        prepare(alone(config, vocabulary=str(other)))
    vocabulary.write_bytes(other.read_bytes())
    with refused("settings", "vocab.txt='"):
        prepare(alone(config))
    vocabulary.unlink()
    with refused("vocabulary", "without vocab.txt"):
        prepare(alone(config))


def test_a_given_vocabulary(config, tmp_path):
    learnt = tokenizer_of(prepare(config))
    path = tmp_path / "given.txt"
    path.write_text("".join(f"{token}\n" for token in learnt.vocabulary))
    other = dataclasses.replace(config, records=str(tmp_path / "others"), vocabulary=str(path))
    records = prepare(other)
    assert tokenizer_of(records).vocabulary == learnt.vocabulary
    assert [shard["sha256"] for shard in records.shards] == [shard["sha256"] for shard in prepare(config).shards]
    path.write_text("".join(f"{token}\n" for token in learnt.vocabulary if token != "[MASK]"))
    with refused("[MASK]", path):
        prepare(dataclasses.replace(other, records=str(tmp_path / "third")))
    assert not (tmp_path / "third").exists()


def test_records_of_the_original_program(config, tmp_path):
    """They are found without a manifest, by the vocabulary that is given; cased or not."""
    records, there = prepare(config), tmp_path / "pretrain_tfrecords"
    there.mkdir()
    for number, shard in enumerate(records.shards):
        data = (records.folder / shard["name"]).read_bytes()
        (there / f"pretrain_data.tfrecord-{number}-of-9").write_bytes(data)
    config = alone(config, records=str(there), lowercase=False)
    with refused("--vocabulary", there):
        prepare(config)
    given = dataclasses.replace(config, vocabulary=str(records.folder / "vocab.txt"))
    adopted = prepare(given)
    assert adopted.manifest["examples"] == records.manifest["examples"] and not tokenizer_of(adopted).lowercase
    assert prepare(config).manifest == adopted.manifest  # with the vocabulary that is there now


def test_half_records_want_their_text(config):
    prepare(config)
    Records(config.records).reopen(["shard-00000.tfrecord"])
    with pytest.raises(ValueError, match="`prepare` with the text"):
        prepare(alone(config))


@pytest.mark.parametrize(
    "text, message",
    [
        (b"", "The text must have words"),
        (b"\n\n\n", "The text must have words"),
        (b"one two three\n", "must fill a sequence of 32 tokens. Received: 5 tokens"),
        (b"GIF89a\0\0\0", "A text file is needed"),
    ],
)
def test_a_text_that_will_not_do(config, capsys, text, message, tmp_path):
    """It is told in one line."""
    (tmp_path / "text.txt").write_bytes(text)
    config = dataclasses.replace(config, train=(str(tmp_path / "text.txt"),), vocabulary_size=64)
    reported = run_here(main, capsys, *options(config))
    assert reported.startswith("error: ") and message in reported and "\n" not in reported


def test_missing_files(config, capsys):
    config = dataclasses.replace(config, train=("none.txt",))
    assert run_here(main, capsys, *options(config)).startswith("error: No such file")
    assert not pathlib.Path(config.records).exists()
    printed = run_here(main, capsys, *options(config, "--vocabulary", "none.vocab"))
    assert printed.startswith("error: No such file") and "none.vocab" in printed


def test_the_synthetic_text(tmp_path):
    records = prepare(dataclasses.replace(named_configs("pretrain")["number_documents"], records=str(tmp_path)))
    vocabulary = tokenizer_of(records).vocabulary
    assert {"huit", "eight"} & set(vocabulary) and len(vocabulary) <= 600
    assert 100_000 < records.manifest["tokens"]["input_ids"] < 1_000_000
    assert json.loads((tmp_path / "corpus.json").read_text())["made_of"]["text"] == "built_in"


def test_real_text(shared_data, tmp_path):
    """Films of the ERASER benchmark: a tar archive of a document a file."""
    archive = shared_data / "eraser_movies" / "docs.tar.gz"
    vocabulary = next((shared_data / "tokenizers_tftext").rglob("vocab.txt"))
    config = PretrainConfig(train=(str(archive),), records=str(tmp_path), vocabulary=str(vocabulary), processes=1)
    manifest = prepare(config).manifest
    assert 1_500_000 < manifest["tokens"]["input_ids"] < 3_000_000


def test_text_and_records():
    assert PretrainConfig(train=("a",), records="r").data == "train" and PretrainConfig(records="r").data == "records"


def test_test_sets_have_names_of_their_own():
    config = PretrainConfig(train=("a.txt",), test=("b/x.txt", "c/held_out.txt"))
    assert config.names_of_tests == ["held_out", "x", "held_out-2"]
    assert list(named_apart({"x": None, "y": None}, config.names_of_tests)) == ["x-2", "y"]
