"""Tensors in the JSON of TensorFlow Serving's REST API, and its error messages."""

import base64
import binascii
import json
import math
import re

import numpy as np
import tensorflow as tf

from keras_headattn._files import parse_json

# Lines of a graph's error message without a reason.
NO_REASON = re.compile(r"Graph execution error|Detected at node|<stack traces|\[\[|\d+ root error")
SHOWN = 80  # characters of a value in a message
MOST_AXES = 32  # of a tensor; NumPy allows 64
KINDS = {type(None): "Null", bool: "Bool", dict: "Object", str: "String", int: "Number", float: "Number"}


class RequestError(Exception):
    """Error to answer a request with: an HTTP status and a message for the client."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(message):
    return RequestError(400, message)


def parse(body):
    try:
        request = parse_json(body, "JSON Parse error: The body")
    except ValueError as error:
        raise bad_request(str(error)) from None
    if not isinstance(request, dict):
        raise bad_request(f"JSON Value: {_shown(request)} Is not object")
    return request


def signature_name(request):
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise bad_request(
            f"JSON Value: {_shown(request)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return name or "serving_default"


def text_limit(name, max_text):
    """Returns the most bytes of a string of an input; files are not limited."""
    return math.inf if name == "images" or name.endswith("_bytes") else max_text


def to_tensors(request, specs, optional, max_text):
    """Returns a request's arrays by name, and True if it came in rows (`instances`), False for columns (`inputs`).

    `specs` are those of all inputs, `optional` the names of those that may be missing.
    """
    is_rows = "instances" in request
    if is_rows and "inputs" in request:
        raise bad_request("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    if not is_rows and "inputs" not in request:
        raise bad_request("Missing 'inputs' or 'instances' key")
    columns = _columns(request["instances"], specs, optional) if is_rows else request["inputs"]
    if not _is_object(columns):
        if len(specs) != 1:
            key = "instances" if is_rows else "inputs"
            raise bad_request(
                f"{key} must be objects with the keys {', '.join(sorted(specs))}. Received: values or lists"
            )
        columns = {next(iter(specs)): columns}
    if missing := [name for name in specs if name not in columns and name not in optional]:
        raise bad_request(f"Missing named input: {missing[0]} in 'inputs' object.")
    specs = {name: spec for name, spec in specs.items() if name in columns}
    tensors = {name: _array(columns[name], spec.dtype, text_limit(name, max_text)) for name, spec in specs.items()}
    for name, spec in specs.items():
        if not spec.shape.is_compatible_with(tensors[name].shape):
            shapes = _shape(spec.shape), _shape(tensors[name].shape)
            raise bad_request(f"Input {name} must be of shape {shapes[0]}. Received: shape {shapes[1]}")
    return tensors, is_rows


def _columns(instances, specs, optional):
    """Returns rows of named tensors as columns, other rows as they are."""
    if not isinstance(instances, list):
        raise bad_request(f"JSON Value: {_shown(instances)} Excepting 'instances' to be an list/array")
    if not instances:
        raise bad_request("No values in 'instances' array")
    if not any(map(_is_object, instances)):
        return instances
    if _is_object(instances[0]):
        specs = {name: spec for name, spec in specs.items() if name in instances[0] or name not in optional}
    for index, row in enumerate(instances):
        if not _is_object(row) or row.keys() != specs.keys():
            raise bad_request(
                f"Failed to process element: {index} of 'instances' list. JSON object: {_shown(row)} keys must "
                f"be equal to: {','.join(sorted(specs))}"
            )
    return {name: [row[name] for row in instances] for name in specs}


def _is_object(value):
    """Returns True for an object that names tensors, False for one that holds base64."""
    return isinstance(value, dict) and not (value.keys() == {"b64"} and isinstance(value["b64"], str))


def _array(value, dtype, max_text):
    nested = np.array(value, dtype=object)  # ragged and too deep lists stay lists
    if nested.ndim > MOST_AXES or any(isinstance(leaf, list) for leaf in nested.flat):
        raise bad_request(f"Lists must be of equal sizes at each level, and at most {MOST_AXES} levels deep.")
    array = np.empty(nested.size, dtype.as_numpy_dtype)
    is_text, limits = dtype == tf.string, _limits(dtype)
    for index, leaf in enumerate(nested.flat):
        try:
            array[index] = _bytes(leaf, max_text) if is_text else _number(leaf, dtype, limits)
        except RequestError as error:
            place = _shape(np.unravel_index(index, nested.shape))
            raise bad_request(f"Failed to process element: {place}. {error.message}") from None
    return array.reshape(nested.shape)


def _number(leaf, dtype, limits):
    if type(leaf) not in limits:
        raise _wrong_type(leaf, dtype)
    low, high = limits[type(leaf)]
    if not low <= leaf <= high and (type(leaf) is not float or math.isfinite(leaf)):
        raise bad_request(f"Cannot convert JSON value: {_shown(leaf)} to {dtype.name} without loss.")
    return leaf


def _wrong_type(value, dtype):
    return bad_request(f"JSON Value: {_shown(value)} Type: {KINDS[type(value)]} is not of expected type: {dtype.name}")


def _limits(dtype):
    """Returns the range of each Python type that a tensor holds without loss."""
    if dtype == tf.bool:
        return {bool: (False, True)}
    if dtype.is_integer:
        return {int: (dtype.min, dtype.max)}
    if dtype.is_floating:
        exact = {tf.float64: 53, tf.float32: 24, tf.float16: 11}.get(dtype, 8)
        return {int: (-(2**exact), 2**exact), float: (float(dtype.min), float(dtype.max))}
    return {}


def _bytes(value, max_text):
    if isinstance(value, str):
        try:
            data = value.encode("utf-8")
        except UnicodeEncodeError:
            raise bad_request("JSON Parse error: The surrogate pair in string is invalid.") from None
    elif isinstance(value, dict) and not _is_object(value):
        try:
            data = base64.b64decode(value["b64"] + "=" * (-len(value["b64"]) % 4), validate=True)
        except (binascii.Error, ValueError):
            raise bad_request("Unable to base64 decode") from None
    else:
        raise _wrong_type(value, tf.string)
    check_text(data, max_text)
    return data


def check_text(data, max_text):
    if len(data) > max_text:
        raise bad_request(f"A text may have {max_text:,} bytes. Received: {len(data):,} bytes")


def to_json(outputs, is_rows):
    if is_rows:
        sizes = {name: array.shape[0] if array.ndim else None for name, array in outputs.items()}
        if None in sizes.values() or len(set(sizes.values())) > 1:
            raise bad_request(f"The outputs have no rows in common: use 'inputs'. Received: batch sizes {sizes}")
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
        convert = _to_base64 if name.endswith("_bytes") else lambda data: data.decode("utf-8", errors="replace")
        return np.vectorize(convert, otypes=[object])(array).tolist()
    if array.dtype in (np.float32, np.float16) or array.dtype.name == "bfloat16":
        return array.astype("float32").astype("U").astype("float64").tolist()  # no spurious digits
    return array.tolist()


def _to_base64(data):
    return {"b64": base64.b64encode(data).decode("ascii")}


def message_of(error):
    """Returns a TensorFlow error as one line, without names of nodes and files."""
    asserted = re.search(r"assertion failed: \[(.*?)\](?: \[|$)", error.message, re.MULTILINE)
    if asserted:
        line = asserted[1]
    else:
        lines = (line.strip() for line in error.message.splitlines())
        line = next((line for line in lines if line and not NO_REASON.match(line)), "")
        line = re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]|\S*/\S+", "", line).strip()
    return f"The model does not take these values: {line[:200]}"


def _shown(value):
    if isinstance(value, list | dict):
        return "[...]" if isinstance(value, list) else "{...}"
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _shape(shape):
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"
