"""Time series of files: `.ts` of the UEA and TSER archives, and CSV."""

import dataclasses
import math
import pathlib
import re

import numpy as np

from keras_headattn._files import parse_number, read_lines
from keras_headattn.data._labelled_text import read_csv

AFTER_STEPS = re.compile(r"(?<=[),:?])\s*:")  # colons that end a channel of time stamps
STAMPED = re.compile(r"\(([^()]*)\)")
FLAGS = ("classlabel", "targetlabel", "timestamps", "univariate")
SIZES = ("dimensions", "dimension")
INDEX = ("", "Unnamed: 0")  # names of the first column that pandas writes, and reads


@dataclasses.dataclass(frozen=True)
class SeriesSet:
    """Series and their targets.

    Args:
        name: str.
        series: list of float32 arrays `(n, channels)`, NaN for missing values.
        targets: list of str, or `None` where a file has none.
        channels: their names, or `None` where they have none.
    """

    name: str
    series: list
    targets: list | None
    channels: list | None = None

    def __len__(self):
        return len(self.series)

    def subset(self, indices, name):
        """Returns the series with these indices."""
        return SeriesSet(name, [self.series[i] for i in indices], [self.targets[i] for i in indices], self.channels)


def read_series(path, id_column=None, target_column="target", labelled=True, encoding="utf-8"):
    """Reads a `SeriesSet`; with `labelled`, a file or a series without target is an error."""
    is_ts = str(path).removesuffix(".gz").endswith(".ts")
    channels, rows = (
        (None, list(_ts_rows(path, encoding))) if is_ts else _csv_rows(path, id_column, target_column, encoding)
    )
    if not rows:
        raise ValueError(f"A file must have at least one series. Received: {path}")
    places, series, targets = zip(*rows, strict=True)
    if labelled and targets[0] is None:
        what = "@targetLabel or @classLabel true" if is_ts else f"a column {target_column!r} (--target-column)"
        raise ValueError(f"{path} must have {what}. Received: a file without")
    for location, values, target in rows:
        if labelled and not target:
            raise ValueError(f"{location}: every series must have a target. Received: none")
        if values.shape[1] != series[0].shape[1]:
            raise ValueError(
                f"{location}: all series of a file must have as many channels. "
                f"Received: {series[0].shape[1]} and {values.shape[1]}"
            )
        if not len(values):
            raise ValueError(f"{location}: every series must have a step. Received: none")
    name = pathlib.Path(path).name.split(".")[0]
    return SeriesSet(name, list(series), None if targets[0] is None else list(targets), channels)


def _ts_rows(path, encoding):
    """Yields the place, the series and the target of each row; the target is `None` if the file has none."""
    header = {}
    for line_number, line in enumerate(read_lines(path, encoding=encoding), 1):
        location = f"{path}, line {line_number}"
        if not line or line.startswith(("#", "%")):
            continue
        if "data" in header:
            yield location, *_ts_row(line, header, location)
        elif line.startswith("@"):
            name, *values = line[1:].split() or [""]
            header[name.lower()] = _checked_header(name.lower(), values, location)
        else:
            raise ValueError(f"{location} must come after @data. Received: {line[:40]!r}")
    if "data" not in header:
        raise ValueError(f"A .ts file must have a line @data. Received: {path}")


def _checked_header(name, values, location):
    first = values[0].lower() if values else ""
    if name in FLAGS and first not in ("true", "false"):
        raise ValueError(f"{location}: @{name} must be true or false. Received: {first!r}")
    if name in SIZES and not re.fullmatch("[0-9]{1,9}", first):
        raise ValueError(f"{location}: @{name} must be a number of channels. Received: {first!r}")
    return [first, *values[1:]]


def _ts_row(line, header, location):
    """Returns the series and the target of a row, which must be as the header says."""
    flags = {name: header.get(name, ["false"])[0] == "true" for name in FLAGS}
    parts, target = AFTER_STEPS.split(line) if flags["timestamps"] else line.split(":"), None
    if flags["classlabel"] or flags["targetlabel"]:
        if len(parts) < 2:
            steps = ", after steps (time stamp,value)" if flags["timestamps"] else ""
            raise ValueError(f"{location} must end in a colon and the target{steps}. Received: {line[:40]!r}")
        target, classes = parts.pop().strip(), header.get("classlabel", [""])[1:]
        if target and classes and target not in classes:
            raise ValueError(f"{location} must have a class of @classLabel, {', '.join(classes)}. Received: {target!r}")
    counts = [int(header[name][0]) for name in SIZES if name in header] + [1] * flags["univariate"]
    if counts and len(parts) != counts[0]:
        raise ValueError(f"{location} must have the channels of the header, {counts[0]}. Received: {len(parts)}")
    channels = _stamped_values(parts, location) if flags["timestamps"] else [_values(part, location) for part in parts]
    length = max(map(len, channels))
    return _joined([channel + [math.nan] * (length - len(channel)) for channel in channels]), target


def _joined(channels):
    return np.array(channels, "float32").T


def _values(text, location):
    parts = text.split(",")
    return [_number(part, location) for part in (parts if parts[-1].strip() else parts[:-1])]


def _stamped_values(parts, location):
    """Returns the values of channels of steps `(time stamp,value)`, whose time stamps must be the same."""
    channels = []
    for part in parts:
        steps = [step.rpartition(",") for step in STAMPED.findall(part)]
        if not all(comma for _, comma, _ in steps) or STAMPED.sub("", part).strip(", \t") not in ("", "?"):
            raise ValueError(f"{location}: steps must be (time stamp,value). Received: {part[:40]!r}")
        channels.append([(stamp.strip(), _number(value, location)) for stamp, _, value in steps])
    longest = max(channels, key=len)
    for channel in channels:
        for (stamp, _), (other, _) in zip(channel, longest, strict=False):
            if stamp != other:
                raise ValueError(
                    f"{location}: all channels of a series must have the same time stamps; write ? for a missing "
                    f"value. Received: {stamp!r} and {other!r}"
                )
    return [[value for _, value in channel] for channel in channels]


def _number(text, location):
    text = text.strip()
    if text in ("", "?") or text.lower() == "nan":
        return math.nan
    try:
        return parse_number(text)
    except ValueError as error:
        raise ValueError(
            f"{location}: a value must be a finite number of float32, or ? if it is missing. Received: {text[:40]!r}"
        ) from error


def _csv_rows(path, id_column, target_column, encoding):
    """Returns the names of channels, and the place, the series and the target of each row, or of each id.

    With `id_column` rows are steps, whose columns are channels; else channels have no names.
    """
    wanted = {target_column, id_column} - {None}
    rows = read_csv(path, encoding, None, wanted, header=True)
    names = next(rows, ("", []))[1]
    if not names:
        return None, []
    columns = _columns(path, names, id_column, target_column)
    target, key = (names.index(name) if name in names else None for name in (target_column, id_column))
    series = {}
    for location, row in rows:
        if len(row) != len(names):
            raise ValueError(f"{location} must have {len(names)} columns. Received: {len(row)}")
        if key is not None and not row[key]:
            raise ValueError(f"{location} must have an id in the column {id_column!r}. Received: an empty one")
        row_target = None if target is None else row[target]
        first, steps, known = series.setdefault(location if key is None else row[key], (location, [], row_target))
        steps.append([_number(row[index], location) for index in columns])
        if row_target != known:
            raise ValueError(f"{location}: all steps of a series must have one target. Received: {row_target!r}")
    if key is None:
        return None, [(first, _trimmed(_joined(steps)), target) for first, steps, target in series.values()]
    rows = [(first, np.array(steps, "float32"), target) for first, steps, target in series.values()]
    return [names[index] for index in columns], rows


def _columns(path, names, id_column, target_column):
    """Returns the places of the columns of values."""
    if id_column == target_column:
        raise ValueError(f"--id-column and --target-column must differ. Received: {id_column!r} for both")
    if id_column and id_column not in names:
        raise ValueError(f"--id-column must be a column of {path}. Received: {id_column!r}, not in {', '.join(names)}")
    known = names[1:] if names[0] in INDEX else names
    if len({*known, ""}) <= len(known):
        raise ValueError(f"{path}: every column needs a name of its own. Received: {', '.join(names)}")
    columns = [index for index, name in enumerate(names) if name in known and name not in (id_column, target_column)]
    if not columns:
        raise ValueError(f"{path} must have a column of values beside id and target. Received: {', '.join(names)}")
    return columns


def _trimmed(series):
    """Leaves out empty cells at the end of a row."""
    real = np.flatnonzero(~np.isnan(series).all(axis=1))
    return series[: real[-1] + 1 if len(real) else 1]
