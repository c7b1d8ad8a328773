"""Checkpoints as `.npz` files with checksums, written in full or not at all."""

import json
import math
import os
import zipfile

import numpy as np

from keras_headattn._files import atomic_file

_STATE = "state.json"
TAGS = _ARRAY, _TUPLE = "__array__", "__tuple__"  # reserved keys for types that JSON lacks


class DamagedCheckpoint(ValueError):
    """File that is not a checkpoint, or not as written."""


def write_checkpoint(path, state, arrays):
    arrays = dict(arrays)
    text = json.dumps(_take_arrays(state, arrays))
    with atomic_file(path) as file:
        np.savez(file, **{_STATE: np.frombuffer(text.encode(), "uint8")}, **arrays)


def read_checkpoint(path):
    """Reads a checkpoint and verifies its checksums: `(state, arrays)`. Dtypes unknown to NumPy come as raw bytes."""
    try:
        if not os.path.isfile(path):  # a pipe would block
            raise FileNotFoundError("no file")
        with open(path, "rb") as opened:
            _check_sizes(opened)
            with np.load(opened, allow_pickle=False) as file:
                arrays = dict(file)
        state = json.loads(arrays.pop(_STATE).tobytes())
        return _put_arrays(state, arrays), arrays
    except MemoryError:  # the file is not damaged, as its sizes are checked
        raise
    except Exception as error:  # zipfile, numpy, tokenize, zlib and json raise a dozen kinds
        raise DamagedCheckpoint(f"{path} is damaged ({type(error).__name__}: {error})") from error


def _check_sizes(file):
    """Checks that no array claims more memory than its part of the file has."""
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            with archive.open(info) as part:
                major, _ = np.lib.format.read_magic(part)
                read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(part)
                size = part.tell() + math.prod(shape) * dtype.itemsize
            if info.compress_type != zipfile.ZIP_STORED or size != info.file_size:
                raise ValueError(f"{info.filename} has {info.file_size} bytes instead of {size}")
    file.seek(0)


def _take_arrays(value, arrays):
    """Moves the arrays in `value` to `arrays`, and leaves their names."""
    if isinstance(value, dict):
        return {key: _take_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_take_arrays(item, arrays) for item in value]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    if isinstance(value, np.ndarray):
        name = f"state/{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: [name, str(value.dtype)]}
    return value.item() if isinstance(value, np.generic) else value


def _put_arrays(value, arrays):
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            name, dtype = value[_ARRAY]
            return arrays.pop(name).view(dtype)
        if value.keys() == {_TUPLE}:
            return tuple(_put_arrays(item, arrays) for item in value[_TUPLE])
        return {key: _put_arrays(item, arrays) for key, item in value.items()}
    return [_put_arrays(item, arrays) for item in value] if isinstance(value, list) else value
