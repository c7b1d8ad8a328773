"""Four logical CPU devices for the whole test run, and the fixtures that find data outside the repository."""

import collections
import gc
import os
import pathlib
import sys
import unittest.mock
import warnings
import zlib

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# XLA compiles most programs here for one call.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import numpy as np
import pytest

from tests.backends import OTHERS, skip_without
from tests.durations import Durations

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("HEADATTN_SHARED", ROOT.parent / "shared"))
MANY = 8  # cases of a test, at the least, of which `make test` runs one in four, in these folders and files
SPARED = "analysis/", "decoding/", "interop/", "layers/", "models/", "positions/", "recipes/engine/test_heads.py"
SPARED += "recipes/test_sweep.py", "serving/test_exports.py"
ALWAYS = "test_refusals.py", "test_wrong_arguments.py", "test_equations.py"  # but in these, and of golden vectors, all

if os.environ["KERAS_BACKEND"] == "tensorflow":
    import tensorflow as tf
    from tensorflow.python.data.ops import dataset_ops

    from keras_headattn._tensorflow import untuned

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )
    tf.random.set_seed(0)

    # Whoever deletes a tuned iterator of Keras's may wait for a minute. TensorFlow has no option for all data sets.
    dataset_ops.DatasetV2._apply_debug_options = untuned


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_modifyitems(items):
    """Marks tests as `golden`, as `slow` those that slow.txt names, and as `nightly` those that nightly.txt names and
    three of four cases of tests that have many, such as all attention layers.

    Files of slow.txt run first, in its order: the file that takes longest begins it, so that no process ends long
    before the others.
    """
    slow = named_tests("slow.txt")
    nightly = {*named_tests("nightly.txt")}
    order = {name: index for index, name in enumerate(slow)}
    cases = collections.defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for item in items:
        file = item.path.relative_to(ROOT / "tests").as_posix()
        name = f"{file}::{item.name}"
        test, others = name.partition("[")[0], cases[item.nodeid.partition("[")[0]]
        names = {file, name, test}
        is_golden = "golden" in getattr(item, "fixturenames", ())
        has_many = len(others) >= MANY and file.startswith(SPARED) and file.rpartition("/")[2] not in ALWAYS
        has_many &= "golden" not in name and not is_golden
        place = others.index(item)  # of four cases in turn one stays, the same for all tests of a file
        is_spared = has_many and (place + zlib.crc32(f"{file} {place // 4}".encode())) % 4
        if nightly & names or is_spared:
            item.add_marker("nightly")
        if is_golden:
            item.add_marker("golden")
        if order.keys() & names:
            item.add_marker("slow")
    items.sort(key=lambda item: order.get(item.path.relative_to(ROOT / "tests").as_posix(), len(slow)))


def named_tests(list_name):
    """Files, tests and cases that a list names, which must be there."""
    names = (ROOT / "tests" / list_name).read_text(encoding="utf-8").splitlines()[1:]
    for name in names:
        file, _, test = name.partition("::")
        path = ROOT / "tests" / file
        if not path.exists() or test.partition("[")[0] not in path.read_text(encoding="utf-8"):
            raise pytest.UsageError(f"tests/{list_name} names a test that is not there. Received: {name}")
    return names


def pytest_collection_finish():
    """Leaves what has been imported out of collections of garbage."""
    gc.freeze()


def collect_garbage(*args, collect=gc.collect):
    """Does nothing for Keras's layers, which collect garbage after each kernel they replace: seconds, in a process with
    many tests.
    """
    return 0 if sys._getframe(1).f_globals["__name__"] == "keras.src.layers.layer" else collect(*args)


gc.collect = collect_garbage


@pytest.fixture
def golden():
    """Opens a file of golden vectors, those of the repository or others, or skips the test where there are none."""

    def load(name):
        folders = [ROOT / "tests" / "golden", SHARED / "golden"]
        path = next((folder / name for folder in folders if (folder / name).exists()), None)
        if path is None:
            pytest.skip(f"golden vectors not present: {folders[1] / name}")
        return np.load(path, allow_pickle=False)

    return load


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real data sets, or skips the test where there is none."""
    path = SHARED / "data"
    if not path.exists():
        pytest.skip(f"real data sets not present: {path}")
    return path


@pytest.fixture(scope="module")
def libraries():
    """torch and transformers, whose imports may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torch
            import transformers
        except ImportError as error:
            pytest.skip(f"needs torch and transformers: {error}")
        yield torch, transformers


@pytest.fixture(scope="session", params=OTHERS)
def other_backend(request):
    """Name of a backend of Keras that is installed besides that of this process."""
    skip_without(request.param)
    return request.param


@pytest.fixture(autouse=True)
def fresh_keras_state():
    """Every test starts from the same seed and the same dtype policy.

    TensorFlow's own seed stays: where it is set, TensorFlow forgets all kernels, and makes them anew.
    """
    import keras

    with unittest.mock.patch("tensorflow.random.set_seed"):
        keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
