import re

import pytest

from recipes.classify.__main__ import RECIPE
from tests.refusals import refused


def test_a_dry_run_times_steps_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    RECIPE.main(["train", "--quick", "--dry-run", "--epochs", "3"])
    text = capsys.readouterr().out
    assert "6,000 examples in 189 batches" in text and " parameters, " in text
    assert re.search(r"About [\d.e-]+ s a step: \d+ s an epoch, at most \d+ s for 3 epochs", text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--seeds", "1"], ["--strategy", "multi_worker"]])
def test_a_dry_run_is_of_one_run(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("dry run", f"--dry-run with {arguments[0]}", SystemExit):
        RECIPE.main(["train", "--quick", "--dry-run", *arguments])
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_finds_faults_of_the_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, label in (("train", "good"), ("dev", "unheard"), ("test", "good")):
        (tmp_path / f"{name}.tsv").write_text(f"text\tlabel\nfine\t{label}\nbad\tbad\n")
    with refused("dev.tsv", "unheard", SystemExit):
        RECIPE.main(["train", "--train", "train.tsv", "--validation", "dev.tsv", "--test", "test.tsv", "--dry-run"])
    assert not (tmp_path / "runs").exists()
