"""The training corpus as records, from text to batches, without training."""

import concurrent.futures
import dataclasses
import pathlib
import sys
import time
import types

import pytest

from recipes.engine.config import save_config
from recipes.engine.run import Run, locked
from recipes.translate.__main__ import RECIPE, main
from recipes.translate.batches import make_batches
from recipes.translate.corpora import load_corpora, stream_training
from recipes.translate.prepare import prepare, sample_pairs, take_files
from recipes.translate.settings import TranslateConfig
from recipes.translate.text import check_moses, load_shortlist, make_text
from recipes.translate.train import learn_text
from tests.refusals import refused


@pytest.fixture
def config(tmp_path):
    """Settings with text files of 60 lines, of which every tenth is left out."""
    for side, word in (("en", "the"), ("de", "das")):
        lines = ["" if i % 10 == 9 else f"{word} number {i} " + "x " * (i % 7) for i in range(60)]
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
        (tmp_path / f"valid.{side}").write_text("\n".join(lines[:5]) + "\n")
    files = {
        name: tuple(str(tmp_path / f"{part}.{side}") for side in ("en", "de"))
        for name, part in (("train", "train"), ("validation", "valid"))
    }
    return TranslateConfig(**files, vocabulary_size=60, records=str(tmp_path / "records"), num_buckets=3, max_length=30)


def test_batches_are_those_of_the_text_in_memory(config, tmp_path):
    prepare(config, shard_lines=25)
    corpora = load_corpora(config)
    assert corpora.train is None
    take_files(config.records, ["vocabulary.model"], tmp_path)
    text = make_text(config, None, tmp_path)
    batches, validation = make_batches(config, corpora, text)
    in_memory = dataclasses.replace(config, records=None)
    corpora = load_corpora(in_memory)
    (tmp_path / "run").mkdir()
    own = make_text(
        in_memory, sample_pairs(corpora.train, "train", config.vocabulary_sentences, config.seed), tmp_path / "run"
    )
    others, _ = make_batches(in_memory, corpora, own)
    assert batches.summary() == others.summary() and "54 examples" in batches.summary()
    assert validation.bucket_lengths == batches.bucket_lengths


@pytest.mark.parametrize("kept", [True, False])
def test_training_learns_a_shortlist(config, tmp_path, kept, capsys):
    """From the text in memory, and from that of the records; once."""
    config = dataclasses.replace(config, records=config.records if kept else None, shortlist=100, beam_size=1)
    run, corpora = Run(tmp_path / "run", RECIPE), load_corpora(config)
    run.folder.mkdir()
    text = learn_text(run, config, corpora)
    pairs = 60 if kept else 54  # the text of records is read before it is cleaned
    assert f"Learning the shortlist from {pairs} pairs" in capsys.readouterr().out
    (the,), (das,) = (side.encode([word])[0][:1] for side, word in ((text.source, "the"), (text.target, "das")))
    shortlist = load_shortlist(run, config, text)
    assert das in shortlist.table[the] and shortlist.size == 100
    learn_text(run, config, corpora)
    assert "shortlist" not in capsys.readouterr().out


def test_records_of_pairs_know_their_columns(config, tmp_path):
    """A file of pairs gives the records of two files; those of the other direction are others."""
    pairs = zip(*((tmp_path / f"train.{side}").read_text().splitlines() for side in ("en", "de")), strict=True)
    (tmp_path / "pairs.txt").write_text("".join(f"{source}\t{target}\n" for source, target in pairs if source))
    one = dataclasses.replace(config, train=(str(tmp_path / "pairs.txt"),))
    prepare(one)
    assert len(load_corpora(dataclasses.replace(one, records=None)).train) == 54
    with refused("settings", "columns=[1, 2] (now [2, 1])"):
        prepare(dataclasses.replace(one, columns=(2, 1)))


def test_prepared_records_are_found_again_and_repaired(config, tmp_path, capsys):
    arguments = ["prepare", "--config", str(tmp_path / "config.json")]
    save_config(dataclasses.replace(config, records=None), tmp_path / "config.json", "translate")
    with refused("--records", "records=None", SystemExit):
        main(arguments)
    arguments += ["--records", config.records]
    main(arguments)
    assert "kept 54 of 60 pairs" in capsys.readouterr().out
    shard = tmp_path / "records" / "shard-00000.tfrecord"
    whole = shard.read_bytes()
    for path in config.train:  # complete records need no text
        (tmp_path / path).rename(path + ".away")
    prepare(config)
    shard.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with refused("prepare", "shard-00000.tfrecord (damaged"):
        prepare(config)
    for path in config.train:
        (tmp_path / (path + ".away")).rename(path)
    main(arguments)
    assert "Written anew: shard-00000.tfrecord" in capsys.readouterr().out and shard.read_bytes() == whole


def test_a_second_one_waits_for_the_first(config, monkeypatch):
    said, folder = [], pathlib.Path(config.records)
    monkeypatch.setattr("recipes.engine.run.print", lambda text, **_: said.append(text), raising=False)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with locked(folder, "taken"):
            half = folder / ".shard-00000.0123abcd.tfrecord"
            half.touch()
            second = pool.submit(prepare, config)
            while not said and not second.done():
                time.sleep(0.01)
            assert half.exists() and f"Another process writes the records in {folder}: waiting" in said[0]
        assert second.result().manifest["examples"] == 54
    assert not half.exists()


def test_only_settings_of_the_tokens_matter(config):
    prepare(config)
    prepare(dataclasses.replace(config, seed=3))
    with refused("settings", "max_words=80 (now 9)"):
        prepare(dataclasses.replace(config, max_words=9))


def test_another_text_is_refused(config):
    prepare(config)
    with open(config.train[0], "a", encoding="utf-8") as file:
        file.write("one more\n")
    with refused("settings", "bytes="):
        prepare(config)


def test_the_synthetic_text_is_that_of_its_seed(tmp_path):
    config = TranslateConfig(
        built_in=True, records=str(tmp_path), vocabulary_size=300, max_sentences=200, target_language="de"
    )
    prepare(config)
    with refused("settings", "seed=0 (now 1)"):
        prepare(dataclasses.replace(config, seed=1))


def test_another_vocabulary_is_refused(config, tmp_path):
    prepare(config)
    vocabulary = tmp_path / "records" / "vocabulary.model"
    vocabulary.write_bytes(vocabulary.read_bytes() + b"x")
    with refused("settings", "vocabulary.model='"):
        prepare(config)
    (tmp_path / "vocabulary.model").write_bytes(b"another run's")
    with refused("another vocabulary.model", tmp_path / "vocabulary.model"):
        take_files(config.records, ["vocabulary.model"], tmp_path)
    vocabulary.unlink()
    with refused("vocabulary", "without vocabulary.model"):
        prepare(config)


def test_nothing_is_written_where_text_is_missing(config, tmp_path):
    with refused("No such file", "none.en", FileNotFoundError):
        prepare(dataclasses.replace(config, train=("none.en", "none.de")))
    assert not (tmp_path / "records").exists()


def test_a_missing_package_is_reported_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ImportError, match=r"pip install jieba"):
        check_moses(["zh", "de"])
    jieba = types.SimpleNamespace(setLogLevel=lambda level: None, cut=lambda line: [line[:2], " ", line[2:]])
    monkeypatch.setitem(sys.modules, "jieba", jieba)
    check_moses(["zh", "de"])


@pytest.mark.parametrize(
    "folder, train, number",
    [
        ("iwslt14_de_en/tmp", ("valid.de", "valid.en"), 7_283),
        ("wmt_newstest/2014/en-de", ("newstest2014.en", "newstest2014.de"), 3_003),
        ("wmt_ende_t2t_shard", ("decoded.en", "decoded.de"), 8_941),
        ("multi30k/raw", ("train.en.gz", "train.de.gz"), 29_000),
    ],
)
def test_real_text(shared_data, tmp_path, folder, train, number):
    files = tuple(str(shared_data / folder / name) for name in train)
    config = TranslateConfig(
        train=files, validation=files, records=str(tmp_path), vocabulary_size=2_000, vocabulary_sentences=1_000,
        max_sentences=1_500, max_words=1_000,
    )  # fmt: skip
    assert sum(1 for _ in stream_training(dataclasses.replace(config, max_sentences=None))) == number
    assert prepare(config, shard_lines=1_000).manifest["examples"] == 1_500


def test_lengths(config, tmp_path, capsys):
    """Lengths are those of the tokens; the picture has all pairs."""
    from keras_headattn.data import Records
    from recipes.translate.lengths import describe

    records = prepare(config)
    tokens = Records(config.records).manifest["tokens"]
    mean = sum(tokens.values()) / 2 / 54
    shown = describe(records, 100)
    assert "54 pairs" in shown and f"mean {tokens['targets'] / 54:.1f}" in shown and f" = {int(100 / mean)}" in shown
    capsys.readouterr()
    main(["lengths", config.records, "--hidden-dim", "100", "--output", str(tmp_path / "lengths.png")])
    assert shown in capsys.readouterr().out
    assert (tmp_path / "lengths.png").read_bytes().startswith(b"\x89PNG")
