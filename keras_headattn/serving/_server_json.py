"""Tensors as the JSON of TensorFlow Serving's REST API, and its words for bad requests."""

import base64
import binascii
import json
import math
import re

import numpy as np
import tensorflow as tf

from keras_headattn._files import parse_json

# Lines of an error of a graph that do not say what was wrong.
NO_REASON = re.compile(r"Graph execution error|Detected at node|<stack traces|\[\[|\d+ root error")
SHOWN = 80  # characters of a value in an error
MOST_AXES = 32  # of a tensor: NumPy has 64
KINDS = {type(None): "Null", bool: "Bool", dict: "Object", str: "String", int: "Number", float: "Number"}


class RequestError(Exception):
    """A request that is answered with an error.

    Args:
        status: int, of HTTP.
        message: str, a sentence for whoever sent it.
    """

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(message):
    """Returns a `RequestError` for what the sender can mend."""
    return RequestError(400, message)


def parse(body):
    """Returns the object in a request's body."""
    try:
        request = parse_json(body, "JSON Parse error: The body")
    except ValueError as error:
        raise bad_request(str(error)) from None
    if not isinstance(request, dict):
        raise bad_request(f"JSON Value: {_shown(request)} Is not object")
    return request


def signature_name(request):
    """Returns the name of the signature that a request asks for."""
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise bad_request(
            f"JSON Value: {_shown(request)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return name or "serving_default"


def text_limit(name, max_text):
    """Returns the most bytes of a string of an input: texts are limited, files are not."""
    return math.inf if name == "images" or name.endswith("_bytes") else max_text


def to_tensors(request, specs, max_text):
    """Returns the tensors of a request, in rows (`instances`) or in columns (`inputs`).

    Args:
        request: dictionary, as of `parse`.
        specs: dictionary of name to `tf.TensorSpec`, the signature's inputs.
        max_text: int, most bytes of a text.

    Returns:
        Tuple of a dictionary of name to NumPy array, and whether the request was in rows.

    Raises:
        RequestError: if it does not fit the signature.
    """
    if "instances" in request and "inputs" in request:
        raise bad_request("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    is_rows = "instances" in request
    if is_rows:
        columns = _of_rows(request["instances"], specs, max_text)
    elif "inputs" in request:
        columns = _of_columns(request["inputs"], specs, max_text)
    else:
        raise bad_request("Missing 'inputs' or 'instances' key")
    for name, spec in specs.items():
        if not spec.shape.is_compatible_with(columns[name].shape):
            shapes = _shape(spec.shape), _shape(columns[name].shape)
            raise bad_request(f"Input {name} must be of shape {shapes[0]}. Received: shape {shapes[1]}")
    return columns, is_rows


def _of_rows(instances, specs, max_text):
    if not isinstance(instances, list):
        raise bad_request(f"JSON Value: {_shown(instances)} Excepting 'instances' to be an list/array")
    if not instances:
        raise bad_request("No values in 'instances' array")
    are_objects = _is_object(instances[0])
    if not are_objects and len(specs) > 1:
        raise bad_request(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    columns = {name: [] for name in specs}
    for index, instance in enumerate(instances):
        if _is_object(instance) != are_objects:
            expected = ("object", "list") if are_objects else ("value/list", "object")
            raise bad_request(f"Expecting {expected[0]} but got {expected[1]} at item {index} of input list")
        row = instance if are_objects else {next(iter(specs)): instance}
        if row.keys() != specs.keys():
            raise bad_request(
                f"Failed to process element: {index} of 'instances' list. JSON object: {_shown(instance)} keys must "
                f"be equal to: {','.join(sorted(specs))}"
            )
        for name, value in row.items():
            key = f"{index} key: {name}" if are_objects else index
            try:
                array = _array(value, specs[name].dtype, text_limit(name, max_text))
            except RequestError as error:
                raise bad_request(f"Failed to process element: {key} of 'instances' list: {error.message}") from None
            if columns[name] and columns[name][0].shape != array.shape:
                shapes = [_shape(each.shape) for each in (columns[name][0], array)]
                raise bad_request(f"Failed to process element: {key}: Expecting shape {shapes[0]} but got: {shapes[1]}")
            columns[name].append(array)
    return {name: np.stack(arrays) for name, arrays in columns.items()}


def _of_columns(inputs, specs, max_text):
    if not _is_object(inputs):
        if len(specs) > 1:
            raise bad_request(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        inputs = {next(iter(specs)): inputs}
    if missing := [name for name in specs if name not in inputs]:
        raise bad_request(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {name: _array(inputs[name], spec.dtype, text_limit(name, max_text)) for name, spec in specs.items()}


def _is_object(value):
    """Returns True for an object that names tensors, not for one that holds bytes."""
    return isinstance(value, dict) and not (value.keys() == {"b64"} and isinstance(value["b64"], str))


def _array(value, dtype, max_text):
    """Returns a value, or nested lists of values, as an array of a TensorFlow type."""
    nested = np.array(value, dtype=object)  # lists of unequal sizes, and those too deep for it, stay lists
    leaves = nested.ravel().tolist()
    if nested.ndim > MOST_AXES or any(isinstance(leaf, list) for leaf in leaves):
        raise bad_request(f"Lists must be of equal sizes at each level, and at most {MOST_AXES} levels deep.")
    if dtype == tf.string:
        leaves = [_bytes(leaf, max_text) for leaf in leaves]
    else:
        limits = _limits(dtype)
        for leaf in leaves:
            if type(leaf) not in limits:
                raise _wrong_type(leaf, dtype)
            low, high = limits[type(leaf)]
            if not low <= leaf <= high and (type(leaf) is not float or math.isfinite(leaf)):
                raise bad_request(f"Cannot convert JSON value: {_shown(leaf)} to {dtype.name} without loss.")
    array = np.empty(len(leaves), dtype.as_numpy_dtype)
    array[:] = leaves
    return array.reshape(nested.shape)


def _wrong_type(value, dtype):
    return bad_request(f"JSON Value: {_shown(value)} Type: {KINDS[type(value)]} is not of expected type: {dtype.name}")


def _limits(dtype):
    """Returns the smallest and the largest value of each type of Python that a tensor takes without loss."""
    if dtype == tf.bool:
        return {bool: (False, True)}
    if dtype.is_integer:
        return {int: (dtype.min, dtype.max)}
    if dtype.is_floating:
        exact = {tf.float64: 53, tf.float32: 24, tf.float16: 11}.get(dtype, 8)
        return {int: (-(2**exact), 2**exact), float: (float(dtype.min), float(dtype.max))}
    return {}


def _bytes(value, max_text):
    """Returns the bytes of a string in JSON, or of an object that holds them in base64."""
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
    """Raises a `RequestError` for a text that is too long."""
    if len(data) > max_text:
        raise bad_request(f"A text may have {max_text:,} bytes. Received: {len(data):,} bytes")


def to_json(outputs, is_rows):
    """Returns the answer to a request.

    Args:
        outputs: dictionary of name to NumPy array, as a signature returns them.
        is_rows: bool, whether the request was in rows.

    Returns:
        bytes.

    Raises:
        RequestError: if outputs have no rows, or not as many, where rows were asked for.
    """
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
    """Returns nested lists of what JSON can hold."""
    if array.dtype == object:
        if name.endswith("_bytes"):
            return _nested(array, lambda data: {"b64": base64.b64encode(data).decode("ascii")})
        return _nested(array, lambda data: data.decode("utf-8", errors="replace"))
    if array.dtype in (np.float32, np.float16) or array.dtype.name == "bfloat16":
        return array.astype("float32").astype("U").astype("float64").tolist()  # no more digits than it has
    return array.tolist()


def _nested(array, convert):
    flat = np.empty(array.size, object)
    flat[:] = [convert(data) for data in array.ravel()]
    return flat.reshape(array.shape).tolist()


def error_json(message):
    """Returns the body of an answer that says what is wrong: bytes."""
    return json.dumps({"error": message}, ensure_ascii=True).encode("ascii")


def message_of(error):
    """Returns an error of TensorFlow about a value as one line, without names of nodes and files."""
    asserted = re.search(r"assertion failed: \[(.*?)\](?: \[|$)", error.message, re.MULTILINE)
    if asserted:
        line = asserted[1]
    else:
        lines = (line.strip() for line in error.message.splitlines())
        line = next((line for line in lines if line and not NO_REASON.match(line)), "")
        line = re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]|\S*/\S+", "", line).strip()
    return f"The model does not take these values: {line[:200]}"


def _shown(value):
    """Returns a value for an error; what is within lists and objects, which may be deep and large, is left out."""
    if isinstance(value, list | dict):
        return "[...]" if isinstance(value, list) else "{...}"
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _shape(shape):
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"
