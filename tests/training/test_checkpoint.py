"""A checkpoint is read as it was written, or not at all."""

import errno
import io
import os
import pickle
import zipfile

import ml_dtypes
import numpy as np
import pytest

from keras_headattn.training._resume.checkpoint import DamagedCheckpoint, read_checkpoint, write_checkpoint

STATE = {"epoch": 3, "loss": 0.1, "nan": [None, True], "best": {"weights": [np.arange(3.0)], "wait": np.int64(2)}}
ARRAYS = {"dense/kernel": np.arange(6, dtype="float32").reshape(2, 3), "step": np.array(7, "int64")}


def assert_as_written(path):
    state, arrays = read_checkpoint(path)
    np.testing.assert_array_equal(state["best"]["weights"].pop(), np.arange(3.0))
    assert state == {"epoch": 3, "loss": 0.1, "nan": [None, True], "best": {"weights": [], "wait": 2}}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)


@pytest.fixture
def path(tmp_path):
    write_checkpoint(tmp_path / "checkpoint.npz", STATE, ARRAYS)
    return tmp_path / "checkpoint.npz"


def test_round_trip(path):
    assert_as_written(path)
    assert os.listdir(path.parent) == [path.name]


def test_bfloat16_comes_back_as_its_bytes(tmp_path):
    values = np.array([1.5, -3.0, np.inf], ml_dtypes.bfloat16)
    write_checkpoint(tmp_path / "a.npz", {}, {"x": values})
    _, arrays = read_checkpoint(tmp_path / "a.npz")
    np.testing.assert_array_equal(arrays["x"].view(ml_dtypes.bfloat16), values)


def test_state_comes_back_as_it_was(tmp_path):
    values = np.array([1.5, -3.0], ml_dtypes.bfloat16)
    state = {"a": {"array": "text"}, "best": (0.5, [1, (2,)]), "weights": [values]}
    write_checkpoint(tmp_path / "a.npz", state, {})
    found, arrays = read_checkpoint(tmp_path / "a.npz")
    weights = found["weights"].pop()
    assert weights.dtype == values.dtype and not arrays
    np.testing.assert_array_equal(weights, values)
    assert found == {"a": {"array": "text"}, "best": (0.5, [1, (2,)]), "weights": []}


def test_every_flipped_byte_is_noticed_or_harmless(path):
    data = path.read_bytes()
    noticed = 0
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :])
        try:
            assert_as_written(path)
        except DamagedCheckpoint:
            noticed += 1
    assert noticed > len(data) / 2  # the rest are dates and the like of the zip format


def test_every_truncation_is_noticed(path):
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DamagedCheckpoint, match="is damaged"):
            read_checkpoint(path)


def write_parts(path, parts, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(f"{name}.npy", data)


def part(array, **header):
    file = io.BytesIO()
    np.save(file, array)
    text = repr({"descr": array.dtype.str, "fortran_order": False, "shape": array.shape} | header).encode()
    size = int.from_bytes(file.getvalue()[8:10], "little")
    return file.getvalue()[:10] + text.ljust(size - 1) + b"\n" + array.tobytes()


STATE_PART = part(np.frombuffer(b"{}", "uint8"))


@pytest.mark.parametrize("parts", [
    {"state.json": part(np.frombuffer(b"[" * 100_000, "uint8"))},
    {"state.json": part(np.frombuffer(b'{"__array__": 5}', "uint8"))},
    {"state.json": STATE_PART, "x": part(np.zeros(2), shape=(10**12,))},  # 8 TB
    {"state.json": STATE_PART, "x": part(np.zeros(2), shape=(1,))},
    {"state.json": STATE_PART, "x": part(np.zeros(2), shape=(-1,))},
    {"state.json": STATE_PART, "x": part(np.zeros(2), shape=())},
    {"state.json": STATE_PART, "x": part(np.zeros(2), descr="|O")},
    {"state.json": STATE_PART, "x": part(np.zeros(2), descr="((((")},
    {"state.json": STATE_PART, "x": pickle.dumps([1])},
    {"state.json": STATE_PART, "x": b""},
    {"x": part(np.zeros(2))},
])  # fmt: skip
def test_parts_that_are_not_what_they_say(tmp_path, parts):
    write_parts(tmp_path / "a.npz", parts)
    with pytest.raises(DamagedCheckpoint, match="a.npz is damaged"):
        read_checkpoint(tmp_path / "a.npz")


def test_a_part_that_grows(tmp_path):
    """Zeros of 100 MB, in a file of 100 kB."""
    write_parts(tmp_path / "a.npz", {"state.json": STATE_PART, "x": part(np.zeros(10**7))}, zipfile.ZIP_DEFLATED)
    with pytest.raises(DamagedCheckpoint, match="a.npz is damaged"):
        read_checkpoint(tmp_path / "a.npz")


def test_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(DamagedCheckpoint, match="no file"):
        read_checkpoint(tmp_path / "pipe.npz")
    with pytest.raises(DamagedCheckpoint, match="FileNotFoundError"):
        read_checkpoint(tmp_path / "nothing.npz")


def test_a_full_disk_leaves_the_old_one(path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(path, STATE | {"epoch": 4}, ARRAYS)
    assert_as_written(path)
    assert os.listdir(path.parent) == [path.name]
