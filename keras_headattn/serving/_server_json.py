"""Tensors as the JSON of TensorFlow Serving's REST API, and its words for what is wrong with a request."""

import base64
import binascii
import json
import re

import numpy as np
import tensorflow as tf

# Lines of an error of a graph that do not say what was wrong.
NO_REASON = re.compile(r"Graph execution error|Detected at node|<stack traces|\[\[|\d+ root error")
SHOWN = 80  # characters of a value in an error
KINDS = {type(None): "Null", bool: "Bool", dict: "Object", list: "Array", str: "String", int: "Number", float: "Number"}


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


def wrong(message):
    """A `RequestError` for what the sender can mend."""
    return RequestError(400, message)


def parse(body):
    """The object of a request's body.

    Args:
        body: bytes.

    Returns:
        Dictionary.

    Raises:
        RequestError: if it is no JSON object in UTF-8.
    """
    if not body:
        raise wrong("JSON Parse error: The document is empty")
    try:
        found = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise wrong(f"JSON Parse error: Invalid encoding in string. at offset: {error.start}") from None
    except json.JSONDecodeError as error:
        raise wrong(f"JSON Parse error: {error.msg} at offset: {error.pos}") from None
    except RecursionError:
        raise wrong("JSON Parse error: The document is nested too deeply") from None
    except ValueError:  # Python's limit on the digits of a number
        raise wrong("JSON Parse error: Number too big to be stored in double.") from None
    if not isinstance(found, dict):
        raise wrong(f"JSON Value: {_shown(found)} Is not object")
    return found


def signature_name(request):
    """The name of the signature that a request asks for.

    Args:
        request: dictionary, as of `parse`.

    Returns:
        str.

    Raises:
        RequestError: if the name is no string.
    """
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise wrong(
            f"JSON Value: {_shown(request)} not formatted correctly. 'signature_name' key must be a string value."
        )
    return name or "serving_default"


def to_tensors(request, specs, max_text):
    """The tensors of a request, in rows (`instances`) or in columns (`inputs`).

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
        raise wrong("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist")
    is_rows = "instances" in request
    if is_rows:
        columns = _of_rows(request["instances"], specs, max_text)
    elif "inputs" in request:
        columns = _of_columns(request["inputs"], specs, max_text)
    else:
        raise wrong("Missing 'inputs' or 'instances' key")
    for name, spec in specs.items():
        if not spec.shape.is_compatible_with(columns[name].shape):
            raise wrong(
                f"Input {name} must be of shape {_shape(spec.shape)}. Received: shape {_shape(columns[name].shape)}"
            )
    return columns, is_rows


def _of_rows(instances, specs, max_text):
    if not isinstance(instances, list):
        raise wrong(f"JSON Value: {_shown(instances)} Excepting 'instances' to be an list/array")
    if not instances:
        raise wrong("No values in 'instances' array")
    are_objects = _is_object(instances[0])
    if not are_objects and len(specs) > 1:
        raise wrong(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    columns = {name: [] for name in specs}
    for number, instance in enumerate(instances):
        if _is_object(instance) != are_objects:
            expected = ("value/list", "object") if not are_objects else ("object", "list")
            raise wrong(f"Expecting {expected[0]} but got {expected[1]} at item {number} of input list")
        row = instance if are_objects else {next(iter(specs)): instance}
        if row.keys() != specs.keys():
            raise wrong(
                f"Failed to process element: {number} of 'instances' list. JSON object: {_shown(instance)} keys must "
                f"be equal to: {','.join(sorted(specs))}"
            )
        for name, value in row.items():
            try:
                array = _array(value, specs[name].dtype, max_text)
                if columns[name] and columns[name][0].shape != array.shape:
                    shapes = [_shape(each.shape) for each in (columns[name][0], array)]
                    raise wrong(f"Expecting shape {shapes[0]} but got: {shapes[1]}")
            except RequestError as error:
                key = f" key: {name}" if are_objects else ""
                raise wrong(
                    f"Failed to process element: {number}{key} of 'instances' list. Error: INVALID_ARGUMENT: "
                    f"{error.message}"
                ) from None
            columns[name].append(array)
    return {name: np.stack(arrays) for name, arrays in columns.items()}


def _of_columns(inputs, specs, max_text):
    if not _is_object(inputs):
        if len(specs) > 1:
            raise wrong(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        inputs = {next(iter(specs)): inputs}
    if missing := [name for name in specs if name not in inputs]:
        raise wrong(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {name: _array(inputs[name], spec.dtype, max_text) for name, spec in specs.items()}


def _is_object(value):
    """Whether it names tensors: an object, but for one that holds bytes."""
    return isinstance(value, dict) and not (value.keys() == {"b64"} and isinstance(value["b64"], str))


def _array(value, dtype, max_text):
    """A value, or nested lists of values, as an array of a TensorFlow type."""
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    flat = []
    _collect(value, shape, 0, _converter(dtype, max_text), flat)
    array = np.empty(len(flat), dtype.as_numpy_dtype)
    array[:] = flat
    return array.reshape(shape)


def _collect(value, shape, level, convert, flat):
    if not isinstance(value, list):
        if level != len(shape):
            raise wrong(
                f"JSON Value: {_shown(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}"
            )
        flat.append(convert(value))
        return
    if level >= len(shape):
        raise wrong(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise wrong(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    for each in value:
        _collect(each, shape, level + 1, convert, flat)


def _converter(dtype, max_text):
    """A function from a value in JSON to one of a TensorFlow type."""

    def of_wrong_type(value):
        return wrong(f"JSON Value: {_shown(value)} Type: {KINDS[type(value)]} is not of expected type: {dtype.name}")

    def string(value):
        if isinstance(value, dict):
            return _decoded(value)
        if not isinstance(value, str):
            raise of_wrong_type(value)
        try:
            data = value.encode("utf-8")
        except UnicodeEncodeError:
            raise wrong("JSON Parse error: The surrogate pair in string is invalid.") from None
        if len(data) > max_text:
            raise wrong(f"A text may have {max_text:,} bytes. Received: {len(data):,} bytes")
        return data

    def floating(value):
        if type(value) not in (int, float):
            raise of_wrong_type(value)
        finite = type(value) is int or np.isfinite(value)
        limit = 2 ** (np.finfo(dtype.as_numpy_dtype).nmant + 1) - 1
        largest = limit if type(value) is int else float(np.finfo(dtype.as_numpy_dtype).max)
        if finite and abs(value) > largest:
            raise wrong(f"Cannot convert JSON value: {_shown(value)} to {dtype.name} without loss of precision.")
        return value

    def integer(value):
        if type(value) is not int or not dtype.min <= value <= dtype.max:
            raise of_wrong_type(value)
        return value

    def boolean(value):
        if type(value) is not bool:
            raise of_wrong_type(value)
        return value

    if dtype == tf.string:
        return string
    if dtype == tf.bool:
        return boolean
    return floating if dtype.is_floating else integer


def _decoded(value):
    if _is_object(value):
        raise wrong(f"JSON Value: {_shown(value)} not formatted correctly for base64 data")
    try:
        return base64.b64decode(value["b64"] + "=" * (-len(value["b64"]) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise wrong("Unable to base64 decode") from None


def to_json(outputs, is_rows):
    """The answer to a request.

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
            raise wrong(f"The outputs have no rows in common: use 'inputs'. Received: batch sizes {sizes}")
    columns = {name: _values(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        (found,) = columns.values()
    elif is_rows:
        found = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        found = columns
    return json.dumps({"predictions" if is_rows else "outputs": found}, ensure_ascii=False).encode("utf-8")


def _values(name, array):
    """Nested lists of what JSON can hold."""
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
    """The body of an answer that says what is wrong: bytes."""
    return json.dumps({"error": message}, ensure_ascii=True).encode("ascii")


def message_of(error):
    """An error of TensorFlow about a value as one line, without names of nodes and files."""
    asserted = re.search(r"assertion failed: \[(.*?)\](?: \[|$)", error.message, re.MULTILINE)
    if asserted:
        line = asserted[1]
    else:
        lines = (line.strip() for line in error.message.splitlines())
        line = next((line for line in lines if line and not NO_REASON.match(line)), "")
        line = re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]|\S*/\S+", "", line).strip()
    return f"The model does not take these values: {line[:200]}"


def _shown(value):
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _shape(shape):
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"
