"""Documents of language models: their files, token files, and what is refused before training."""

import bz2
import functools
import gzip
import json
import math
import tarfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import TokenFile, write_tokens
from keras_headattn.models import CausalLM
from keras_headattn.text import ByteFallbackTokenizer, ByteTokenizer, CharacterTokenizer, WordPieceTokenizer
from recipes.engine.encoders import kept_tokenizer, saved_tokenizer
from recipes.engine.run import Run
from recipes.lm.__main__ import RECIPE, main
from recipes.lm.data import (
    describe,
    ids_of,
    make_tokenizer,
    read_corpora,
    read_documents,
    read_tests,
    read_tokenizer,
    split_off,
)
from recipes.lm.scoring import documents_of, score_text, token_losses
from recipes.lm.settings import LmConfig
from tests.recipes.commands import run_here
from tests.refusals import refused
from tests.text.test_byte_fallback_tokenizer import trained


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture
def files(tmp_path):
    """Text files, and token files of them in bytes."""
    texts = {"train": ["one, two\n" * 9, "three, four\n" * 9], "validation": ["five, six\n" * 9]}
    for name, documents in texts.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
        write_tokens(tmp_path / f"{name}.bin", documents, ByteTokenizer())
    return tmp_path


TEXT = "one\n two\r\n\n \nthree\n"
RECORDS = '{"text": "one\\n"}\n\n{"id": 2, "text": "two"}\n{"text": ""}\n'


@pytest.mark.parametrize("name, text, kind, expected", [
    ("a.txt", TEXT, None, [TEXT]),
    ("a.txt", TEXT, "line", ["one", " two", " ", "three"]),
    ("a.txt", TEXT, "blank_line", ["one\n two", "three"]),
    ("a.jsonl", RECORDS, None, ["one\n", "two"]),
    ("a.txt", RECORDS, "record", ["one\n", "two"]),
    ("a.jsonl", RECORDS, "file", [RECORDS]),
])  # fmt: skip
@pytest.mark.parametrize("compress", [bytes, bz2.compress])
def test_documents_of_files(name, text, kind, expected, compress, tmp_path):
    (tmp_path / name).write_bytes(compress(text.encode()))
    assert list(read_documents(tmp_path / name, kind)) == expected


def test_documents_of_folders_archives_and_tfrecords(tmp_path):
    folder = tmp_path / "corpus"
    (folder / "more").mkdir(parents=True)
    (folder / "b.txt").write_text("two\n")
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b'{"text": "one"}\n{"text": "1"}\n'))
    (folder / ".hidden").write_text("no")
    with tarfile.open(folder / "more" / "c.tar.gz", "w:gz") as archive:
        archive.add(folder / "b.txt", "x/b.txt")
        archive.add(folder / ".hidden", "x/.hidden")
    feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=["drei \u00fc".encode()]))
    example = tf.train.Example(features=tf.train.Features(feature={"text": feature}))
    with tf.io.TFRecordWriter(str(folder / "more" / "d.tfrecord-00000-of-00001")) as writer:
        writer.write(example.SerializeToString())
    assert list(read_documents(folder)) == ["one", "1", "two\n", "two\n", "drei \u00fc"]


def test_damaged_sources(tmp_path):
    sources = {
        "a.txt.gz": (gzip.compress(b"text" * 99)[:-9], "is damaged"),
        "a.tar.gz": (gzip.compress(bytes(257) + b"ustar" + bytes(800)), "is damaged"),
        "a.tfrecord": (b"no records" * 9, "TFRecord file of examples"),
    }
    for name, (content, message) in sources.items():
        (tmp_path / name).write_bytes(content)
        with refused(message, name):
            list(read_documents(tmp_path / name))


def test_bytes_that_are_not_utf_8_are_counted(tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(b"a\xff\nb\xff\xfe")
    assert list(read_documents(tmp_path / "a.txt", "line")) == ["a\ufffd", "b\ufffd\ufffd"]
    assert "3 characters are U+FFFD" in capsys.readouterr().err


@pytest.mark.parametrize("text, name, received", [
    ("", "empty", "a.jsonl"),
    ("[1]\n", "line 1", "[1]"),
    ('{"text": "a"}\n{"text": 1}\n', "line 2", "1"),
    ("{\n", "line 1 is not JSON", ""),
])  # fmt: skip
def test_damaged_records(text, name, received, tmp_path):
    (tmp_path / "a.jsonl").write_text(text)
    with refused(name, received):
        list(read_documents(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("documents, before", [
    (["a" * 100], ["a" * 90]),
    (["a" * 50, "b" * 50], ["a" * 50, "b" * 40]),
    (["a" * 93, "b" * 7], ["a" * 93]),
    ([*"abcdefghij"], [*"abcdefghi"]),
])  # fmt: skip
def test_a_share_is_split_off_between_documents_that_are_near(documents, before):
    sides = split_off(documents, 0.1)
    assert sides[0] == before and "".join(map("".join, sides)) == "".join(documents) and "" not in sides[1]


def test_token_files_hold_what_texts_do(files):
    """In each format, and however training and validation sets are mixed."""
    config = LmConfig(train=(f"{files}/train.jsonl",), validation=(f"{files}/validation.jsonl",), tokenizer="bytes")
    texts = read_corpora(config)
    for train, validation in (("bin", "bin"), ("bin", "jsonl"), ("jsonl", "bin")):
        given = {"train": (f"{files}/train.{train}",), "validation": (f"{files}/validation.{validation}",)}
        corpora = read_corpora(config.changed(given | {"test": (f"{files}/validation.bin",)}))
        for name in ("train", "validation"):
            ids = [ids_of(getattr(either, name), ByteTokenizer(), name) for either in (texts, corpora)]
            np.testing.assert_array_equal(*ids)
        assert [*corpora.tests] == ["validation", "validation-2"]
        np.testing.assert_array_equal(corpora.tests["validation-2"].tokens, ids[0])
    assert describe(corpora)["training"] == describe(texts)["training"] | {"examples": 9 * 21}
    tokens = config.changed({"train": (f"{files}/train.bin",), "validation": ("0.5",)})
    known = describe(read_corpora(tokens))
    assert known["training"]["examples"] == 82 and describe(read_corpora(tokens)) == known
    for format in ("nanogpt", "llm.c"):
        write_tokens(files / "train.bin", texts.train, ByteTokenizer(), format)
        assert describe(read_corpora(tokens)) == known
    write_tokens(files / "train.bin", ["One" + texts.train[0][3:], texts.train[1]], ByteTokenizer())
    assert describe(read_corpora(tokens))["training"] != known["training"]


def test_scores_leave_out_marks_and_see_documents_apart(files):
    model, tokenizer = CausalLM(257, num_layers=1, hidden_dim=8, num_heads=2, seed=0), ByteTokenizer()
    config = LmConfig(length=64, batch_size=2, stride=64, tokenizer="bytes", separate_documents=True)
    write_tokens(files / "other.bin", texts := ["one, two", "three, four"], tokenizer)
    (tokens,) = read_tests(config, [f"{files}/other.bin"], tokenizer).values()
    np.testing.assert_array_equal(ids_of(tokens, tokenizer, ""), ids := ids_of(texts, tokenizer, ""))
    inputs = documents_of(tokenizer, ids[None, :-1])
    assert inputs["sequence_ids"][0].tolist() == [0] * 9 + [1] * 11
    losses = []
    for text in texts:
        row = tokenizer([text, text])
        scores = keras.ops.log_softmax(model(row[:1, :-1]), axis=-1)[0]
        losses.append(-np.take_along_axis(np.array(scores), row[0, 1:, None].numpy(), axis=1)[:, 0])
    found = token_losses(model, ids, 64, 64, 2, functools.partial(documents_of, tokenizer))
    np.testing.assert_allclose(np.delete(found, [7, 8, 19]), np.concatenate(losses), rtol=1e-4)
    value, _ = score_text(model, tokenizer, config, "test", tokens)["loss"]
    assert value == pytest.approx(np.delete(found, [7, 19]).mean())


@pytest.mark.parametrize("options, message", [
    ("--train {files}/train.bin", "give --tokenizer bytes or a tokenizer.json, or --checkpoint. Received: {files}"),
    ("--train {files}/train.bin --tokenizer {files}/other.json", "`tokenizer` must be that of the token file"),
    ("--train {files}/train.bin {files}/large.bin --tokenizer bytes", "one token file. Received: {files}/train.bin"),
    ("--train {files}/large.bin --tokenizer bytes", "ids are below 257. Received: 300 in {files}/large.bin"),
    ("--train {files}/train.jsonl --tokenizer {files}/pieces.json", "byte pairs or characters"),
    ("--train {files}/train.jsonl --tokenizer {files}/none.json", "no such file. Received: {files}/none.json"),
    ("--train {files}/train.jsonl --tokenizer words", "--tokenizer must be characters, bytes, byte_pairs"),
    ("--train {files}/train.jsonl --rows documents", "bytes or byte_pairs. Received: tokenizer=characters"),
    ("--train {files}/train.jsonl --rows documents --tokenizer {files}/other.json", "Received: tokenizer={files}"),
    ("--train {files}/train.jsonl", "bytes or byte_pairs. Received: tokenizer=characters"),
    ("--built-in --documents line", "bytes or byte_pairs. Received: tokenizer=characters"),
    ("--train {files}/train.bin --tokenizer bytes --documents line", "--documents is for text files"),
    ("--train {files}/train.jsonl --tokenizer bytes --vocabulary-size 300", "--vocabulary-size is for --tokenizer"),
    ("--tokenizer bytes --separate-documents --attention evolving", "tell documents of a row apart"),
    ("--synthetic recall --documents line", "--documents is for texts, not for --synthetic"),
    ("prepare {files}/train.jsonl {files}/train.txt", "NAME.bin. Received: {files}/train.jsonl and {files}/train.txt"),
    ("prepare {files}/train.bin {files}/new.bin", "takes text files"),
    ("prepare {files}/none.txt {files}/new.bin", "No such file"),
    ("prepare {files}/train.json {files}/train.bin --tokenizer bytes", "would replace a text"),
    ("prepare {files}/train.jsonl {files}/new.bin --tokenizer {files}/other.json", "byte_pairs"),
    ("prepare {files}/train.jsonl {files}/new.bin", "bytes or byte_pairs. Received: tokenizer=characters"),
])  # fmt: skip
def test_refused_before_training(options, message, recipe, files):
    kept_tokenizer(files / "other.json", lambda: CharacterTokenizer("abc"))
    kept_tokenizer(files / "pieces.json", lambda: WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"]))
    np.array([1, 300], "<u2").tofile(files / "large.bin")
    given = [option.format(files=files) for option in options.split()]
    printed = recipe(*given, *([] if given[0] == "prepare" else ["--run", files / "run"]))
    assert printed.startswith("error: ")
    assert message.format(files=files) in printed
    assert not (files / "run").exists() and not (files / "new.bin").exists()


def test_characters_of_the_validation_text_are_known_and_those_of_tests_are_checked(recipe, tmp_path):
    (tmp_path / "train.txt").write_text("one, two\n" * 90)
    (tmp_path / "held_out.txt").write_text("thrée, four\n" * 90)
    config = LmConfig(train=[tmp_path / "train.txt"], validation=[str(tmp_path / "held_out.txt")])
    corpora = read_corpora(config)
    tokenizer = make_tokenizer(config, corpora.train, corpora.validation)
    assert set(tokenizer.vocabulary) == {*"one, two\n", *"thrée, four\n"}
    (tmp_path / "test.txt").write_text("six\n" * 90)
    (tmp_path / "task.jsonl").write_text('{"sentence_good": "one, two", "sentence_bad": "two; one"}\n')
    given = "--quick", "--train", tmp_path / "train.txt", "--validation", tmp_path / "held_out.txt"
    advice = ". Or give --tokenizer bytes or byte_pairs."
    for option, file, character in (("--test", "test.txt", "i"), ("--tasks", "task.jsonl", ";")):
        printed = recipe(*given, option, tmp_path / file, "--run", tmp_path / file[:4] / "run")
        assert printed.endswith(
            f": Texts must have characters of the vocabulary alone. Received: {character!r}{advice}"
        )
        assert "Epoch" not in printed


def test_sentence_pieces_of_a_checkpoint(recipe, files):
    (files / "config.json").write_text('{"model_type": "llama", "vocab_size": 600}')
    (files / "tokenizer.model").write_bytes(trained())
    recipe("prepare", files / "train.jsonl", files / "new.bin", "--tokenizer", files / "tokenizer.model")
    tokenizer = read_tokenizer(files / "new.tokenizer.json")
    assert type(tokenizer) is ByteFallbackTokenizer and len(TokenFile(files / "new.bin", tokenizer)) > 9


def test_documents_from_texts_to_scores(recipe, tmp_path):
    """Texts become a token file, of which a model learns each document by itself, in chunks of the loss."""
    for name, first in (("train", 100), ("validation", 400)):
        records = [{"text": f"{i} and {i + 1} are {2 * i + 1}. " * (1 + i % 5)} for i in range(first, first + 90)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    of_pairs = "--tokenizer", "byte_pairs", "--vocabulary-size", 300
    printed = recipe("prepare", tmp_path / "train.jsonl", tmp_path / "train.bin", *of_pairs)
    assert f"--train {tmp_path}/train.bin --tokenizer {tmp_path}/train.tokenizer.json" in printed
    tokenizer = tmp_path / "train.tokenizer.json"
    recipe("prepare", tmp_path / "validation.jsonl", tmp_path / "validation.bin", "--tokenizer", tokenizer)
    assert read_tokenizer(tokenizer).fingerprint == TokenFile(tmp_path / "validation.bin").manifest["fingerprint"]
    command = (
        "--quick", "--train", tmp_path / "train.bin", "--validation", tmp_path / "validation.bin", "--tokenizer",
        tokenizer, "--rows", "documents", "--separate-documents", "--length", 32, "--batch-size", 4, "--epochs", 1,
        "--epoch-steps", 30, "--model-arguments", "num_layers=1", "loss_chunk_size=64", "positions=rotary",
        "--run", tmp_path / "run", "--export", "none",
    )  # fmt: skip
    assert "\nvalidation: loss " in recipe(*command)
    assert Run(tmp_path / "run", RECIPE).scores()["validation"]["loss"] < math.log(300) - 1
    assert saved_tokenizer(tmp_path / "run" / "tokenizer.json").fingerprint == read_tokenizer(tokenizer).fingerprint
    assert not (tmp_path / "run" / "train.bin").exists()
    printed = recipe("evaluate", tmp_path / "run", "--test", tmp_path / "train.jsonl")
    assert recipe("evaluate", tmp_path / "run", "--test", tmp_path / "train.bin") == printed
