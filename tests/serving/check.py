"""Models exported here, run by other software: an older TensorFlow, OpenVINO, and TensorFlow Serving.

    python -m tests.serving.check --tensorflow PYTHON --openvino PYTHON --serving IMAGE

Each PYTHON is that of an environment which has the package, and need not have this library; `make serve-check` makes
both. IMAGE, such as tensorflow/serving:2.20.0, is run by docker, and asked over REST.

Exports a small SavedModel of each kind, runs requests on them here and there, and prints the largest difference of
numbers. It fails where strings or ids differ, numbers differ by more than 1e-4 of their size, or a model does not load
that did so before.
"""

import argparse
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile

from tests.serving.model_server import answers

# A program for each, without this library. It reads `[(kind, path, [(signature, inputs), ...]), ...]` from a file and
# writes `{kind: [outputs, ...]}` to another, an error in the place of the list where a model does not run.
PROGRAM = """
import os, pickle, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
def run(make):
    with open(sys.argv[1], "rb") as file:
        models = pickle.load(file)
    found = {}
    for kind, path, requests in models:
        try:
            call = make(path)
            found[kind] = [call(name, inputs) for name, inputs in requests]
        except Exception as error:
            found[kind] = f"{type(error).__name__}: {error}"
    with open(sys.argv[2], "wb") as file:
        pickle.dump(found, file)
"""
IN_TENSORFLOW = (
    PROGRAM
    + """
import tensorflow as tf, tensorflow_text
def make(path):
    model = tf.saved_model.load(path)
    def call(name, inputs):
        found = model.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        return {key: value.numpy() for key, value in found.items()}
    return call
run(make)
print(f"TensorFlow {tf.__version__}")
"""
)
IN_OPENVINO = (
    PROGRAM
    + """
import re
import numpy as np
import openvino as ov
core = ov.Core()
def as_in_tensorflow(port, value):
    name = min(port.get_names(), key=len)  # an output that has the name of an input gets a number
    return re.sub(r"_[0-9]+$", "", name), np.char.encode(value, "utf-8") if value.dtype.kind == "U" else value
def make(path):
    model = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    def call(name, inputs):
        found = model(inputs)
        return dict(as_in_tensorflow(port, value) for port, value in found.items())
    return call
run(make)
print(f"OpenVINO {ov.__version__}")
"""
)
ALL = ("translator", "ids_translator", "classifier_words", "classifier_pieces", "regressor", "image_classifier")
ALL += ("pixel_classifier", "vit_classifier", "pairs_word_pieces", "pairs_bytes", "graph_to_text", "question_answerer")
ALL += ("generator",)
# The kinds that must run in each. OpenVINO has no signatures: it takes `serving_default`.
SOFTWARE = {"tensorflow": (IN_TENSORFLOW, ALL), "openvino": (IN_OPENVINO, ("ids_translator", "pixel_classifier"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in SOFTWARE:
        parser.add_argument(f"--{name}", metavar="PYTHON", help="of an environment that has it")
    parser.add_argument("--serving", metavar="IMAGE", help="of TensorFlow Serving, which docker runs")
    arguments = vars(parser.parse_args())
    with tempfile.TemporaryDirectory() as folder:
        from tests.serving.kinds import Exports

        exports = Exports(folder)
        expected = {kind: list(_run_here(export)) for kind, export in exports.items()}
        failed = False
        for name, (program, required) in SOFTWARE.items():
            if arguments[name] is None:
                continue
            found, version = _run_there(arguments[name], program, exports, pathlib.Path(folder), name)
            print(version)
            for kind in exports:
                fault, line = _compare(found[kind], expected[kind], exports[kind].requests, name)
                failed |= fault and kind in required
                print(f"  {kind}: {line}")
        if arguments["serving"]:
            print(arguments["serving"])
            for kind in exports:
                found = answers(arguments["serving"], exports[kind])
                fault, line = _compare(found, expected[kind], exports[kind].requests, "serving")
                failed |= fault
                print(f"  {kind}: {line}")
    return int(failed)


def _run_here(export):
    import tensorflow as tf

    model = tf.saved_model.load(export.path)
    for name, inputs in export.requests:
        found = model.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        yield {key: value.numpy() for key, value in found.items()}


def _run_there(python, program, exports, folder, name):
    models = [
        (kind, str(export.path), [request for request in export.requests if _taken(request[0], name)])
        for kind, export in exports.items()
    ]
    given, found = folder / f"{name}.given", folder / f"{name}.found"
    given.write_bytes(pickle.dumps(models))
    process = subprocess.run([python, "-c", program, given, found], capture_output=True, text=True)
    if process.returncode:
        sys.exit(process.stderr)
    return pickle.loads(found.read_bytes()), process.stdout.strip()


def _taken(signature, name):
    return name != "openvino" or signature == "serving_default"


def _compare(found, expected, requests, name):
    """Whether there is a fault, and a line that says what was found."""
    import numpy as np

    if isinstance(found, str):
        missing = re.search("No conversion rule found for operations: (.*)", found)
        return True, f"does not run: {missing[0] if missing else ' '.join(found.split())[:300]}"
    taken = [outputs for outputs, (signature, _) in zip(expected, requests, strict=True) if _taken(signature, name)]
    difference = 0.0
    for ours, theirs in zip(taken, found, strict=True):
        if ours.keys() != theirs.keys():
            return True, f"other outputs: {sorted(theirs)} for {sorted(ours)}"
        for key, value in ours.items():
            if value.dtype == np.float32:
                if value.shape != theirs[key].shape:
                    return True, f"`{key}` has another shape: {theirs[key].shape} for {value.shape}"
                scale = np.maximum(np.abs(value), 1e-3)
                difference = max(difference, float(np.max(np.abs(theirs[key] - value) / scale, initial=0.0)))
            elif not np.array_equal(value, theirs[key]):
                return True, f"`{key}` differs"
    return difference > 1e-4, f"{len(found)} requests, the same; numbers to {difference:.0e}"


if __name__ == "__main__":
    sys.exit(main())
