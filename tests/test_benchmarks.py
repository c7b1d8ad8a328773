"""Reports of benchmarks say what they are of."""

import re

import pytest

from benchmarks import language_model_heads, timing

REPORTS = [path for path in timing.RESULTS.glob("*.md") if path.stem != "resnets"]  # that one is arithmetic


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_has_its_date_commit_and_command(path):
    last = path.read_text(encoding="utf-8").splitlines()[-1]
    assert re.fullmatch(r"- \d{4}-\d\d-\d\d, commit [0-9a-f]{7,}( with changes)?, `python -m benchmarks\..+`", last)


@pytest.mark.skipif(not (timing.RESULTS.parents[1] / ".git").exists(), reason="not a checkout of git")
def test_the_commit_of_a_checkout_and_of_none(monkeypatch, tmp_path):
    assert re.fullmatch(r"commit [0-9a-f]{7,}( with changes)?", timing._commit())
    monkeypatch.setattr(timing, "RESULTS", tmp_path / "benchmarks" / "results")
    assert timing._commit() == "of no commit"


def test_the_table_of_heads_has_the_scores_and_the_costs():
    page = (language_model_heads.DOCS / "results" / "language_models.md").read_text(encoding="utf-8")
    rows = language_model_heads.heads_table().splitlines()
    assert [row for row in page.splitlines() if row.startswith("| ")][: len(rows)] == rows
