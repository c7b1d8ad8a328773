"""Readers of series, and what they refuse."""

import time

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
    times = "2020-01-01 00:00:00", "2020-01-01 01:00:00"
    steps = ["({},1),({},?)".format(*times), "({}, 3), ({},4),".format(*times), f"({times[0]},5)", "?"]
    found = read_series(write("@timeStamps true\n@classLabel true\n@data\n" + ":".join(steps) + ":a)\n"))
    np.testing.assert_array_equal(found.series[0], [[1, 3, 5, np.nan], [np.nan, 4, np.nan, np.nan]])
    assert found.targets == ["a)"]


def test_empty_values_of_ts_keep_their_places(write):
    found = read_series(write("@classLabel true a) b\n@data\n1,,3,:4,5,6,7:,:a)\n"))
    np.testing.assert_array_equal(found.series[0].T, [[1, np.nan, 3, np.nan], [4, 5, 6, 7], [np.nan] * 4])
    assert found.targets == ["a)"]


def test_many_colons_are_read_at_once(write):
    row, stamped = "1:" * 100_000, "(0:00,1):" * 10_000
    begin = time.process_time()
    assert read_series(write(f"@data\n{row}2\n"), labelled=False).series[0].shape == (1, 100_001)
    found = read_series(write(f"@timestamps true\n@data\n{stamped}(0:00,2)\n"), labelled=False)
    assert found.series[0].shape == (1, 10_001) and time.process_time() - begin < 5


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


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_csv_of_other_programs(write, index):
    found = read_series(write(f"{index},s0,s1,target\n0,1,2,5\n1,3,4,6\n", "some.csv"))
    assert [each[:, 0].tolist() for each in found.series] == [[1, 2], [3, 4]] and found.targets == ["5", "6"]
    path = write("", "other.csv")
    path.write_bytes("id;Größe;target\na;1;5\n".encode("utf-16"))
    assert read_series(path, "id", encoding="utf-16").series[0].tolist() == [[1]]


@pytest.mark.parametrize("text, place, received", [
    (HEADER, "@data", "some_TRAIN.ts"),
    ("1,2:a\n", "line 1", "'1,2:a'"),
    ("@classLabel true\n@data\n1,2\n", "line 3", "'1,2'"),
    ("@classLabel true\n@data\n1,x:a\n", "line 3", "'x'"),
    ("@classLabel true\n@data\n1:2:a\n1:a\n", "line 4", "2 and 1"),
    ("@data\n", "series", "some_TRAIN.ts"),
    ("@classLabel true\n@data\n1,1e39:a\n", "line 3", "'1e39'"),
    ("@classLabel true\n@data\n1_0:a\n", "line 3", "'1_0'"),
    ("@classLabel true\n@data\n1,2:\n", "line 3", "none"),
    ("@classLabel true a b\n@data\n1,2:c\n", "line 3", "'c'"),
    ("@classLabel true\n@data\n:a\n", "line 3", "none"),
    ("@classLabel\n@data\n1:a\n", "line 1", "''"),
    ("@timestamps\n@data\n1:a\n", "line 1", "''"),
    ("@dimensions two\n@data\n1:a\n", "line 1", "'two'"),
    ("@dimensions 2\n@classLabel true\n@data\n1,2:a\n", "line 4", "1"),
    ("@univariate true\n@classLabel true\n@data\n1:2:a\n", "line 4", "2"),
    ("@timestamps true\n@classLabel true\n@data\n1,2:a\n", "steps (time stamp,value)", "'1,2"),
    ("@timestamps true\n@classLabel true\n@data\n(0,1),2:a\n", "line 4", "'(0,1),2"),
    ("@timestamps true\n@classLabel true\n@data\n(0,1),(1,2):(0,1),(2,2):a\n", "line 4", "'1'"),
])  # fmt: skip
def test_damaged_ts(write, text, place, received):
    with refused(place, received):
        read_series(write(text))


@pytest.mark.parametrize("text, id_column, place, received", [
    ("a,target\n1,2,3\n", None, "line 2", "3"),
    ("a,target\n1,2\n", "who", "--id-column", "'who', not in a, target"),
    ("who,a,target\np,1,2\np,1,3\n", "who", "line 3", "'3'"),
    ("a,b\n1,2\n", None, "--target-column", "a file without"),
    ("a,target\n1e39,2\n", None, "line 2", "'1e39'"),
    ("a,b,target\n1,2,\n3,4,up\n", None, "line 2", "none"),
    ("who,a,target\np,1,5\n,2,5\n", "who", "line 3", "an empty one"),
    ("who,a,target\np,1,5\n", "target", "--id-column", "'target' for both"),
    ("a,target,target\n1,2,3\n", None, "some.csv", "a, target, target"),
    ("a,,target\n1,2,3\n", None, "some.csv", "a, , target"),
    ("target\n5\n", None, "some.csv", "target"),
    ('a,target\n"1"2,3\n', None, "line 2", "expected after"),
    ("a,target\n1,2\r3,4\n", None, "line 2", "new-line"),
    ("a,target\n" + "1" * 200_000 + ",3\n", None, "line 2", "'111"),
])  # fmt: skip
def test_damaged_csv(write, text, id_column, place, received):
    with refused(place, received):
        read_series(write(text, "some.csv"), id_column)
