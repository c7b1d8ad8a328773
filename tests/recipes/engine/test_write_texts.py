import json
import os

import pytest

from keras_headattn.metrics import Score
from recipes.engine.generation import write_texts
from tests.refusals import refused

SCORES = {"BLEU": Score("BLEU", 27.5, "tok:13a", (30.0, 2.25))}
FILES = ["hypotheses.txt", "references.txt", "scores.json", "sentences.tsv", "sources.txt"]


def write(folder, sources=("ein Hund", "Café"), hypotheses=("a dog", ""), references=("a dog", "café")):
    write_texts(folder, list(sources), list(hypotheses), list(references), SCORES)


def test_files_hold_what_was_given(tmp_path):
    folder = tmp_path / "new" / "folder"
    write(folder)
    assert sorted(os.listdir(folder)) == FILES
    assert (folder / "sources.txt").read_text(encoding="utf-8") == "ein Hund\nCafé\n"
    assert (folder / "hypotheses.txt").read_text(encoding="utf-8") == "a dog\n\n"
    assert (folder / "references.txt").read_text(encoding="utf-8") == "a dog\ncafé\n"
    scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert scores == {"BLEU": {"name": "BLEU", "value": 27.5, "signature": "tok:13a"}}


def test_a_sentence_stays_on_its_line(tmp_path):
    write(tmp_path, hypotheses=("a\ndog\r\nruns", "one\u2028two"))
    assert (tmp_path / "hypotheses.txt").read_text(encoding="utf-8") == "a dog runs\none two\n"


def test_later_translations_replace_earlier_ones(tmp_path):
    write(tmp_path)
    write(tmp_path, hypotheses=("x", "y"))
    assert (tmp_path / "hypotheses.txt").read_text(encoding="utf-8") == "x\ny\n"


def test_scores_of_the_same_translations_are_kept(tmp_path):
    write(tmp_path)
    lists = ["ein Hund", "Café"], ["a dog", ""], ["a dog", "café"]
    write_texts(tmp_path, *lists, {"WER": Score("WER", 50.0, "x", (0.0, 100.0)), "own": Score("own", 1.0, "")})
    assert (tmp_path / "sentences.tsv").read_text() == "BLEU\tWER\n30.0000\t0.0000\n2.2500\t100.0000\n"
    assert list(json.loads((tmp_path / "scores.json").read_text())) == ["BLEU", "WER", "own"]
    write_texts(tmp_path, *lists[:1], ["a cat", ""], lists[2], {"WER": Score("WER", 90.0, "x")})
    assert list(json.loads((tmp_path / "scores.json").read_text())) == ["WER"]
    assert (tmp_path / "sentences.tsv").read_text() == "\n"
    (tmp_path / "sentences.tsv").write_text("BLEU\n1\t2\n")
    with refused("scores of sentences", tmp_path / "sentences.tsv"):
        write_texts(tmp_path, *lists[:1], ["a cat", ""], lists[2], {"WER": Score("WER", 90.0, "x")})


def test_a_failed_write_leaves_the_previous_file_and_no_other(tmp_path, monkeypatch):
    write(tmp_path)

    def full_disk(descriptor):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path, sources=("x", "y"))
    assert sorted(os.listdir(tmp_path)) == FILES
    assert (tmp_path / "sources.txt").read_text(encoding="utf-8") == "ein Hund\nCafé\n"


def test_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda old, new: (calls.append(new.name), replace(old, new)))
    write(tmp_path)
    names = ["sources.txt", "hypotheses.txt", "references.txt", "sentences.tsv", "scores.json"]
    assert calls == [call for name in names for call in ("fsync", name, "fsync")]  # file, name, folder
