"""Blind comparison of the texts of two runs by people: a sheet to fill in, its key, and the tally."""

import csv
import io
import json
import pathlib
import random

from keras_headattn._files import read_json, read_lines, remove_halves, write_atomically
from keras_headattn.data._labelled_text import read_csv
from recipes.engine.finished import folders_of_seeds, titles
from recipes.engine.tables import table

COLUMNS = ("id", "source", "reference", "A", "B")  # before the criteria
ANSWERS = {"a": 0, "b": 1, "=": None}


def key_of(sheet):
    """Returns the path of a sheet's key: `sheet.key.json` of `sheet.csv`."""
    return pathlib.Path(sheet).with_suffix(".key.json")


def write_sheet(folders, output, test=None, count=50, criteria=("better",), seed=0, shown=str):
    """Writes a sheet and its key: texts of two runs for the same inputs, in an order drawn anew for each.

    Inputs for which both wrote the same are left out.

    Args:
        folders: two, of finished runs that wrote texts, or of their seeds, of which the first is taken.
        output: path of the sheet, a CSV file.
        test: name of the test set. Default `None`: the first that both have.
        count: most inputs, chosen at random.
        criteria: names of the columns to fill in.
        seed: of the choice and of the order.
        shown: function from a line of sources to what people read.
    """
    if count < 1 or set(criteria) & set(COLUMNS):
        raise ValueError(
            f"--examples must be at least 1, and --criteria other than {', '.join(COLUMNS)}. "
            f"Received: examples={count}, criteria={' '.join(criteria)}"
        )
    output = pathlib.Path(output)
    if output.exists():
        raise ValueError(f"A sheet that may be filled in is not replaced. Give another --output. Received: {output}")
    remove_halves(output.parent, f"{output.name.partition('.')[0]}.")
    runs = [next(iter(folders_of_seeds(folder)), pathlib.Path(folder)) for folder in folders]
    test = _common_test(runs, test)
    texts = [{name: _lines(run, test, name) for name in ("sources", "references", "hypotheses")} for run in runs]
    if texts[0]["sources"] != texts[1]["sources"]:
        raise ValueError(f"The runs must have the same test set. Received: {test} of other sources")
    both = list(zip(*(each["hypotheses"] for each in texts), strict=True))
    places = [place for place, (first, second) in enumerate(both) if first != second]
    if not places:
        raise ValueError(f"The texts of the runs must differ. Received: {test}, {len(both)} of {len(both)} equal")
    print(f"{test}: the runs wrote the same for {len(both) - len(places)} of {len(both)} inputs, which are left out.")
    drawn = random.Random(seed)
    chosen = sorted(drawn.sample(places, min(count, len(places))))
    file, first = io.StringIO(), []
    writer = csv.writer(file)
    writer.writerow([*COLUMNS, *criteria])
    for place in chosen:
        first.append(drawn.randrange(2))  # the run that is A
        a, b = both[place][first[-1]], both[place][1 - first[-1]]
        cells = map(_no_formula, (shown(texts[0]["sources"][place]), texts[0]["references"][place], a, b))
        writer.writerow([place + 1, *cells, *[""] * len(criteria)])
    is_a = {str(place + 1): run for place, run in zip(chosen, first, strict=True)}
    key = {"runs": titles(folders), "set": test, "seed": seed, "A": is_a}
    write_atomically(key_of(output), (json.dumps(key, indent=1) + "\n").encode("utf-8"))  # a sheet is never without
    write_atomically(output, file.getvalue().encode("utf-8-sig"))  # a spreadsheet takes it for UTF-8
    print(
        f"{output}: {len(chosen)} pairs. Fill in A, B or = under {', '.join(criteria)}. "
        f"{key_of(output)} is not for who judges."
    )


def _common_test(runs, test):
    """Returns `test`, which all runs must have, or for `None` the first test set that they have."""
    tests = [{path.parent.name for path in run.glob("results/*/hypotheses.txt")} for run in runs]
    common = sorted(set.intersection(*tests))
    if test not in (None, *common) or not common:
        raise ValueError(f"--set must be one that both wrote: {', '.join(common) or 'there is none'}. Received: {test}")
    return test or common[0]


def _no_formula(text):
    """Returns a cell that a spreadsheet shows as it is."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _lines(run, test, name):
    return list(read_lines(run / "results" / test / f"{name}.txt"))


def tally(sheet):
    """Counts what a filled sheet says of the first run: the titles of both, and wins, ties, losses by criterion."""
    titles, is_a = _read_key(key_of(sheet))
    header, *rows = [fields for _, fields in read_csv(sheet, "utf-8", None, COLUMNS, header=True)] or [[]]
    if missing := [name for name in COLUMNS if name not in header]:
        raise ValueError(f"{sheet} must have the columns {', '.join(COLUMNS)}. Received: no {', '.join(missing)}")
    counts = {name: {0: 0, None: 0, 1: 0} for name in header if name not in COLUMNS}
    for row in (dict(zip(header, fields, strict=False)) for fields in rows):
        for name in counts:
            answer = row.get(name, "").lower()
            if answer and (answer not in ANSWERS or row["id"] not in is_a):
                raise ValueError(
                    f"{sheet} must have A, B or =, for the ids of its key. "
                    f"Received: id={row['id']!r}, {name}={row[name]!r}"
                )
            if answer:
                better = ANSWERS[answer]
                counts[name][None if better is None else better ^ is_a[row["id"]]] += 1
    return titles, {name: tuple(found.values()) for name, found in counts.items()}


def _read_key(path):
    """Returns the titles of the two runs, and which of them is A by id."""
    key = read_json(path)
    titles, is_a = (key.get("runs"), key.get("A")) if isinstance(key, dict) else (None, None)
    pair = isinstance(titles, list) and len(titles) == 2
    if not (pair and isinstance(is_a, dict) and all(isinstance(x, int) and x in (0, 1) for x in is_a.values())):
        raise ValueError(f"{path} must have two `runs`, and 0 or 1 by id as `A`. Received: {str(key)[:80]}")
    return titles, is_a


def tally_text(sheet):
    """Returns a table of a filled sheet, with a Wilson interval and a sign test of the pairs that were decided."""
    from scipy import stats

    (first, second), counts = tally(sheet)
    rows = []
    for name, (wins, ties, losses) in counts.items():
        rows.append([name, str(wins), str(ties), str(losses), "–", "–", "–"])
        if wins + losses:
            result = stats.binomtest(wins, wins + losses)
            low, high = result.proportion_ci(0.95, "wilson")
            rows[-1][4:] = f"{wins / (wins + losses):.1%}", f"{low:.1%} to {high:.1%}", f"{result.pvalue:.2g}"
    header = ["wins", "ties", "losses", "wins of those decided", "95 % interval", "p"]
    note = "Wilson's interval; p of a two-sided sign test. Both are of the pairs without ties."
    return "\n".join([f"{first} against {second}", "", *table(header, rows), "", note])
