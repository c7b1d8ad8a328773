"""Data that changed under a run are noticed, whatever the recipe reads them from."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
from keras.utils import save_img

from recipes.classify import __main__ as classify
from recipes.engine.data import Corpora, checksum, fingerprint
from recipes.engine.run import Run
from recipes.engine.session import Session, Stopped
from recipes.glue import __main__ as glue
from recipes.graphs import __main__ as graphs
from recipes.imagenet import __main__ as imagenet
from recipes.pretrain.__main__ import RECIPE as PRETRAIN
from recipes.pretrain.settings import PretrainConfig
from recipes.pretrain.train import write_data
from recipes.rationales import __main__ as rationales
from recipes.translate import __main__ as translate
from tests.recipes.commands import train
from tests.refusals import refused

GRAPH = '{"entities": ["Bergen"], "triples": [], "text": "Bergen %s ."}\n'


def images(folder, names=("cat", "dog")):
    for split in ("train", "validation"):
        for number, name in enumerate(names):
            (folder / split / name).mkdir(parents=True)
            for index in range(3):
                save_img(folder / split / name / f"{index}.png", np.full((8, 8, 3), 99 * number + index), scale=False)
    return imagenet.RECIPE, {"images": str(folder)}, folder / "train" / "cat" / "0.png"


def texts(folder):
    path = folder / "a.csv"
    words = ["good", "bad"] * 20
    path.write_text("text,label\n" + "".join(f"a {word} film {row},{word}\n" for row, word in enumerate(words)))
    return classify.RECIPE, {"train": (str(path),)}, path


def pairs(folder):
    path = folder / "train.tsv"
    (folder / "dev.tsv").write_text("x\t1\t\tA good sentence .\n" * 9)
    path.write_text("".join(f"x\t{row % 2}\t\tSentence {row} .\n" for row in range(40)))
    return glue.RECIPE, {"glue": str(folder), "task": "cola", "size": "bert_tiny"}, path


def sentences(folder):
    files = [str(folder / f"a.{language}") for language in ("en", "de")]
    for file in files:
        pathlib.Path(file).write_text("".join(f"number {row}\n" for row in range(9)))
    return translate.RECIPE, {"train": tuple(files), "validation": tuple(files)}, pathlib.Path(files[1])


def graph_files(folder):
    files = {name: (str(folder / f"{name}.jsonl"),) for name in ("train", "validation", "test")}
    for (file,) in files.values():
        pathlib.Path(file).write_text("".join(GRAPH % f"has {row} hills" for row in range(5)))
    return graphs.RECIPE, files, pathlib.Path(files["train"][0])


def documents(folder):
    path = folder / "docs.jsonl"
    path.write_text("".join(json.dumps({"docid": f"d{row}", "document": f"good {row}"}) + "\n" for row in range(1, 5)))
    for name in ("train", "val", "test"):
        rows = [
            dict(annotation_id=f"d{row}", query="?", classification="AB"[row % 2], evidences=[], docids=[f"d{row}"])
            for row in range(1, 5)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rationales.RECIPE, {"eraser": str(folder), "size": "bert_tiny"}, path


def change(path):
    """Another file of the same size, but for images: whose bytes are not read."""
    data = path.read_bytes()
    path.write_bytes(data + b"x" if path.suffix == ".png" else data.replace(b"0", b"7").replace(b"good", b"fine"))


def described(recipe, config):
    """Sizes and checksums of the data of a run that is not trained."""
    found = []

    class Described(Session):
        def _read(self, read, describe):
            found.append(describe(read()))
            raise Stopped

    train(recipe, config, of=Described)
    return found[0]


@pytest.mark.parametrize("make", [images, texts, pairs, sentences, graph_files, documents])
def test_data_that_changed(make, tmp_path, capsys):
    recipe, given, path = make(tmp_path)
    config = recipe.settings().changed(given | {"run": str(tmp_path / "run")})

    first = described(recipe, config)
    assert first.keys() == {"training", "validation"} and described(recipe, config) == first
    run = Run(config.run, recipe)
    run.start(config, first)
    run.model.touch()
    run.check_data(first)
    change(path)
    with refused("data of this run", "training data"):
        run.check_data(described(recipe, config))


def test_folders_of_images_may_move(tmp_path):
    recipe, given, _ = images(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    given |= {"run": str(tmp_path / "run")}
    here, there = (
        described(recipe, recipe.settings().changed(given | {"images": str(tmp_path / folder)}))
        for folder in ("here", "there")
    )
    assert here == there


def test_records_that_changed(tmp_path):
    """Of the same words, so that the vocabulary is the same."""
    text = tmp_path / "a.txt"
    config = PretrainConfig(train=(str(text),), run=str(tmp_path / "run"), vocabulary_size=80, max_length=32)
    config = dataclasses.replace(config, processes=1)
    run = Run(config.run, PRETRAIN)
    text.write_text("\n".join(f"the number {number}" for number in range(60)))
    write_data(run, config)
    run.save_config(config)
    run.model.touch()
    shutil.rmtree(run.folder / "records")
    text.write_text("\n".join(f"the number {number}" for number in range(59, -1, -1)))
    with refused("data of this run", "training data"):
        write_data(run, config)


def test_what_has_no_checksum_is_left_out():
    data = fingerprint(Corpora([("a", "b")] * 3000, [object()], {}))
    assert data == {"training": {"examples": 3000, "sha256": checksum([("a", "b")] * 3000)}}
    assert checksum(["a", "bc"]) != checksum(["ab", "c"]) and checksum(["a"] * 1001) != checksum(["a"] * 1000)
