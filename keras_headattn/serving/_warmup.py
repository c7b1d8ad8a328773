"""TensorFlow Serving's warm-up requests."""

import bisect
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2

from keras_headattn._files import Path, atomic_path

RECORDS = pathlib.Path("assets.extra", "tf_serving_warmup_requests")
MOST = 1000  # servers refuse models with more
BATCH_SIZES = (1, 8)

# Messages of TensorFlow Serving: fields that a request has, by name, with their numbers and types. Fields are known by
# number on the disk, and a message is its bytes: so `inputs`, a map, is a list of `Input`, and a tensor is bytes.
MESSAGES = {
    "PredictionLog": {"predict_log": (6, "PredictLog")},
    "PredictLog": {"request": (1, "PredictRequest")},
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "Input")},
    "ModelSpec": {"signature_name": (3, str)},
    "Input": {"key": (1, str), "value": (2, bytes)},
}


def write_warmup(path: Path, requests: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Writes the requests that TensorFlow Serving runs when it loads a SavedModel, before it answers any.

    The first request of a signature and shape is much slower than later ones. The `export_...` functions write some
    requests; replace them to warm a server up for other shapes. The file is `assets.extra/tf_serving_warmup_requests`.

    Args:
        path: str or path of a version of a SavedModel, such as `"saved_models/translate/1"`.
        requests: dictionary from signature to a list of requests, dictionaries from the name of an input to its array.

    Raises:
        ValueError: if there are more than 1,000 requests or one does not fit its signature; servers refuse such models.
        OSError: if there is no SavedModel, or the file cannot be written.

    ```python
    texts = [["two cats"], ["two cats"] * 8]
    write_warmup(path, {"serving_default": [{"text": text} for text in texts]})
    ```
    """
    count = sum(map(len, requests.values()))
    if count > MOST:
        raise ValueError(f"`requests` must be {MOST} at most. Received: {count} requests")
    saved_model = saved_model_pb2.SavedModel.FromString(pathlib.Path(path, "saved_model.pb").read_bytes())
    signatures = saved_model.meta_graphs[0].signature_def
    with atomic_path(pathlib.Path(path, RECORDS)) as temporary, tf.io.TFRecordWriter(str(temporary)) as file:
        for name, group in requests.items():
            for inputs in group:
                file.write(_record(name, inputs, signatures))


def read_warmup(path):
    """Reads what `write_warmup` wrote, as a list of signature names and inputs."""
    requests = []
    for record in tf.data.TFRecordDataset(str(pathlib.Path(path, RECORDS))).as_numpy_iterator():
        request = _prediction_log().FromString(record).predict_log.request
        inputs = {i.key: tf.make_ndarray(tensor_pb2.TensorProto.FromString(i.value)) for i in request.inputs}
        requests.append((request.model_spec.signature_name, inputs))
    return requests


def sample_texts(tokenizer, lengths, num_texts=1):
    """Returns a text for each length: a word repeated as often as fits."""

    def text(words):
        return " ".join(["a"] * words)

    def count(words):
        ids = tokenizer.encode(*[[text(words)]] * num_texts)
        return len((ids["token_ids"] if isinstance(ids, dict) else ids)[0])

    return [text(max(0, bisect.bisect(range(length + 1), length, key=count) - 1)) for length in lengths]


def batches(name, rows, batch_sizes):
    """Returns requests of one input for each row and batch size."""
    rows = [np.array(row, object if isinstance(row, str | bytes) else None) for row in rows]
    return [{name: np.broadcast_to(row, (size, *row.shape))} for row in rows for size in batch_sizes]


def _record(name, inputs, signatures):
    if name not in signatures:
        names = sorted(known for known in signatures if not known.startswith("__"))
        raise ValueError(f"`requests` must be for the signatures {names}. Received: requests for {name!r}")
    specs = signatures[name].inputs
    if specs.keys() != inputs.keys():
        raise ValueError(f"Requests of {name!r} must have the inputs {sorted(specs)}. Received: {sorted(inputs)}")
    log = _prediction_log()()
    request = log.predict_log.request
    request.model_spec.signature_name = name
    for key, value in sorted(inputs.items()):
        value, spec = np.asarray(value), specs[key]
        if not tf.TensorShape(spec.tensor_shape).is_compatible_with(value.shape):
            shape = tuple(tf.TensorShape(spec.tensor_shape).as_list())
            raise ValueError(f"`{key}` of {name!r} must be of shape {shape}. Received: an array of shape {value.shape}")
        # One element stands for all if they are equal.
        alike = value.size and (value == value.flat[0]).all()
        tensor = tf.make_tensor_proto(value.flat[:1] if alike else value, spec.dtype, value.shape)
        request.inputs.add(key=key, value=tensor.SerializeToString())
    return log.SerializeToString(deterministic=True)


@functools.cache
def _prediction_log():
    """Returns the message class of the file, made here to avoid a dependency."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    types = {str: kinds.TYPE_STRING, bytes: kinds.TYPE_BYTES}
    file = descriptor_pb2.FileDescriptorProto(name="warmup.proto", package="warmup", syntax="proto3")
    for message, fields in MESSAGES.items():
        message = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            label = kinds.LABEL_REPEATED if name == "inputs" else kinds.LABEL_OPTIONAL
            field = message.field.add(name=name, number=number, label=label, type=types.get(kind, kinds.TYPE_MESSAGE))
            if kind not in types:
                field.type_name = f".warmup.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("warmup.PredictionLog"))
