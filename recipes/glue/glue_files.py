"""Readers of the tasks of GLUE: its files as they are distributed, and TensorFlow Datasets."""

import pathlib

import numpy as np

from keras_headattn._files import is_number, read_lines
from keras_headattn.data._labelled_text import LabelledText
from recipes.engine.texts.data import read_tfds_labelled

# First columns of header lines.
HEADERS = ("index", "id", "sentence", "quality")
FILES_OF_MSR = {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"}  # Microsoft's MRPC
IDS_OF_DEV = "mrpc_dev_ids.tsv", "dev_ids.tsv"  # GLUE's choice of its dev set from them
NUM_DEV = 408
SHOWN = 3  # damaged rows that are named


def read_split(folder, task, split, seed=0):
    """Reads a part of a task from the folder of GLUE as `LabelledText`; the labels of a test set are "".

    Args:
        folder: path of the folder of all tasks, or of this one.
        task: `GlueTask`.
        split: str, the file without its ending: "train", "dev", "test_matched", "ax", ...
        seed: int, of the choice of a dev set, where there are Microsoft's files of MRPC and no list of GLUE's.
    """
    path = find(folder, task, split)
    if path is None and task.name == "mrpc":
        return _read_msr(task_folder(folder, task), task, split, seed)
    if path is None:
        raise FileNotFoundError(
            f"{task.folder} needs a file {split}.tsv, as GLUE has it, in the folder or in {task.folder}/ there. "
            f"Received: {folder}"
        )
    return read_file(path, task, split)


def find(folder, task, split):
    """Finds a file of a task; `None` if it is not there."""
    if split == "ax":
        names = ("AX", "diagnostic", ".", "MNLI")
        paths = [pathlib.Path(folder, name, file) for name in names for file in ("diagnostic.tsv", "AX.tsv")]
    else:
        paths = [task_folder(folder, task) / f"{split}.tsv"]
    return next((path for path in paths if path.is_file()), None)


def task_folder(folder, task):
    """Finds the folder of a task within that of GLUE; without one, that is the folder itself."""
    folder = pathlib.Path(folder)
    names = {task.folder.lower(), task.name}
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return next((path for path in paths if path.is_dir() and path.name.lower() in names), folder)


def read_file(path, task, split="train", encoding="utf-8"):
    """Reads a file of a task, plain or `.gz`, in the columns of a split, as `LabelledText`.

    Rows that are short or damaged are counted and named; those of tests are kept. A file without whole rows is a
    `ValueError`.
    """
    rows = (line.rstrip("\r\n").split("\t") for line in read_lines(path, strip=False, encoding=encoding))
    columns, is_test = task.columns_of(split), split in task.tests
    width, examples, damaged = None, [], []
    for line_number, row in enumerate(rows, 1):
        if row == [""]:
            continue
        if width is None:
            is_header = row[0].lower() in HEADERS
            width = task.num_columns if task.num_columns and not is_header else len(row)
            if is_header:
                continue
        label_column = task.label_column if task.label_column >= 0 else width - 1
        texts, label, error = _checked(row, width, columns, None if is_test else label_column, task)
        if error:
            damaged.append(f"line {line_number} has {error}")
        if is_test or not error:
            examples.append((*texts, label))
    if not examples:
        raise ValueError(
            f"{task.folder}'s files have, with tabs between, "
            f"{_columns_text(task, columns, None if is_test else task.label_column)}; texts of your own need no "
            f"--task. {path} has no whole row of {task.folder}. Received: {'; '.join(damaged[:1]) or 'no rows'}"
        )
    if damaged:
        _report(path, damaged, len(examples), is_test)
    *sides, labels = (list(values) for values in zip(*examples, strict=True))
    return LabelledText(sides[0], labels, str(path), sides[1] if len(sides) > 1 else None)


def _columns_text(task, columns, label_column):
    """Describes the columns of a file of a task, from 1."""
    shown = [f"{field} in column {column + 1}" for field, column in zip(task.fields, columns, strict=True)]
    if label_column is not None:
        shown.append("the label in " + (f"column {label_column + 1}" if label_column >= 0 else "the last column"))
    return ", ".join(shown)


def _checked(row, width, columns, label_column, task):
    """Returns the texts and the label of a row, and its fault or `None`."""
    texts = [row[column].strip() if column < len(row) else "" for column in columns]
    label = row[label_column].strip() if label_column is not None and label_column < len(row) else ""
    if len(row) < width:
        return texts, label, f"{len(row)} columns of {width}"
    if not all(texts):
        beyond = max(columns) >= len(row)
        return texts, label, f"{len(row)} columns alone" if beyond else "no text"
    if label_column is not None and not _is_label(label, task):
        return texts, label, f"the label {label!r}"
    return texts, label, None


def _is_label(label, task):
    return label in task.labels if task.labels else is_number(label)


def _report(path, damaged, kept, is_test):
    rows = kept if is_test else kept + len(damaged)
    what = "are damaged, and predicted all the same" if is_test else "are damaged and left out"
    more = "" if len(damaged) <= SHOWN else "; ..."
    print(f"{path}: {len(damaged):,} of {rows:,} rows {what}: {'; '.join(damaged[:SHOWN])}{more}")


def _read_msr(folder, task, split, seed):
    """Reads a part of MRPC from Microsoft's own files; GLUE's dev set is a part of their training set."""
    name = FILES_OF_MSR["test" if split == "test" else "train"]
    if not (folder / name).is_file():
        raise FileNotFoundError(f"MRPC needs a file {split}.tsv, or {name} as Microsoft has it. Received: {folder}")
    corpus = read_file(folder / name, task, split)
    if split == "test":
        return corpus
    ids = next((folder / name for name in IDS_OF_DEV if (folder / name).is_file()), None)
    if ids is None:
        if split == "dev":  # the training set is read, too
            print(f"{folder} has no {IDS_OF_DEV[0]}: {NUM_DEV} training pairs, chosen by seed {seed}, are the dev set.")
        order = np.random.default_rng(seed).permutation(len(corpus))
        is_dev = np.isin(np.arange(len(corpus)), order[:NUM_DEV])
    else:
        chosen = {tuple(line.split("\t")) for line in read_lines(ids)}
        rows = [line.rstrip("\r\n").split("\t") for line in read_lines(folder / name, strip=False)][1:]
        is_dev = np.array([tuple(row[1:3]) in chosen for row in rows if row != [""]])
        if len(is_dev) != len(corpus):
            raise ValueError(f"{folder / name} has damaged rows. Get it again. Received: {len(is_dev)} rows")
    return corpus.take(np.flatnonzero(is_dev == (split == "dev")).tolist())


def read_tfds_split(task, split, is_test=False):
    """Reads a part of a task from TensorFlow Datasets, with labels as in the files, in GLUE's order.

    "ax" is the test set of a data set of its own.
    """
    name, split = ("glue/ax", "test") if split == "ax" else (f"glue/{task.name}", split)
    first, second = (*task.fields, None)[:2]
    corpus = read_tfds_labelled(name, split, first, "idx" if is_test else "label", second)
    if is_test:
        corpus = corpus.take(np.argsort(np.array(corpus.labels, "int64"), kind="stable").tolist())
        labels = [""] * len(corpus)
    else:
        labels = [task.labels[task.words.index(label)] if label in task.words else label for label in corpus.labels]
    return LabelledText(corpus.texts, labels, corpus.name, corpus.second_texts)
