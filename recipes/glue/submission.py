"""Predictions of finished runs for GLUE's test sets, as files in the server's format, and a zip of all."""

import io
import zipfile

import numpy as np

from keras_headattn._files import write_atomically
from recipes.engine.progress import progress_bar
from recipes.glue.glue_tasks import MAJORITY, SUBMISSION


def predict_tests(run, config, predictor, corpora):
    """Writes a run's predictions for test sets to the folder `submission` of the run.

    `corpora` are `LabelledText` by the name of a file in a submission.
    """
    labels = config.glue_task.labels
    for name, corpus in corpora.items():
        shown = progress_bar(f"Reading {name}", len(corpus), config.quiet)
        predictions = predictor(corpus.texts, corpus.second_texts, shown)
        if labels:  # the first one in place of other texts, which T5 may write
            cells = [cell if cell in labels else labels[0] for cell in predictor.targets.cells(predictions)]
        else:
            cells = clipped(predictions[:, 0])
        path = run.folder / "submission" / f"{name}.tsv"
        write_atomically(path, rows_text(cells).encode("utf-8"))
        print(f"{path}: {len(cells):,} rows")


def clipped(values):
    """Numbers from 0 to 5, as STS-B wants them.

    >>> clipped([3.6927, -0.2, 5.4])
    ['3.693', '0.000', '5.000']
    """
    return [f"{value:.3f}" for value in np.clip(values, 0, 5)]


def rows_text(cells):
    """Returns a file of predictions, a row each.

    >>> rows_text(["entailment", "neutral"]).splitlines()
    ['index\\tprediction', '0\\tentailment', '1\\tneutral']
    """
    return "\n".join(["index\tprediction", *(f"{row}\t{cell}" for row, cell in enumerate(cells))]) + "\n"


def collect(runs, fill):
    """Collects the files of a submission from runs: dictionary of names to bytes.

    The files in `fill` are of no run: each row has the majority's label. A file that is missing, is there twice, or has
    not the rows of GLUE's test set is an error.
    """
    files = {}
    for run in runs:
        for path in sorted((run.folder / "submission").glob("*.tsv")):
            if path.stem in files:
                raise ValueError(f"Two runs have predicted {path.stem}. Received: {run.folder} and another")
            files[path.stem] = path.read_bytes()
    if known := sorted(files.keys() & set(fill)):
        raise ValueError(f"--fill is for files of no run. Received: {', '.join(known)}, which a run has predicted")
    for name in fill:
        files.setdefault(name, rows_text([MAJORITY[name]] * SUBMISSION[name][1]).encode())
    if missing := [name for name in SUBMISSION if name not in files]:
        raise ValueError(
            f"A submission has {len(SUBMISSION)} files; --fill writes the majority's label for those of no run. "
            f"Received: no {', '.join(missing)}"
        )
    for name, content in files.items():
        check_file(name, content)
    return {name: files[name] for name in SUBMISSION}


def check_file(name, content):
    """Checks the header, the rows and the labels of a file, as the server does."""
    task, rows = SUBMISSION[name]
    header, *lines = content.decode("utf-8").splitlines()
    if header != "index\tprediction" or len(lines) != rows:
        raise ValueError(
            f"{name}.tsv must have a header and {rows:,} rows. Received: {header!r} and {len(lines):,} rows"
        )
    for row_index, line in enumerate(lines):
        index, _, cell = line.partition("\t")
        if index != str(row_index) or not (cell in task.labels if task.labels else _is_grade(cell)):
            raise ValueError(
                f"{name}.tsv, row {row_index} must be {row_index}, a tab and a prediction. Received: {line!r}"
            )


def _is_grade(cell):
    try:
        return 0 <= float(cell) <= 5
    except ValueError:
        return False


def write_zip(path, files):
    """Writes the files of `collect` to a zip, in full or not at all."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.tsv", (2020, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    write_atomically(path, data.getvalue())
