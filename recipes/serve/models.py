"""Models in memory: versions are loaded and unloaded, and requests that wait run as one batch."""

import asyncio
import collections
import gc
import logging
import pathlib
import re

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 registers the operations of tokenizers
from starlette.exceptions import HTTPException
from tensorflow.core.protobuf import saved_model_pb2

from keras_headattn._files import read_json
from keras_headattn.serving._warmup import RECORDS, read_warmup

log = logging.getLogger("recipes.serve")
MOST_ROWS, MOST_TOGETHER = 1024, 64  # rows of a request, and of a batch
REFUSED = (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError, tf.errors.UnimplementedError)
# Lines of a graph's error message without a reason.
NO_REASON = re.compile(r"Graph execution error|Detected at node|<stack traces|\[\[|\d+ root error")


class Model:
    """Loaded versions of a model.

    Args:
        name: str.
        folder: path of the versions.
        keep: int, how many of the latest versions are served.
    """

    def __init__(self, name, folder, keep=1):
        self.name = name
        self.folder = pathlib.Path(folder)
        self.keep = keep
        self.loaded = {}  # replaced as a whole, so any thread may read it
        self._damaged = {}  # files of versions that cannot be loaded

    def poll(self):
        """Loads new versions, and unloads those that are deleted or no longer the latest."""
        try:
            paths = {int(path.name): path for path in self.folder.iterdir() if is_version(path)}
            self._damaged = {number: files for number, files in self._damaged.items() if number in paths}
            wanted = {}
            for number in sorted(paths, reverse=True):
                version = self.loaded.get(number) or self._load(number, paths[number])
                if version is not None:
                    wanted[number] = version
                if len(wanted) == self.keep:
                    break
        except OSError as error:  # what is loaded stays
            log.warning("%s: the folder cannot be read: %s", self.name, error)
            return
        gone = self.loaded.keys() - wanted.keys()
        self.loaded = wanted
        if gone:
            log.info("%s: unloaded: version %s", self.name, ", ".join(map(str, sorted(gone))))
            gc.collect()

    def _load(self, number, path):
        """Returns the version, `None` if it is damaged. A damaged version is tried again when its files change."""
        files = _files(path)
        if files == self._damaged.get(number):
            return None
        try:
            version = Version(path)
        except Exception as error:  # a damaged file may raise anything
            self._damaged[number] = files
            stays = f"; {', '.join(map(str, self.loaded))} stays" if self.loaded else ""
            log.warning("%s: version %d cannot be loaded%s: %s", self.name, number, stays, error)
            return None
        self._damaged.pop(number, None)
        log.info("%s: version %d is served: %s", self.name, number, ", ".join(version.signatures))
        return version

    def find(self, version=None):
        """Returns the number and the `Version` of the latest version, or of the one with this number (str)."""
        loaded = self.loaded
        numbers = [number for number in loaded if version in (None, str(number))]
        if not numbers:
            which = "No version is loaded" if version is None else f"There is no version {version[:20]}"
            raise HTTPException(404, f"{which} of model {self.name}.")
        return max(numbers), loaded[max(numbers)]

    def listed(self):
        """Returns the model's name, whether it takes text, and example texts, for the page."""
        if not self.loaded:
            return {"name": self.name, "takes_text": True, "examples": []}  # a version may yet appear
        _, version = self.find()
        inputs = getattr(version.signatures.get("serving_default"), "inputs", {})
        takes_text = bool({"text", "prompts"} & inputs.keys()) or {"question", "context"} <= inputs.keys()
        return {"name": self.name, "takes_text": takes_text, "examples": version.examples}

    def status(self, version=None):
        """Returns the states of all versions, or of one of them, as TensorFlow Serving's dictionaries."""
        damaged = "The version could not be loaded: the server's log has the reason."
        states = dict.fromkeys(self._damaged, ("END", "INTERNAL", damaged))
        states |= dict.fromkeys(self.loaded, ("AVAILABLE", "OK", ""))
        statuses = [
            {"version": str(number), "state": state, "status": {"error_code": code, "error_message": message}}
            for number, (state, code, message) in sorted(states.items(), reverse=True)
            if version in (None, str(number))
        ]
        return statuses or self.find(version)  # raises the error


class Version:
    """SavedModel in memory. Its warm-up requests run on loading; one that fails is an error."""

    def __init__(self, path):
        definition = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
        self.definitions = dict(sorted(definition.meta_graphs[0].signature_def.items()))
        self._model = tf.saved_model.load(str(path))  # keeps the variables alive
        self.signatures = {name: Signature(function) for name, function in sorted(self._model.signatures.items())}
        if not self.signatures:
            raise ValueError(f"A SavedModel must have signatures. Received: {path}")
        for name, inputs in read_warmup(path) if (path / RECORDS).exists() else ():
            self.signatures[name](inputs)
        examples = path / "assets.extra" / "examples.json"
        self.examples = read_json(examples) if examples.is_file() else []


class Signature:
    """Signature with a queue. Waiting requests run as one batch if no output's shape depends on other rows."""

    def __init__(self, function):
        self.inputs = dict(function.structured_input_signature[1])
        outputs = [spec.shape for spec in function.structured_outputs.values()]
        shapes = [*(spec.shape for spec in self.inputs.values()), *outputs]
        self.batches = all(shape.rank and shape[0] is None for shape in shapes) and all(
            shape[1:].is_fully_defined() for shape in outputs
        )
        self._function = function
        self._waiting, self._lock = collections.deque(), asyncio.Lock()

    def __call__(self, arrays):
        outputs = self._function(**{name: tf.constant(array) for name, array in arrays.items()})
        return {name: outputs[name].numpy() for name in sorted(outputs)}

    async def run(self, arrays):
        """Returns outputs by name for inputs by name."""
        rows, most = _rows(arrays), MOST_ROWS if self.batches else MOST_TOGETHER
        if rows > most:
            raise HTTPException(400, f"A request to this signature may have {most} rows. Received: {rows} rows")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((arrays, future))
        try:
            async with self._lock:
                if not future.done():  # an earlier run has not included it
                    await asyncio.shield(self._run_next())  # others may wait for this run
            outputs = await future
        finally:
            future.cancel()  # after a time-out
        if isinstance(outputs, Exception):
            raise outputs
        return outputs

    async def _run_next(self):
        """Runs the first waiting request, and those that can run with it."""
        requests, futures = [], []
        while self._waiting and (not requests or self._can_run([*requests, self._waiting[0][0]])):
            arrays, future = self._waiting.popleft()
            if not future.cancelled():
                requests.append(arrays)
                futures.append(future)
        outputs = await asyncio.to_thread(self._run, requests)
        for future, output in zip(futures, outputs, strict=True):
            if not future.cancelled():
                future.set_result(output)

    def _can_run(self, requests):
        """Returns True if requests can run as one; those whose inputs differ in length run alone."""
        shapes = [{name: array.shape[1:] for name, array in arrays.items()} for arrays in requests]
        are_rows = all(len({len(array) for array in arrays.values()}) == 1 for arrays in requests)
        fits = sum(map(_rows, requests)) <= MOST_TOGETHER
        return self.batches and are_rows and fits and all(shape == shapes[0] for shape in shapes)

    def _run(self, requests):
        """Returns the outputs, or an exception, of each request."""
        if len(requests) == 1:
            try:
                return [self(requests[0])]
            except REFUSED as error:
                return [HTTPException(400, _message_of(error))]
            except Exception:
                log.exception("A request failed")
                return [HTTPException(500, "The model failed: the server's log has the reason.")]
        try:
            outputs = self({name: np.concatenate([arrays[name] for arrays in requests]) for name in self.inputs})
            *ends, rows = np.cumsum(list(map(_rows, requests)))
            if any(len(array) != rows for array in outputs.values()):
                raise ValueError("The outputs have other rows than the inputs.")
            parts = {name: np.split(array, ends) for name, array in outputs.items()}
            return [{name: parts[name][index] for name in parts} for index in range(len(requests))]
        except Exception as error:
            log.debug("Requests are run one by one: %s", error)
            return [output for request in requests for output in self._run([request])]


def is_version(path):
    """Returns True for the folder of a version, whose name is a number."""
    return path.name.isascii() and path.name.isdecimal() and path.is_dir()


def _rows(arrays):
    return max((len(array) if array.ndim else 1 for array in arrays.values()), default=1)


def _message_of(error):
    """Returns a TensorFlow error as one line, without names of nodes and files."""
    if asserted := re.search(r"assertion failed: \[(.*?)\](?: \[|$)", error.message, re.MULTILINE):
        line = asserted[1]
    else:
        lines = (line.strip() for line in error.message.splitlines())
        line = next((line for line in lines if line and not NO_REASON.match(line)), "")
        line = re.sub(r"\{\{.*?\}\}|\[\[.*?\]\]|\S*/\S+", "", line).strip()
    return f"The model does not take these values: {line[:200]}"


def _files(path):
    return [(file, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(path.rglob("*")) if file.exists()]
