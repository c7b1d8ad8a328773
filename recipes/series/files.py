"""Time series of files: `.ts` of the UEA and TSER archives, and CSV."""

import csv
import dataclasses
import math
import pathlib
import re

import numpy as np

from headattn_io.files import read_lines

OUTSIDE = re.compile(r":(?![^(]*\))")  # colons, but for those in time stamps
STAMPED = re.compile(r"\(([^()]*)\)")


@dataclasses.dataclass(frozen=True)
class SeriesSet:
    """Series and their targets.

    Args:
        name: str.
        series: list of float32 arrays `(n, channels)`, NaN for missing values.
        targets: list of str, or `None` where a file has none.
    """

    name: str
    series: list
    targets: list | None

    def __len__(self):
        return len(self.series)

    def subset(self, indices, name):
        """Returns the series with these indices."""
        return SeriesSet(name, [self.series[i] for i in indices], [self.targets[i] for i in indices])


def read_series(path, id_column=None, target_column="target", labelled=True):
    """Reads a `SeriesSet`; with `labelled`, a file without targets is an error."""
    is_ts = str(path).removesuffix(".gz").endswith(".ts")
    series, targets = _read_ts(path) if is_ts else _read_csv(path, id_column, target_column)
    if not series:
        raise ValueError(f"A file must have at least one series. Received: {path}")
    if labelled and targets is None:
        what = "@targetLabel or @classLabel true" if is_ts else f"a column {target_column!r} (--target-column)"
        raise ValueError(f"{path} must have {what}. Received: a file without")
    widths = sorted({each.shape[1] for each in series})
    if len(widths) > 1:
        raise ValueError(f"All series of {path} must have as many channels. Received: {widths[0]} and {widths[-1]}")
    return SeriesSet(pathlib.Path(path).name.split(".")[0], series, targets)


def _read_ts(path):
    header, series, targets, begun = {}, [], [], False
    for number, line in enumerate(read_lines(path), 1):
        if not line or line.startswith(("#", "%")):
            continue
        place = f"{path}, line {number}"
        if not begun and line.startswith("@"):
            name, *values = line[1:].split()
            header[name.lower()] = values
            begun = name.lower() == "data"
            continue
        if not begun:
            raise ValueError(f"{place} must come after @data. Received: {line[:40]!r}")
        parts = OUTSIDE.split(line)
        has_target = any(header.get(name, ["false"])[0].lower() == "true" for name in ("classlabel", "targetlabel"))
        if has_target:
            if len(parts) < 2:
                raise ValueError(f"{place} must end in a colon and the target. Received: {line[:40]!r}")
            targets.append(parts.pop().strip())
        stamped = header.get("timestamps", ["false"])[0].lower() == "true"
        channels = [_values(part, stamped, place) for part in parts]
        length = max(map(len, channels))
        series.append(_joined([each + [math.nan] * (length - len(each)) for each in channels]))
    if not begun:
        raise ValueError(f"A .ts file must have a line @data. Received: {path}")
    return series, targets if targets else None


def _joined(channels):
    return np.array(channels, "float32").T


def _values(text, stamped, place):
    parts = [each.rpartition(",")[2] for each in STAMPED.findall(text)] if stamped else text.split(",")
    return [_number(part, place) for part in parts if part.strip()]


def _number(text, place):
    text = text.strip()
    if text in ("", "?") or text.lower() == "nan":
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if math.isinf(value):
        raise ValueError(f"{place}: a value must be a finite number, or ? if it is missing. Received: {text[:40]!r}")
    return value


def _read_csv(path, id_column, target_column):
    """Reads rows that are series, or with `id_column` steps of them, whose other columns are channels."""
    rows = csv.reader(read_lines(path))
    names = next(rows, [])
    if id_column and id_column not in names:
        raise ValueError(f"--id-column must be a column of {path}. Received: {id_column!r}, not in {', '.join(names)}")
    others = [place for place, name in enumerate(names) if name not in (id_column, target_column)]
    target = names.index(target_column) if target_column in names else None
    found, targets = {}, {}
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        place = f"{path}, line {number}"
        if len(row) != len(names):
            raise ValueError(f"{place} must have {len(names)} columns. Received: {len(row)}")
        key = row[names.index(id_column)] if id_column else number
        found.setdefault(key, []).append([_number(row[other], place) for other in others])
        if target is not None and targets.setdefault(key, row[target].strip()) != row[target].strip():
            raise ValueError(f"{place}: all steps of a series must have one target. Received: {row[target]!r}")
    series = [np.array(steps, "float32") if id_column else _trimmed(_joined(steps)) for steps in found.values()]
    return series, None if target is None else list(targets.values())


def _trimmed(series):
    """Leaves out empty cells at the end of a row."""
    real = np.flatnonzero(~np.isnan(series).all(axis=1))
    return series[: real[-1] + 1 if len(real) else 1]
