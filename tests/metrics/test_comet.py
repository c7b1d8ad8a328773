"""COMET through a stand-in for unbabel-comet, whose model counts words."""

import importlib.metadata
import sys
import types

import pytest

from keras_headattn.metrics import comet, comet_checkpoint
from keras_headattn.metrics._comet import _load
from recipes.translate.evaluation import check_metrics, evaluate, named_metrics
from tests.refusals import refused


class Model:
    """Estimates a sentence by its share of the words of source and reference."""

    def predict(self, rows, batch_size, gpus):
        assert (batch_size, gpus) == (8, 0)
        assert all(set(row) == {"src", "mt", "ref"} for row in rows)
        words = [[len(row[side].split()) for side in ("mt", "src", "ref")] for row in rows]
        return {"scores": [mine / (source + reference) for mine, source, reference in words]}


@pytest.fixture
def package(monkeypatch):
    loaded = []
    _load.cache_clear()

    def download_model(name, local_files_only=False):
        assert local_files_only
        if name != "Unbabel/wmt22-comet-da":
            raise KeyError(name)
        return "here/model.ckpt"

    def load_from_checkpoint(path):
        loaded.append(path)
        return Model()

    module = types.SimpleNamespace(download_model=download_model, load_from_checkpoint=load_from_checkpoint)
    monkeypatch.setitem(sys.modules, "comet", module)
    monkeypatch.setattr(importlib.metadata, "version", lambda package: "2.2.6")
    return loaded


def test_comet(package):
    for _ in range(2):
        score = comet(["a dog", "cats"], ["a dog", "a cat"], ["ein Hund", "Katzen sind da"])
    assert score.by_sentence == (50.0, 20.0) and score.value == 35.0
    assert str(score) == "COMET|model:wmt22-comet-da|version:unbabel-comet-2.2.6 = 35.00"
    assert package == ["here/model.ckpt"]  # once


def test_a_checkpoint_of_ones_own(package, tmp_path):
    path = tmp_path / "mine.ckpt"
    path.touch()
    assert comet_checkpoint(path) == str(path)
    assert "model:mine.ckpt|" in comet(["a"], ["a"], ["a"], model=path).signature
    assert package[-1] == str(path)


def test_what_is_missing(package, monkeypatch):
    with refused("`comet.download_model('Unbabel/other')`", error=FileNotFoundError):
        comet(["a"], ["a"], ["a"], model="Unbabel/other")
    with refused("equally long"):
        comet(["a"], ["a"], ["a", "b"])
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(ImportError, match="Install unbabel-comet: pip install unbabel-comet"):
        check_metrics(["comet"], "de")


def test_scores_of_a_translator(package, tmp_path):
    check_metrics(["comet"], "de")
    assert package == []  # nothing is loaded early
    text = types.SimpleNamespace(references=list)

    class Translator:
        def __init__(self):
            self.text = text

        def __call__(self, sentences, progress=None):
            return [types.SimpleNamespace(text=sentence.lower()) for sentence in sentences]

    class Corpus:
        source, target = ["EIN HUND", "KATZE"], ["a dog", "cat"]

        def __len__(self):
            return 2

    functions = named_metrics(["exact_match", "comet"], "de")
    evaluate(Translator(), {"test": Corpus()}, functions, "beam_size:1", tmp_path, quiet=True)
    assert (tmp_path / "test" / "sentences.tsv").read_text() == (
        "exact match\tCOMET\n0.0000\t50.0000\n0.0000\t50.0000\n"
    )
