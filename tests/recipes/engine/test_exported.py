"""A SavedModel is scored by itself, on people's files, as the run that wrote it is."""

import json
import re
import shutil

import numpy as np
import pytest

from recipes.classify import __main__ as classify
from recipes.classify import exported
from recipes.classify.settings import ClassifyConfig
from recipes.engine.config import override
from recipes.engine.texts import exported as predictions
from recipes.glue import __main__ as glue
from recipes.translate import __main__ as translate
from tests.recipes.commands import run_here
from tests.refusals import refused

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
ZAHLEN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]
SMALL = {
    translate: "--epochs 1 --model-arguments num_layers=1 hidden_dim=16 intermediate_dim=16 --num-heads 2 "
    "--vocabulary-size 60 "
    "--attention multi_head --validation-sentences 0 --tensorboard --max-length 16 --export-arguments attention=false",
    classify: "--epochs 1 --model-arguments embedding_dim=8 hidden_dim=8 mlp_dim=8 factor_dim=8 --pooling-heads 2 "
    "--pooling-dim 8 "
    "--max-length 8 --export-arguments attention=false",
    glue: "--epochs 1 --size bert_tiny --vocabulary-size 100 --max-length 16 --export-arguments attention=false",
}


@pytest.fixture
def run(capsys):
    return lambda recipe, *arguments: run_here(recipe.main, capsys, *arguments)


def xml(sentences):
    body = "\n".join(f'<seg id="{number}"> {text} </seg>' for number, text in enumerate(sentences, 1))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval><srcset><doc docid="1">\n{body}\n</doc></srcset></mteval>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    words = list(zip(WORDS, ZAHLEN, strict=True))
    pairs = [(f"{a} & {b}", f"{x} & {y}") for a, x in words for b, y in words]
    (folder / "deu.txt").write_text("".join(f"{a}\t{b}\tCC-BY\n" for a, b in pairs))
    for side, name in enumerate(("en", "de")):
        (folder / f"tst.{name}.xml").write_text(xml(pair[side] for pair in pairs[:7]))
    (folder / "same.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs[:7]))
    return folder


def train(recipe, folder, *arguments):
    name = recipe.RECIPE.name
    options = [*SMALL[recipe].split(), "--run", folder / "runs" / name, "--export", folder / "saved" / name]
    recipe.main(["train", *map(str, [*arguments, *options]), "--quiet", "--samples", "0"])
    return folder / "runs" / name, folder / "saved" / name


def scores_in(printed):
    """The scores that were printed, without what they end with."""
    return re.findall(r"^tst: (.*?)(?:\|beam_size.*|\|saved_model.*|, dist [^,]*)?$", printed, re.MULTILINE)


def test_translation(folder, run):
    """Trained on a file of pairs, scored on XML and on a file of pairs."""
    files = folder / "tst.en.xml", folder / "tst.de.xml"
    data = "--train", folder / "deu.txt", "--validation", folder / "same.tsv", "--test", *files
    done, saved = train(translate, folder, *data)
    assert json.loads((done / "results" / "tst" / "scores.json").read_text())["BLEU"]
    assert (done / "results" / "tst" / "sources.txt").read_text().splitlines()[1] == "one & two"
    shutil.copy(files[0], folder / "new.en.sgm"), shutil.copy(files[1], folder / "new.de.sgm")
    others = folder / "new.en.sgm", folder / "new.de.sgm", folder / "same.tsv"
    again = run(translate, "evaluate", done, "--test", *others)
    own = run(translate, "evaluate", saved, "--test", *files)
    assert scores_in(own) == scores_in(again.replace("new: ", "tst: ")) == scores_in(again.replace("same: ", "tst: "))
    assert len(scores_in(own)) == 2 and "|saved_model:translate/1" in own
    lines = run(translate, "translate", done, files[0])
    assert len(lines.splitlines()) == 7
    assert "is only for runs" in run(translate, "evaluate", saved / "1", "--test", *files, "--beam-size", 2)
    assert "Give --test" in run(translate, "evaluate", saved)
    assert "is that of the run" in run(translate, "evaluate", done, "--target-language", "en")
    assert "--splits is only for data by --iwslt or --tfds" in run(translate, "evaluate", done, "--splits", "test=no")
    assert "The SavedModel must take texts" in run(translate, "evaluate", f"{saved}_ids", "--test", *files)
    assert "must give classes or numbers" in run(
        classify, "evaluate", saved, "--test", folder / "same.tsv", "--no-header", "--text-column=1", "--label-column=2"
    )


def test_numbers_of_pairs(folder, run):
    """An export of Excel's in UTF-16; the bias begins at the mean of numbers that are far from 0."""
    rows = [f"{a} {b};{b} {a};{1000 + len(a)}" for a in WORDS for b in WORDS]
    (folder / "tst.csv").write_bytes("\r\n".join(["a;b;n", *rows, ";x y;3"]).encode("utf-16"))
    columns = "--text-column", "a", "--second-column", "b", "--label-column", "n", "--encoding", "utf-16"
    done, saved = train(classify, folder, "--train", folder / "tst.csv", *columns, "--predict", "number")
    assert json.loads((done / "history.json").read_text())[0]["val_loss"] < 100
    shutil.copytree(done, folder / "moved")
    own = run(classify, "evaluate", saved, "--predict", "number", "--test", folder / "tst.csv", *columns)
    assert "64 of 65" not in own and "1 of 65 examples have no text and are left out" in own
    assert scores_in(own) == scores_in(run(classify, "evaluate", done, "--test", folder / "tst.csv"))
    assert "gives a number" in run(classify, "evaluate", saved, "--test", folder / "tst.csv", *columns)
    (folder / "lines.txt").write_text("one two\ttwo one\n\nthree four\tfour three\n")
    first, empty, second = run(classify, "classify", done, folder / "lines.txt").splitlines()
    assert empty == "" and 900 < float(first) < 1100 and 900 < float(second) < 1100
    (folder / "lines.txt").write_text("one\ttwo\n\nthree four\n")
    assert "lines.txt, line 3 must be a pair" in run(classify, "classify", done, folder / "lines.txt")
    assert "lines.txt, line 3 must be a pair" in run(classify, "explain", done, "--file", folder / "lines.txt")
    assert "--top needs labels" in run(classify, "classify", done, folder / "lines.txt", "--top", 2)


def test_classes(folder, run):
    rows = [f"{a} {b}\t{'even' if len(a) % 2 == 0 else 'odd'}\n" for a in WORDS for b in WORDS]
    (folder / "train.tsv").write_text("".join(["text\tlabel\n", *rows, "\todd\n", "unlabelled\t\n"]))
    assert "--drop-labels ''" in run(
        glue, "--size", "bert_tiny", "--train", folder / "train.tsv", "--run", folder / "none"
    )
    (folder / "tst.tsv").write_text("".join(["text\tlabel\n", *rows[:9]]))
    options = "--drop-labels", "", "--train", folder / "train.tsv", "--test", folder / "tst.tsv"
    done, saved = train(glue, folder, *options)
    own = run(glue, "evaluate", saved, "--test", folder / "tst.tsv")
    assert scores_in(own) == scores_in(run(glue, "evaluate", done)) and "score" in own
    assert "--labels must name the classes" in run(
        glue, "evaluate", saved, "--test", folder / "tst.tsv", "--labels", "odd", "other"
    )
    assert "takes text. Received: text and second_text" in run(
        glue, "evaluate", saved, "--test", folder / "tst.tsv", "--second-column", "text"
    )
    run(glue, "evaluate", done, "--drop-labels", "even")  # which has results of its own
    assert {path.name for path in (done / "results").iterdir()} == {"tst", "tst,drop_labels=('even',)"}
    assert "The run is of single texts" in run(glue, "evaluate", done, "--second-column", "text")


def test_several_labels(tmp_path, monkeypatch, capsys):
    class Model:
        path, outputs = tmp_path, dict.fromkeys(["classes", "scores"]).keys()

        def __init__(self, path):
            pass

        def __call__(self, texts, second_texts=None, progress=None):
            rows = {"x": ([b"b", b"a"], [0.9, 0.8]), "y": ([b"b", b"a"], [0.7, 0.1])}
            return {name: np.array([rows[text][place] for text in texts]) for place, name in enumerate(self.outputs)}

    monkeypatch.setattr(predictions, "SavedModel", Model)
    (tmp_path / "tst.csv").write_text('text,label\nx,"a,b"\ny,b\n')
    config = override(ClassifyConfig(), {"predict": "labels"})
    exported.evaluate_saved_model(config, tmp_path, [tmp_path / "tst.csv"])
    assert "tst: accuracy 1.0000, exact 1.0000" in capsys.readouterr().out
    with refused("--predict labels", "'class'"):
        exported.evaluate_saved_model(ClassifyConfig(), tmp_path, [tmp_path / "tst.csv"])
