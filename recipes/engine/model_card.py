"""Model cards: what the record of a run says of a model that it exports."""

import importlib.metadata
import pathlib
import platform
from dataclasses import fields

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_headattn._files import read_json
from recipes.engine.callbacks import final_epochs
from recipes.engine.config import PATHS, flag
from recipes.engine.report import shown_settings

PACKAGES = ("keras_headattn", "keras", "tensorflow", "tensorflow-text", "numpy")
LINK = "[keras_headattn](https://github.com/keras-headattn/keras_headattn)"


def card(run, config, model, path, version):
    """Returns the card of what is in a folder and becomes a version, in Markdown, with the metadata of model hubs."""
    signatures, operations = _read_signatures(path)
    choice = config.select, config.average, config.average_of
    tags = ["keras_headattn", run.recipe.name, *([] if "attention" in config.without_effect else [config.attention])]
    parts = [
        "\n- ".join(["---\nlibrary_name: keras\ntags:", *tags]) + "\n---",
        f"# {version.parent.name}, version {version.name}",
        f"{model.count_params():,} parameters, {config.description}. {_training(run, *choice)}",
        "## Use",
        *(_use(version, signatures, operations) if signatures else _checkpoints(path)),
        "## Data",
        *_data(run, config),
        "## Scores",
        *_scores(run),
        "## Settings",
        "Those of training that differ from their defaults, and a few others.",
        _table(["setting", "value"], _settings(config)),
        "## Versions",
        _table(["package", "version"], [["Python", platform.python_version()], *_versions()]),
        "## Limits",
        "\n".join(_limits(signatures)),
    ]
    return "\n\n".join(parts) + "\n"


def _training(run, *choice):
    history, recipe = run.history(), f"`recipes.{run.recipe.name}` of {LINK}"
    if not history:
        return f"{recipe} exported it, and did not train it."
    chosen = final_epochs(history, *choice)
    which = ("epoch " if len(chosen) == 1 else "the mean of epochs ") + ", ".join(map(str, chosen))
    return f"{recipe} trained it for {_epochs(len(history))}. Its weights are those of {which}."


def _epochs(count):
    return f"{count} epoch" + "s" * (count != 1)


def _read_signatures(path):
    """Returns the signatures of a SavedModel by name, and the names of its operations; both empty without one."""
    file, definition = path / "saved_model.pb", saved_model_pb2.SavedModel()
    if not file.exists():
        return {}, set()
    definition.ParseFromString(file.read_bytes())
    (graph,) = definition.meta_graphs
    nodes = [*graph.graph_def.node, *(node for func in graph.graph_def.library.function for node in func.node_def)]
    names = sorted(name for name in graph.signature_def if not name.startswith("__"))
    return {name: graph.signature_def[name] for name in names}, {node.op for node in nodes}


def _use(path, signatures, operations):
    # Those that TensorFlow lacks are of tensorflow-text; functions have names that begin with an underscore.
    needs_text = any(not name.startswith("_") and not hasattr(tf.raw_ops, name) for name in operations)
    name = min(signatures, key=lambda key: (key != "serving_default", key))
    inputs = signatures[name].inputs
    arguments = ", ".join(f"{key}={_example(inputs[key])}" for key in sorted(inputs))
    code = [
        "import tensorflow as tf",
        *(["import tensorflow_text  # operations of the model"] if needs_text else []),
        "",
        f'model = tf.saved_model.load("{path.parent.name}/{path.name}")  # the folder of this file',
        f'outputs = model.signatures["{name}"]({arguments})',
    ]
    rows = [[f"`{key}`", _tensors(signatures[key].inputs), _tensors(signatures[key].outputs)] for key in signatures]
    yield "```python\n" + "\n".join(code) + "\n```"
    if [tf.as_dtype(info.dtype) for info in inputs.values()] == [tf.string]:
        where = f"http://localhost:8501/v1/models/{path.parent.name}:predict"
        yield f"""```sh\ncurl {where} -d '{{"signature_name": "{name}", "instances": ["..."]}}'\n```"""
    yield "TensorFlow Serving and `python -m recipes.serve` serve the folder above this one. `None` is any size."
    yield _table(["signature", "inputs", "outputs"], rows)


def _checkpoints(path):
    names = ", ".join(f"`{folder.name}`" for folder in sorted(path.iterdir()) if folder.is_dir())
    yield f"Checkpoints: {names}. `keras_headattn.interop.from_pretrained` and Hugging Face's transformers load them."


def _shape(info):
    return [None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim]


def _example(info):
    """Returns code for a small input of a signature."""
    shape, dtype = [1 if size is None else size for size in _shape(info)], tf.as_dtype(info.dtype)
    return f'tf.fill({shape}, "...")' if dtype == tf.string else f"tf.zeros({shape}, tf.{dtype.name})"


def _tensors(infos):
    texts = (f"`{name}` {tuple(_shape(info))} {tf.as_dtype(info.dtype).name}" for name, info in sorted(infos.items()))
    return ", ".join(texts)


def _data(run, config):
    value, path = getattr(config, config.data or "", True), run.folder / "data.json"
    values = value if isinstance(value, tuple) else (value,)
    named = ", ".join(_without_folder(config, config.data, item) for item in values)
    named = "made by the code of the recipe" if value is True else named
    yield f"`{flag(config.data)}`: {named}." if config.data else f"They are {named}."
    if path.exists():
        rows = [
            [name, f"{part.get('examples', 0):,}", part.get("sha256", "")] for name, part in read_json(path).items()
        ]
        yield _table(["set", run.recipe.unit, "SHA-256 of its content"], rows)


def _scores(run):
    rows = []
    for path in sorted(run.results.glob("*/scores.json")):
        for name, score in read_json(path).items():
            score = score if isinstance(score, dict) else {"value": score}
            rows.append([path.parent.name, name, _number(score["value"]), score.get("signature") or ""])
    yield _table(["test set", "measure", "value", "signature"], rows) if rows else "No test set was scored."


def _number(value):
    return f"{value:.4f}" if isinstance(value, float) else "none" if value is None else f"{value:,}"


def _settings(config):
    return [[f"`{name}`", _without_folder(config, name, value)] for name, value in shown_settings(config).items()]


def _without_folder(config, name, value):
    """Returns the text of a setting; of a path its last part, as a reader has other folders."""
    paths = {field.name for field in fields(config) if field.metadata["metavar"] in PATHS}
    return pathlib.Path(value).name if name in paths else str(value)


def _versions():
    for name in PACKAGES:
        try:
            yield [name, importlib.metadata.version(name)]
        except importlib.metadata.PackageNotFoundError:
            pass


def _limits(signatures):
    yield "- The scores hold for the test sets above. Nothing is known of other data."
    if any("is_cut" in signature.outputs for signature in signatures.values()):
        yield "- The ends of long inputs are cut off. The output `is_cut` tells of which."
    yield "- Not examined: whether it treats groups of people alike, and what inputs made to mislead it do."
    yield "- Not recorded: the license of the data, the intended use, and whom to ask. Add them before you publish it."


def _table(columns, rows):
    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows))
