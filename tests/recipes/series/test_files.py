"""Readers of series, and what they refuse."""

import numpy as np
import pytest

from recipes.series.files import read_series
from tests.refusals import refused

HEADER = "#note\n@problemName Small\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="some_TRAIN.ts"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_ts_of_unequal_lengths_and_missing_values(write):
    text = HEADER + "@equalLength false\n@classLabel true a b\n@data\n1,2,?:4,NaN:a\n7:8:b\n"
    found = read_series(write(text))
    assert found.name == "some_TRAIN" and found.targets == ["a", "b"]
    np.testing.assert_array_equal(found.series[0], [[1, 4], [2, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(found.series[1], [[7, 8]])


def test_ts_with_time_stamps(write):
    text = (
        "@timeStamps true\n@targetLabel true\n@data\n(2020-01-01 00:00:00,1),(2020-01-01 01:00:00,?):(0,3),(1,4):0.5\n"
    )
    found = read_series(write(text))
    np.testing.assert_array_equal(found.series[0], [[1, 3], [np.nan, 4]])
    assert found.targets == ["0.5"]


def test_ts_without_targets(write):
    path = write(HEADER + "@classLabel false\n@data\n1,2:3,4\n")
    assert read_series(path, labelled=False).targets is None
    with refused("@targetLabel or @classLabel true", "a file without"):
        read_series(path)


def test_csv(write):
    long = write("who,a,b,y\np,1,2,0.5\np,3,,0.5\nq,5,6,0.7\n", "long.csv")
    found = read_series(long, "who", "y")
    np.testing.assert_array_equal(found.series[0], [[1, 2], [3, np.nan]])
    assert found.targets == ["0.5", "0.7"]
    wide = write("target,t0,t1,t2\na,1,2,\nb,3,4,5\n", "wide.csv")
    found = read_series(wide)
    assert [each[:, 0].tolist() for each in found.series] == [[1, 2], [3, 4, 5]] and found.targets == ["a", "b"]


@pytest.mark.parametrize("text, place, received", [
    (HEADER, "@data", "some_TRAIN.ts"),
    ("1,2:a\n", "line 1", "'1,2:a'"),
    ("@classLabel true\n@data\n1,2\n", "line 3", "'1,2'"),
    ("@classLabel true\n@data\n1,x:a\n", "line 3", "'x'"),
    ("@classLabel true\n@data\n1:2:a\n1:a\n", "channels", "1 and 2"),
    ("@data\n", "series", "some_TRAIN.ts"),
])  # fmt: skip
def test_damaged_ts(write, text, place, received):
    with refused(place, received):
        read_series(write(text))


@pytest.mark.parametrize("text, id_column, place, received", [
    ("a,target\n1,2,3\n", None, "line 2", "3"),
    ("a,target\n1,2\n", "who", "--id-column", "'who', not in a, target"),
    ("who,a,target\np,1,2\np,1,3\n", "who", "line 3", "'3'"),
    ("a,b\n1,2\n", None, "--target-column", "a file without"),
])  # fmt: skip
def test_damaged_csv(write, text, id_column, place, received):
    with refused(place, received):
        read_series(write(text, "some.csv"), id_column)
