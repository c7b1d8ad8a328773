"""Private names of Keras and TensorFlow: those in use exist, and `keras_headattn._private` alone uses them."""

import ast
import importlib
import importlib.util
import pathlib
import types

import keras
import pytest

from keras_headattn import _private

ROOT = pathlib.Path(__file__).resolve().parents[1] / "keras_headattn"
PRIVATE = ROOT / "_private.py"

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("the names are those on TensorFlow", allow_module_level=True)


def built_optimizer():
    optimizer = keras.optimizers.SGD(0.1, use_ema=True)
    optimizer.build([keras.Variable([1.0])])
    return optimizer


def compiled_model():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def tokenizer():
    """An object with the names that the constructor of a tokenizer uses: a tokenizer itself needs a vocabulary."""
    import tensorflow_text

    return types.SimpleNamespace(**dict.fromkeys(tensorflow_text.SentencepieceTokenizer.__init__.__code__.co_names))


# Where private names live: a function that makes the object, and the names. A module is given by its own name.
NAMES = {
    "a layer": (
        lambda: keras.layers.Dense(1),
        [
            "_flatten_layers",
            "_call_has_training_arg",
            "_convert_input_args",
            "_allow_non_tensor_positional_args",
            "_remat_mode",
        ],
    ),
    "a stock attention layer": (lambda: keras.layers.MultiHeadAttention(1, 1), ["_flash_attention"]),
    "a variable": (lambda: keras.Variable([1.0]), ["_value"]),
    "the value of a variable": (lambda: keras.Variable([1.0]).value, ["_aggregation"]),
    "a compiled model": (
        compiled_model,
        [
            "_aggregate_additional_loss",
            "_compute_loss",
            "_initial_epoch",
            "_loss_tracker",
            "_make_function",
            "_maybe_symbolic_build",
            "_resolve_auto_jit_compile",
            "_symbolic_build",
        ],
    ),
    "a built optimizer": (
        built_optimizer,
        [
            "_all_reduce_sum_gradients",
            "_apply_weight_decay",
            "_iterations",
            "_model_variables_moving_average",
            "_trainable_variables",
            "_use_weight_decay",
            "_var_key",
            "_variables",
        ],
    ),
    "a CallbackList": (keras.callbacks.CallbackList, ["_async_test", "_async_train"]),
    "`extended` of a strategy": (lambda: tf.distribute.get_strategy().extended, ["_use_merge_call"]),
    "a TrackableResource": (lambda: tf.saved_model.experimental.TrackableResource, ["_create_resource"]),
    "keras.src.backend": (None, ["AutocastScope", "get_autocast_scope", "rnn"]),
    "keras.src.backend.common.global_state": (None, ["get_global_attribute", "set_global_attribute"]),
    "keras.src.models.functional": (None, ["Functional"]),
    "keras.src.models.model": (None, ["functional_init_arguments"]),
    "keras.src.random.seed_generator": (None, ["GLOBAL_SEED_GENERATOR", "global_seed_generator"]),
    "keras.src.saving.saving_lib": (None, ["H5IOStore", "_save_state"]),
    "keras.src.trainers.trainer": (None, ["model_supports_jit"]),
    "tensorflow.compiler.xla.tsl.protobuf.coordination_config_pb2": (None, ["CoordinatedJob"]),
    "tensorflow.python.eager": (None, ["context"]),
    "tensorflow.python.eager.context": (None, ["_context", "context", "function_executor_type"]),
    "tensorflow.python.ops.control_flow_util": (None, ["GraphOrParentsInXlaContext"]),
    "a tokenizer of tensorflow_text": (tokenizer, ["_model_resource"]),
    "tensorflow_text.python.ops.sentencepiece_tokenizer": (None, ["gen_sentencepiece_tokenizer"]),
}


def missing(names):
    """The names that the installed versions do not have, each as a line of text."""
    for where, (make, attributes) in names.items():
        try:
            found = make() if make else importlib.import_module(where)
        except (ImportError, AttributeError) as error:
            yield f"{where} cannot be had: {error}"
            continue
        yield from (f"{where} has no {name}" for name in attributes if not hasattr(found, name))


def test_private_names_exist():
    names = NAMES
    if not importlib.util.find_spec("tensorflow_text"):
        names = {where: parts for where, parts in NAMES.items() if "tensorflow_text" not in where}
    assert list(missing(names)) == []


def test_what_is_missing_is_named():
    names = {"a layer": (lambda: keras.layers.Dense(1), ["_no"]), "keras.src.no": (None, ["x"])}
    assert list(missing(names)) == [
        "a layer has no _no",
        "keras.src.no cannot be had: No module named 'keras.src.no'",
    ]


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def is_private_module(name):
    return name.startswith(("keras.src", "tensorflow.python", "tensorflow.compiler", "tensorflow_text.python"))


def uses(path):
    """`[(line, object, name), ...]` of private names: attributes, texts given to `getattr` and others, and imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node.lineno, ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr", "delattr"):
            owner, name = node.args[:2]
            if isinstance(name, ast.Constant) and is_private(name.value):
                yield node.lineno, ast.unparse(owner), name.value
        elif isinstance(node, ast.ImportFrom) and is_private_module(node.module):
            yield from ((node.lineno, node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names if is_private_module(alias.name))


def test_the_table_has_the_names_in_use():
    found = {name for _, _, name in uses(PRIVATE)} | set(_private.HOOKS)
    assert found == {name for _, names in NAMES.values() for name in names}


def faults(path):
    """Private names of others that a file uses itself."""
    foreign = {name for _, names in NAMES.values() for name in names} - set(_private.HOOKS)
    for line, owner, name in uses(path):
        if owner not in ("self", "cls", "super()") or name in foreign:
            yield f"{path}:{line} uses {owner}.{name}: give it a function in {PRIVATE.name}"


def test_other_files_use_no_private_names():
    paths = [path for path in ROOT.rglob("*.py") if path != PRIVATE]
    assert [fault for path in paths for fault in faults(path)] == []


@pytest.mark.parametrize("source, count", [
    ("model._flatten_layers()", 1),
    ("self.model._flatten_layers()", 1),
    ("self._flatten_layers()", 1),
    ("getattr(layer, '_x', None)", 1),
    ("from keras.src import backend", 1),
    ("import tensorflow.python.eager", 1),
    ("def f():\n    from tensorflow.python.eager import context", 1),
    ("self._mine, cls._mine, x.__name__, super()._make_function()", 0),
    ("from keras import ops\nfrom keras_headattn._private import flatten_layers", 0),
])  # fmt: skip
def test_the_lint_catches(source, count, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert len(list(faults(path))) == count
