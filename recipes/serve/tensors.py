"""Tensors in the JSON of TensorFlow Serving's REST API."""

import base64
import functools
import json
import math
import reprlib

import numpy as np
import tensorflow as tf
from starlette.exceptions import HTTPException

from keras_headattn._files import parse_json

MOST_TEXT = 65_536  # bytes
MOST_AXES = 32  # of a tensor; NumPy allows 64


def parse(body):
    """Returns a request, a dictionary."""
    try:
        request = parse_json(body, "The body")
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    if not isinstance(request, dict):
        raise HTTPException(400, f"The body must be a JSON object. Received: {reprlib.repr(request)}")
    if not isinstance(name := request.get("signature_name", ""), str):
        raise HTTPException(400, f"'signature_name' must be a string. Received: {reprlib.repr(name)}")
    return request


def to_tensors(request, specs):
    """Returns a request's arrays by name, and True if it came in rows (`instances`), False for columns (`inputs`)."""
    is_rows = "instances" in request
    if is_rows == ("inputs" in request):
        received = reprlib.repr(sorted(request))
        raise HTTPException(
            400, f"A request must have either 'instances', rows, or 'inputs', columns. Received: the keys {received}"
        )
    columns = _columns(request["instances"], specs) if is_rows else request["inputs"]
    if len(specs) == 1 and not _is_object(columns):
        columns = {next(iter(specs)): columns}
    if not _is_object(columns) or columns.keys() != specs.keys():
        received = _described(columns, specs)
        raise HTTPException(400, f"The inputs must be objects with the keys {_keys(specs)}. Received: {received}")
    arrays = {name: _array(name, columns[name], spec.dtype) for name, spec in specs.items()}
    for name, array in arrays.items():
        if not specs[name].shape.is_compatible_with(array.shape):
            shape = ", ".join("?" if size is None else str(size) for size in specs[name].shape)
            columns = " Give 'inputs', not 'instances'." if is_rows and not shape else ""
            raise HTTPException(400, f"Input {name} must be of shape ({shape}).{columns} Received: shape {array.shape}")
    return arrays, is_rows


def _columns(instances, specs):
    """Returns rows of named tensors as columns, other rows as they are."""
    if not isinstance(instances, list) or not instances:
        raise HTTPException(400, f"'instances' must be a list of rows. Received: {reprlib.repr(instances)}")
    if not any(map(_is_object, instances)):
        return instances
    for index, row in enumerate(instances):
        if not _is_object(row) or row.keys() != specs.keys():
            received = _described(row, specs)
            raise HTTPException(400, f"'instances' [{index}] must have the keys {_keys(specs)}. Received: {received}")
    return {name: [row[name] for row in instances] for name in specs}


def _keys(specs):
    return ", ".join(sorted(specs))


def _described(value, specs):
    """Returns a value that should be an object with these keys, and which it lacks."""
    missing = _is_object(value) and ", ".join(sorted(specs.keys() - value.keys()))
    return reprlib.repr(value) + (f", without {missing}" if missing else "")


def _is_object(value):
    """Returns True for an object that names tensors, False for one that holds base64."""
    return isinstance(value, dict) and not (value.keys() == {"b64"} and isinstance(value["b64"], str))


def _array(name, value, dtype):
    nested = np.array(value, dtype=object)  # ragged and too deep lists stay lists
    if nested.ndim > MOST_AXES or any(isinstance(leaf, list) for leaf in nested.flat):
        message = f"Lists must be of equal sizes at each level, and at most {MOST_AXES} levels deep. Received: {name}"
        raise HTTPException(400, message)
    kinds = {str, dict} if dtype == tf.string else {bool} if dtype.is_bool else {int}
    kinds |= {float} if dtype.is_floating else set()
    try:
        for leaf in nested.flat:
            if type(leaf) not in kinds:
                raise ValueError(f"It must be {dtype.name}. Received: {reprlib.repr(leaf)}")
        if dtype == tf.string:
            most = math.inf if name == "images" or name.endswith("_bytes") else MOST_TEXT
            return np.array([_bytes(leaf, most) for leaf in nested.flat], object).reshape(nested.shape)
        with np.errstate(over="raise"):
            return nested.astype(dtype.as_numpy_dtype)
    except (ValueError, OverflowError, FloatingPointError) as error:
        raise HTTPException(400, f"Input {name}: {error}") from None


def _bytes(leaf, most):
    """Returns the bytes of a string or of base64, at most `most`."""
    if isinstance(leaf, str):
        data = leaf.encode("utf-8")  # a UnicodeEncodeError, of a lone surrogate, is a ValueError
    elif _is_object(leaf):
        raise ValueError(f"It must be a string or base64. Received: {reprlib.repr(leaf)}")
    else:
        data = base64.b64decode(leaf["b64"] + "=" * (-len(leaf["b64"]) % 4), validate=True)
    if len(data) > most:
        raise ValueError(f"A text may have {most:,} bytes. Received: {len(data):,} bytes")
    return data


def to_json(outputs, is_rows):
    """Returns an answer as bytes: rows if the request came in rows, else columns; a single output has no name."""
    sizes = {name: len(array) if array.ndim else None for name, array in outputs.items()}
    if is_rows and (None in sizes.values() or len(set(sizes.values())) > 1):
        raise HTTPException(400, f"The outputs have no rows in common: use 'inputs'. Received: batch sizes {sizes}")
    columns = {name: _values(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        (result,) = columns.values()
    elif is_rows:
        result = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        result = columns
    return json.dumps({"predictions" if is_rows else "outputs": result}, ensure_ascii=False).encode("utf-8")


def _values(name, array):
    if array.dtype == object:
        convert = _to_base64 if name.endswith("_bytes") else functools.partial(str, encoding="utf-8", errors="replace")
        return np.vectorize(convert, otypes=[object])(array).tolist()
    if array.dtype.name in ("float32", "float16", "bfloat16"):
        return array.astype("float32").astype("U").astype("float64").tolist()  # no spurious digits
    return array.tolist()


def _to_base64(data):
    return {"b64": base64.b64encode(data).decode("ascii")}
