"""Named settings, the defaults and `--quick` build what they built when every argument was a setting of its own.

python -m tests.recipes.test_old_configurations     writes old_configurations.json anew, with what they build now
"""

import argparse
import collections
import dataclasses
import functools
import importlib
import json
import pathlib
import re
import types

import keras
import pytest

from recipes.engine.config import takers
from recipes.engine.signatures import passed_on

FILE = pathlib.Path(__file__).with_name("old_configurations.json")
# Where a setting of that time is now.
MOVED = {
    "all": {
        "save_steps": "callback_arguments.save_steps", "gradient_norm": "callback_arguments.gradient_norm",
        "profile_steps": "callback_arguments.profile_steps",
        "steps_per_execution": "compile_arguments.steps_per_execution",
    },
    "graphs": {
        "min_count": "vocabulary_arguments.min_count", "max_words": "vocabulary_arguments.max_words",
        "num_buckets": "bucket_arguments.num_buckets", "num_graph_buckets": "bucket_arguments.num_graph_buckets",
    },
    "imagenet": {"flip": "augmentation_arguments.flip", "color_jitter": "augmentation_arguments.jitter"},
}  # fmt: skip
OF_SPLITS = {"train_split": "splits.train", "validation_split": "splits.validation", "test_splits": "test_splits"}
TEXT = OF_SPLITS | {"export_maps": "export_arguments.attention"}
MOVED |= {name: TEXT for name in ("classify", "glue")}
MOVED["translate"] = TEXT | {
    "export_weights": "export_arguments.weights",
    "export_cpu_only": "export_arguments.cpu_only",
}
# Settings of that time that show in the model or the optimizer.
BUILT = {
    "step_size", "repulsive_weight", "inverse_temperature", "prior_deviation", "repulsive_kernel",
    "repulsive_smoothing", "repulsive_projections", "repulsive_roles", "repulsive_layers", "repulsive_select",
    "regularizer_weight", "clipnorm", "accumulation", "beta_2", "epsilon", "clipvalue", "momentum",
    "num_layers", "hidden_dim", "intermediate_dim", "dropout", "attention_dropout", "activation_dropout",
    "normalize_first", "learned_positions", "relative_positions", "tie_output", "embedding_dim", "factor_dim",
    "mlp_dim", "train_embeddings", "head_dim", "pooling", "num_positions", "generator_share",
    "discriminator_weight", "drawn_share", "masked_share", "replacement", "initializer_range", "num_encoder_layers",
    "embedding_dropout", "trainable_layers", "lstm_dim", "key_ratio", "value_ratio", "min_key_dim",
    "attention_stages", "small_images", "filters",
}  # fmt: skip
# Settings that single recipes could not change, or pass on now.
GONE = {
    "glue": {"weight_decay"},
    "pretrain": {"label_smoothing", "weight_decay"},
    "graphs": {"label_smoothing"},
    "rationales": {"label_smoothing", "pooling_dim"},
    "imagenet": {"min_area"},
    "translate": {"images", "projector"},
}
# A setting that says what to train on, of data that are not embedded.
SOURCES = {
    "translate": {"train": ("a", "b"), "validation": ("c", "d")},
    "classify": {"train": ("a.csv",)},
    "glue": {"train": ("a.csv",)},
    "pretrain": {"train": ("a.txt",)},
    "graphs": {"train": ("a.json",), "validation": ("b.json",)},
    "rationales": {"eraser": "a"},
    "imagenet": {"images": "a"},
}
TOKENIZER = types.SimpleNamespace(
    vocabulary_size=40, mask_id=4, bos_id=2, eos_id=3, pad_id=0, unk_id=1, max_length=None
)
GRAPHS = types.SimpleNamespace(
    vocabulary_size=40, entity_vocabulary_size=30, num_relations=7, title_vocabulary_size=20, forbidden_ids=(0, 1)
)


def recipe_of(name):
    return importlib.import_module(f"recipes.{name}.__main__").RECIPE


def configs_of(name):
    """The settings of a recipe by name."""
    recipe = recipe_of(name)
    quick = functools.partial(argparse.Namespace, config=None, quick=True)
    found = {"defaults": recipe.settings(), "--quick": recipe.chosen_settings(quick())}
    found |= {"--quick of files": recipe.chosen_settings(quick(**SOURCES[name]))}
    return found | {each: recipe.named_config(each) for each in recipe.config_names()}


def model_of(name, config):
    """The model of settings, for small vocabularies."""
    modelling = importlib.import_module(f"recipes.{name}.modelling")
    if name in ("glue", "rationales") and not config.size:
        config = dataclasses.replace(config, size="bert_tiny")
    if name == "rationales":
        return modelling.make_classifier(
            modelling.make_encoder(config, TOKENIZER), 3, config.model_arguments, config.seed
        )
    make = {
        "translate": lambda: modelling.make_transformer(config, 40, 30),
        "classify": lambda: modelling.make_classifier(config, 40, 3),
        "glue": lambda: modelling.make_classifier(config, TOKENIZER, 3),
        "pretrain": lambda: modelling.make_pretraining(config, TOKENIZER),
        "graphs": lambda: modelling.make_writer(config, GRAPHS),
        "imagenet": lambda: modelling.make_classifier(config, 10),
    }
    return make[name]()


OTHERS = re.compile(  # what no setting says
    "name|registered_name|module|build_config|inbound_nodes|shared_object_id|dtype|trainable|class_name|data_format|"
    "dilation_rate|groups|padding|axis|(?!embed).*_initializer|.*_constraint|activity_regularizer|noise_shape|sparse|"
    "ragged|optional|batch_shape|autocast|(beta|gamma|bias)_regularizer|center|scale|epsilon_|mean|variance"
)


def flat(value, path=""):
    """Yields `(path, value)` of each part of a configuration that is not `None`."""
    if isinstance(value, dict):
        for name, part in value.items():
            if not OTHERS.fullmatch(name):
                yield from flat(part, f"{path}.{name}" if path else name)
    elif value is not None:
        yield path, value


def layers_of(model):
    """How often a model of many layers has each value of each argument."""
    counts = collections.Counter()
    for layer in model._flatten_layers(include_self=False):
        if not isinstance(layer, keras.Model):
            config = keras.saving.serialize_keras_object(layer)["config"]
            counts.update(f"{type(layer).__name__}.{path}={value}" for path, value in flat(config))
    return dict(counts)


def built(name, config):
    """What settings build, as JSON: a flat dictionary."""
    model = model_of(name, config)
    parts = layers_of(model) if name == "imagenet" else model.get_config()
    optimizer = recipe_of(name).make_task(config).make_optimizer(10, 1)
    found = {"model": parts, "optimizer": optimizer.get_config()}
    found = json.loads(json.dumps(keras.saving.serialize_keras_object(found), default=str))
    settings = {name: value for name, value in dataclasses.asdict(config).items() if value is not None}
    return dict(flat(found)) | {f"settings.{each}": value for each, value in json.loads(json.dumps(settings)).items()}


def value_of(config, path):
    """The value of `"epochs"`, or of `"optimizer_arguments.beta_2"`: that of its constructor where none is given."""
    name, _, key = path.partition(".")
    value = getattr(config, name)
    if key:
        (field,) = (field for field in dataclasses.fields(config) if field.name == name)
        value = (passed_on(takers(config, field)) | value)[key]
    return json.loads(json.dumps(value))


# Named settings that are newer than the file are not in it.
CASES = [(name, each) for name, kept in json.loads(FILE.read_text()).items() for each in kept["configs"]]


@pytest.fixture(scope="module")
def old():
    return json.loads(FILE.read_text())


@pytest.mark.parametrize("name, each", CASES, ids=map(" ".join, CASES))
def test_nothing_else_is_built(name, each, old):
    config, common = configs_of(name)[each], old[name]["common"]
    now, moved = built(name, config), MOVED.get("all", {}) | MOVED.get(name, {})
    for path, value in (common | old[name]["configs"][each]).items():
        kind, _, setting = path.partition(".")
        if kind != "settings":
            assert now.get(path) == value, path
        elif setting not in BUILT | GONE.get(name, set()):
            assert value_of(config, moved.get(setting, setting)) == value, path


def write():
    """Writes `FILE`: for each recipe what most of its settings have, and the differences of each."""
    found = {}
    for name in SOURCES:
        all_built = {each: built(name, config) for each, config in configs_of(name).items()}
        values = collections.defaultdict(collections.Counter)
        for one in all_built.values():
            for path, value in one.items():
                values[path][json.dumps(value)] += 1
        most = {path: counts.most_common(1)[0] for path, counts in values.items()}
        common = {path: json.loads(value) for path, (value, count) in most.items() if 2 * count > len(all_built)}
        found[name] = {"common": common, "configs": {}}
        for each, one in all_built.items():
            other = {path: value for path, value in one.items() if common.get(path) != value}
            found[name]["configs"][each] = other | dict.fromkeys(sorted(common.keys() - one.keys()))
    FILE.write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write()
