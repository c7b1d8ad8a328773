"""Loading, running and unloading the versions of a served model."""

import collections
import concurrent.futures
import gc
import logging
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_headattn._optional import optional_import
from keras_headattn.serving._server_json import RequestError, bad_request, message_of
from keras_headattn.serving._versions import is_version, read_examples
from keras_headattn.serving._warmup import RECORDS, read_warmup

log = logging.getLogger("keras_headattn.serving")
MOST_WAITING = 1024  # requests for a signature
REFUSED = (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, tf.errors.UnimplementedError)
PASSING = (MemoryError, tf.errors.ResourceExhaustedError, tf.errors.UnavailableError, tf.errors.PermissionDeniedError)


def find_version(models, name, number=None, label=None):
    """Returns the number and `Version` of a model: the latest, or by number or label."""
    if name not in models:
        raise RequestError(404, f"Servable not found for request: Latest({name[:100]})")
    return models[name].find(number, label)


def status_of(models, name, number=None, label=None):
    """Returns the states of a model's versions, or of one of them, as the REST API's dictionary."""
    if name not in models:
        raise RequestError(404, f"Could not find any versions of model {name[:100]}")
    return models[name].status(number, label)


class ServedModel:
    """Loaded versions of one model."""

    def __init__(self, name, folder, keep, labels, max_batch):
        self.name = name
        self.folder = pathlib.Path(folder)
        self.keep = keep
        self.labels = labels
        self.max_batch = max_batch
        self.loaded = {}  # replaced as a whole, so any thread may read it
        self._damaged = {}  # from version to its files and the error
        self._fault = None  # error of the folder

    def poll(self):
        """Loads new versions, and unloads those that are deleted or no longer the latest."""
        paths = self._versions()
        if paths is None:
            return
        self._damaged = {number: fault for number, fault in self._damaged.items() if number in paths}
        wanted = {}
        for number in sorted(paths, reverse=True):
            if len(wanted) == self.keep:
                break
            version = self.loaded.get(number) or self._load(number, paths[number])
            if version is not None:
                wanted[number] = version
        gone = self.loaded.keys() - wanted.keys()
        self.loaded = wanted
        for number in sorted(gone):
            log.info("%s: version %d is unloaded", self.name, number)
        if gone:
            gc.collect()

    def _versions(self):
        """Returns the paths of versions by number, `None` if the folder cannot be read for now."""
        try:
            paths = [path for path in self.folder.iterdir() if path.is_dir()]
            fault = None
        except FileNotFoundError:
            return {}
        except OSError as error:
            fault = str(error)
        if fault is not None and fault != self._fault:
            log.warning("%s: the folder cannot be read; what is loaded stays: %s", self.name, fault)
        self._fault = fault
        return None if fault else {int(path.name): path for path in paths if is_version(path.name)}

    def _load(self, number, path):
        """Returns the version, `None` if it is damaged. A damaged version is tried again when its files change."""
        files = _files(path)
        known, said = self._damaged.get(number, (None, None))
        if files is not None and known == files:
            return None
        try:
            version = Version(path, self.max_batch)
        except Exception as error:  # a damaged file may raise anything
            may_pass = isinstance(error, PASSING) or bool(getattr(error, "errno", None))  # an OSError
            self._damaged[number] = None if may_pass else files, str(error)
            if str(error) != said or not may_pass:
                kept = f"; {', '.join(map(str, self.loaded))} stays" if self.loaded else ""
                log.warning("%s: version %d cannot be loaded%s: %s", self.name, number, kept, error)
            return None
        self._damaged.pop(number, None)
        log.info("%s: version %d is served: %s", self.name, number, ", ".join(version.signatures))
        return version

    def find(self, number=None, label=None):
        if label is not None:
            if label not in self.labels:
                raise bad_request(f"Unrecognized servable version label: {label}")
            number = self.labels[label]
        loaded = self.loaded
        if number is None and loaded:
            number = max(loaded)
        if number not in loaded:
            name = f"Latest({self.name})" if number is None else f"Specific({self.name}, {number})"
            raise RequestError(404, f"Servable not found for request: {name}")
        return number, loaded[number]

    def listed(self):
        """Returns the model's name, whether it takes text, and example texts, for the page."""
        version = self.loaded[max(self.loaded)] if self.loaded else None
        takes_text = version is None or version.takes_text  # a version may yet appear
        return {"name": self.name, "takes_text": takes_text, "examples": version.examples if version else []}

    def status(self, number=None, label=None):
        if label is not None:
            number, _ = self.find(label=label)
        states = dict.fromkeys(self.loaded, ("AVAILABLE", "OK", ""))
        damaged = "The version could not be loaded: the server's log has the reason."
        states |= dict.fromkeys(self._damaged, ("END", "INTERNAL", damaged))
        if number is not None:
            states = {number: states[number]} if number in states else {}
        if not states:
            which = "any versions" if number is None else f"version {number}"
            raise RequestError(404, f"Could not find {which} of model {self.name}")
        return {
            "model_version_status": [
                {"version": str(number), "state": state, "status": {"error_code": code, "error_message": message}}
                for number, (state, code, message) in sorted(states.items(), reverse=True)
            ]
        }


class Version:
    """SavedModel in memory. Its warm-up requests run on loading; one that fails is an error."""

    def __init__(self, path, max_batch):
        for file in pathlib.Path(path).rglob("*"):
            if not file.is_dir() and not file.is_file():  # a pipe would block
                raise ValueError(f"A version must contain only files and folders. Received: {file.name}")
        definition = saved_model_pb2.SavedModel()
        definition.ParseFromString((pathlib.Path(path) / "saved_model.pb").read_bytes())
        self.protos = {
            name: signature
            for graph in definition.meta_graphs
            for name, signature in sorted(graph.signature_def.items())
        }
        self._model = _load(path)  # keeps the variables alive
        if not self._model.signatures:
            raise ValueError(f"A SavedModel must have signatures. Received: {path}")
        self.signatures = {
            name: Signature(function, self.protos[name].defaults, max_batch)
            for name, function in sorted(self._model.signatures.items())
        }
        for name, inputs in read_warmup(path) if (pathlib.Path(path) / RECORDS).exists() else ():
            self.signatures[name](inputs)
        self.examples = read_examples(path)

    @property
    def takes_text(self):
        """bool, True if the page can query it."""
        inputs = getattr(self.signatures.get("serving_default"), "inputs", ())
        return "text" in inputs or {"question", "context"} <= {*inputs}

    def signature(self, name):
        if name not in self.signatures:
            raise bad_request(f'Serving signature name: "{name[:100]}" not found in signature def')
        return self.signatures[name]


class Signature:
    """Signature with a queue of requests. Waiting requests run as one batch if no output's shape depends on other
    rows."""

    def __init__(self, function, defaults, max_batch):
        self.inputs = dict(function.structured_input_signature[1])
        self.defaults = {name: tf.make_ndarray(proto) for name, proto in defaults.items()}
        outputs = function.structured_outputs
        self.outputs = list(outputs)
        self.takes_rows = all(spec.shape.rank and spec.shape[0] is None for spec in self.inputs.values())
        shapes = [tensor.shape for tensor in outputs.values()]
        self.batches = self.takes_rows and all(
            shape.rank and shape[0] is None and shape[1:].is_fully_defined() for shape in shapes
        )
        self.max_batch = max_batch
        self._function = function
        self._waiting = collections.deque()
        self._executor = concurrent.futures.ThreadPoolExecutor(1, "model")

    def __call__(self, arrays):
        outputs = self._function(**{name: tf.constant(array) for name, array in arrays.items()})
        return {name: outputs[name].numpy() for name in sorted(outputs)}

    def submit(self, arrays, max_rows):
        """Queues a request and returns a future of its outputs by name."""
        rows = _rows(arrays)
        arrays = self.defaults | arrays
        if self.takes_rows:  # a row may stand for all
            arrays |= {name: _repeated(arrays[name], rows) for name in self.defaults}
        most = max_rows if self.batches or not self.takes_rows else self.max_batch
        if rows > most:
            raise bad_request(f"A request to this signature may have {most} rows. Received: {rows} rows")
        if len(self._waiting) >= MOST_WAITING:
            raise RequestError(503, "The batch scheduling queue to which this task was submitted is full.")
        future = concurrent.futures.Future()
        self._waiting.append((arrays, future))
        self._executor.submit(self._run_waiting)  # does nothing if an earlier run has included the request
        return future

    def _run_waiting(self):
        group = self._next_group()
        outputs = self._run_group([arrays for arrays, _ in group])
        for (_, future), output in zip(group, outputs, strict=True):
            if isinstance(output, Exception):
                future.set_exception(output)
            else:
                future.set_result(output)

    def _next_group(self):
        """Takes the first waiting request and those that can run with it."""
        group, rows = [], 0
        while self._waiting:
            arrays, future = self._waiting[0]
            fits = not group or (
                self.batches and _kind(arrays) == _kind(group[0][0]) and rows + _rows(arrays) <= self.max_batch
            )
            if not fits:
                break
            self._waiting.popleft()
            if future.set_running_or_notify_cancel():  # the client is still there
                group.append((arrays, future))
                rows += _rows(arrays)
        return group

    def _run_group(self, requests):
        """Returns the outputs, or an exception, of each request."""
        if len(requests) > 1:
            try:
                outputs = self({name: np.concatenate([arrays[name] for arrays in requests]) for name in self.inputs})
                ends = np.cumsum([_rows(arrays) for arrays in requests])
                if all(len(array) == ends[-1] for array in outputs.values()):
                    parts = {name: np.split(array, ends[:-1]) for name, array in outputs.items()}
                    return [{name: parts[name][i] for name in parts} for i in range(len(requests))]
            except Exception as error:
                log.debug("Requests are run one by one: %s", error)
        return [self._run_one(arrays) for arrays in requests]

    def _run_one(self, arrays):
        try:
            return self(arrays)
        except REFUSED as error:
            return bad_request(message_of(error))
        except Exception:
            log.exception("A request failed")
            return RequestError(500, "The model failed: the server's log has the reason.")


def _rows(arrays):
    return max((len(array) if array.ndim else 1 for array in arrays.values()), default=1)


def _kind(arrays):
    """Returns what must be equal for requests to run as one; arrays of different lengths are an error."""
    if len({len(array) for array in arrays.values()}) > 1:
        return object()
    return {name: (array.dtype, array.shape[1:]) for name, array in arrays.items()}


def _repeated(array, rows):
    return np.broadcast_to(array, (rows, *array.shape[1:])) if len(array) == 1 else array


def _files(path):
    try:
        stats = [(file, file.stat()) for file in sorted(pathlib.Path(path).rglob("*"))]
    except OSError:  # it is being deleted
        return None
    return [(file, stat.st_size, stat.st_mtime_ns) for file, stat in stats]


def _load(path):
    try:
        return tf.saved_model.load(str(path))
    except Exception as error:
        if "Op type not registered" not in str(error):
            raise
        optional_import("tensorflow_text")  # registers the operations of tokenizers
        return tf.saved_model.load(str(path))
