"""Sheets for people who judge the texts of two runs."""

import csv

import pytest
from scipy import stats

from recipes.compare import main
from recipes.engine import blind
from recipes.engine.blind import tally
from tests.refusals import refused


@pytest.fixture
def runs(tmp_path):
    """Two runs of 40 texts, the first three of which are the same."""
    for name in ("plain", "svgd"):
        folder = tmp_path / name / "results" / "test"
        folder.mkdir(parents=True)
        (tmp_path / name / "config.json").write_text('{"recipe": "translate"}')
        for kind in ("sources", "references", "hypotheses"):
            texts = [f"{name if kind == 'hypotheses' and line > 2 else kind} {line}, \u00e4" for line in range(40)]
            (folder / f"{kind}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return [str(tmp_path / name) for name in ("plain", "svgd")]


def fill(sheet, answer, delimiter=","):
    """Writes answers to a sheet, as a spreadsheet does."""
    with open(sheet, encoding="utf-8-sig", newline="") as file:
        header, *rows = list(csv.reader(file))
    with open(sheet, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *(answer(row) for row in rows)])
    return rows


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_sheet_is_filled_and_tallied(runs, tmp_path, capsys, delimiter):
    sheet = tmp_path / "sheet.csv"
    arguments = ["sheet", *runs, "--output", str(sheet), "--examples", "30", "--criteria", "grammar", "overall"]
    main(arguments)
    assert "the same for 3 of 40 inputs" in capsys.readouterr().out
    first = sheet.read_bytes()
    with refused("--output", sheet, SystemExit):
        main(arguments)
    sheet.unlink()
    main(arguments)
    assert sheet.read_bytes() == first

    def answer(row):
        number, svgd = int(row[0]), "A" if row[3].startswith("svgd") else "b "
        return [*row[:5], "=" if number % 2 else svgd, "" if number < 10 else svgd]

    rows = fill(sheet, answer, delimiter)
    assert len(rows) == 30 and 0 < sum(row[3].startswith("svgd") for row in rows) < 30
    assert all({row[3].split()[0], row[4].split()[0]} == {"plain", "svgd"} for row in rows)
    even, later = (sum(test(int(row[0])) for row in rows) for test in (lambda n: n % 2 == 0, lambda n: n >= 10))
    titles, counts = tally(sheet)
    assert titles == ["plain", "svgd"] and counts == {"grammar": (0, 30 - even, even), "overall": (0, 0, later)}
    capsys.readouterr()
    main(["tally", str(sheet)])
    out, p = capsys.readouterr().out, stats.binomtest(0, later).pvalue
    assert "plain against svgd" in out and f"| overall | 0 | 0 | {later} | 0.0% |" in out and f"| {p:.2g} |" in out


def test_a_sheet_is_never_without_its_key(runs, tmp_path, monkeypatch):
    sheet, write = tmp_path / "sheet.csv", blind.write_atomically
    (tmp_path / ".sheet.0123abcd.csv").touch()  # of a killed process
    (tmp_path / ".sheet_of_others.0123abcd.csv").touch()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(blind, "write_atomically", lambda path, data: write(path, data) if calls.pop() else stop())
        calls = [False, True]
        blind.write_sheet(runs, sheet)
    assert not sheet.exists()
    blind.write_sheet(runs, sheet)
    assert tally(sheet)[0] == ["plain", "svgd"]
    assert [path.name for path in tmp_path.glob(".*")] == [".sheet_of_others.0123abcd.csv"]


def stop():
    raise KeyboardInterrupt


@pytest.mark.parametrize("text", ['=HYPERLINK("http://evil","x")', "+1", "-1", "@a", "\t=1"])
def test_texts_are_no_formulas(runs, tmp_path, text):
    path = tmp_path / "svgd" / "results" / "test" / "hypotheses.txt"
    path.write_text("\n".join([text] * 40) + "\n")
    blind.write_sheet(runs, tmp_path / "sheet.csv")
    cells = {cell for row in fill(tmp_path / "sheet.csv", lambda row: row) for cell in row[3:5]}
    assert f"'{text.strip()}" in {cell.replace("\t", "") for cell in cells}
    assert not any(cell.startswith(text[0]) for cell in cells)


def test_mistakes(runs, tmp_path):
    sheet = tmp_path / "sheet.csv"
    with refused("--set", "other", SystemExit):
        main(["sheet", *runs, "--set", "other", "--output", str(sheet)])
    main(["sheet", *runs, "--output", str(sheet)])
    fill(sheet, lambda row: [*row[:5], "both"])
    with refused("A, B or =", "better='both'", SystemExit):
        main(["tally", str(sheet)])
    (tmp_path / "svgd" / "results" / "test" / "sources.txt").write_text("another\n")
    with refused("test set", "test of other sources", SystemExit):
        main(["sheet", *runs, "--output", str(tmp_path / "other.csv")])


@pytest.mark.parametrize(
    "key, sheet, received",
    [
        ("[]", "id,source,reference,A,B,better\n", "[]"),
        ('{"runs": ["a", "b"]}', "id,source,reference,A,B,better\n", "'runs'"),
        ('{"runs": ["a", "b"], "A": {"1": [0]}}', "id,source,reference,A,B,better\n", "[0]"),
        ('{"runs": ["a", "b"], "A": {"1": 0}}', "", "no id"),
        ('{"runs": ["a", "b"], "A": {"1": 0}}', "id,source,A,B,better\n1,x,y,z,A\n", "no reference"),
        ('{"runs": ["a", "b"], "A": {"1": 0}}', f"id,source,reference,A,B,better\n1,{'x' * 200_000},r,a,b,A\n", None),
    ],
)
def test_damaged_sheets_and_keys(tmp_path, key, sheet, received):
    (tmp_path / "sheet.csv").write_text(sheet)
    (tmp_path / "sheet.key.json").write_text(key)
    if received is None:
        assert tally(tmp_path / "sheet.csv") == (["a", "b"], {"better": (1, 0, 0)})
        return
    with refused("sheet", received):
        tally(tmp_path / "sheet.csv")
