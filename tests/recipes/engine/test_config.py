import argparse
import dataclasses
import pathlib
import re

import pytest

import recipes
from keras_headattn.models import SIZES
from recipes.engine.config import add_options, check_ranges, load_config, option, override, save_config, settings
from recipes.engine.settings import Settings as AllSettings
from recipes.pretrain.__main__ import RECIPE as RECIPE_OF_PRETRAIN
from recipes.translate.__main__ import RECIPE
from recipes.translate.settings import TranslateConfig
from tests.recipes.commands import all_configs
from tests.refusals import refused


@settings()
class Settings:
    title = "settings"

    size: int = option(3, "a number")
    rate: float = option(0.5, "100% a rate", at_least=0, below=9)
    kind: str = option("a", "a choice", ("a", "b"))
    files: tuple[str, ...] = option((), "names")
    limit: int | None = option(None, "perhaps a number", above=0)
    fast: bool = option(True, "a switch")
    arguments: dict = option({}, "of a layer")
    side: str | None = option(None, "one of two, or neither", ("left", "right"))

    def __post_init__(self):
        check_ranges(self)


def parse(*arguments, **options):
    parser = argparse.ArgumentParser()
    add_options(parser, Settings, **options)
    return vars(parser.parse_args(arguments))


def test_options_not_given_are_absent():
    assert parse() == {}


def test_options_have_the_type_of_their_field():
    values = parse("--size", "4", "--rate", "1", "--kind", "b", "--files", "x", "y", "--limit", "7", "--no-fast")
    assert values == {"size": 4, "rate": 1.0, "kind": "b", "files": ["x", "y"], "limit": 7, "fast": False}
    assert override(Settings(), values) == Settings(size=4, rate=1.0, kind="b", files=("x", "y"), limit=7, fast=False)
    assert parse("--limit", "none", "--side", "none") == {"limit": None, "side": None}


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit):
        parse("--help")
    text = capsys.readouterr().out
    assert all(f"--{field.name}" in text for field in dataclasses.fields(Settings)) and "100% a rate" in text


def test_help_of_some_options_with_another_default(capsys):
    with pytest.raises(SystemExit):
        parse("--help", names=("size",), default="the run's")
    text = capsys.readouterr().out
    assert "[the run's]" in text and "--rate" not in text


@settings()
class Base:
    title = "training"

    epochs: int = option(1, "passes")
    seed: int = option(0, "of everything")


@settings()
class Files:
    title = "data"

    train: tuple[str, ...] = option((), "files", metavar="FILE")
    columns: str = option("c0", "one column", tuple(f"c{number}" for number in range(30)))


@settings()
class Text(Files):
    title = "data"

    encoding: str = option("utf-8", "of the files")


@settings()
class Whole(Text, Base):
    title = "training"
    MOST_USED = ("train", "epochs")

    optimizer: str = option("adam", "which")


def test_help_has_the_most_used_options_first_and_each_title_once(capsys):
    parser = argparse.ArgumentParser()
    add_options(parser, Whole, first=parser.add_argument_group("most used"))
    parser.print_help()
    text = capsys.readouterr().out
    groups = re.findall(r"^(\w[\w ]*):\n((?:  .*\n)+)", text, re.M)
    assert [(title, re.findall("^  --([a-z]+)", lines, re.M)) for title, lines in groups[1:]] == [
        ("most used", ["train", "epochs"]),
        ("data", ["columns", "encoding"]),
        ("training", ["seed", "optimizer"]),
    ]
    assert "--train [FILE ...]" in text and "--encoding TEXT" in text
    assert "--columns NAME" in text and "one column; one of c0, c1, c2," in text and "{c0" not in text


def test_json_round_trip(tmp_path):
    config = Settings(rate=2.0, files=("x",), limit=5, arguments={"mixture": ("random", "dense"), "alpha": 0.1})
    save_config(config, tmp_path / "config.json", "mine")
    assert load_config(Settings, tmp_path / "config.json", "mine") == config
    with refused("recipes.mine", f"{tmp_path / 'config.json'} for recipes.other"):
        load_config(Settings, tmp_path / "config.json", "other")


def test_files_of_no_run_are_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"size": 3}')
    with refused("recipe", "size"):
        load_config(Settings, tmp_path / "config.json", "mine")


def test_arguments_of_a_layer(capsys):
    given = ["alpha=0.1", "mixture=random,dense", "mode=sum", "width=none", "gate=true", "sizes=(3, 5)"]
    found = parse("--arguments", *given)
    assert found["arguments"] == dict(
        alpha=0.1, mixture=("random", "dense"), mode="sum", width=None, gate=True, sizes=(3, 5)
    )
    nested = "-" * 10_000 + "1"
    assert parse("--arguments", f"mode={nested}")["arguments"] == {"mode": nested}
    with pytest.raises(SystemExit):
        parse("--arguments", "alpha")
    assert "NAME=VALUE. Received: alpha" in capsys.readouterr().err


@settings(size=5, rate=option(0.1, "another rate", below=1))
class Others(Settings):
    own: int = option(1, "its own")


def test_inherited_settings_with_other_defaults():
    assert (Others().size, Others().rate, Others().own, Settings().size) == (5, 0.1, 1, 3)
    assert [field.name for field in dataclasses.fields(Others)][:2] == ["size", "rate"]


@pytest.mark.parametrize(
    "defaults, body, name, received",
    [
        ({"kind": "c"}, {}, "option()", "kind='c'"),
        ({"size": None}, {}, "option()", "size=None"),
        ({"files": "x"}, {}, "files", "files='x'"),
        ({"sise": 4}, {}, "option()", "sise (did you mean size?)"),
        ({"batches": option(4, "another")}, {}, "option()", "batches"),
        ({}, {"__annotations__": {"width": int}, "width": 3}, "option()", "width"),
    ],
)
def test_defaults_are_checked_when_the_class_is_made(defaults, body, name, received):
    with refused(name, received):
        settings(**defaults)(type("Wrong", (Settings,), {"title": "settings", **body}))


def test_choices_of_settings_made_by_code():
    with refused("--kind", "kind='c'"):
        Settings(kind="c")
    assert Settings(side=None).side is None


def test_names_of_settings_exist():
    with refused("SIZE_OPTIONS", "hiden_dim"):
        dataclasses.replace(RECIPE, settings=type("Wrong", (TranslateConfig,), {"SIZE_OPTIONS": ("hiden_dim.x",)}))
    with refused("evaluated", "tests (did you mean test?)"):
        dataclasses.replace(RECIPE, evaluated=("tests",))


def test_data_made_by_code_need_no_source():
    config = AllSettings()
    assert config.SOURCES == () and config.data is None


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_damaged_json_is_an_error_with_the_file_name(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match="config.json"):
        load_config(Settings, tmp_path / "config.json", "mine")


def test_named_configurations_load():
    """All of them, each of a recipe."""
    found = all_configs()
    assert len(found) > 30 and {type(config).__name__ for config in found.values()} == {
        "TranslateConfig", "ClassifyConfig", "GlueConfig", "ImageNetConfig", "PretrainConfig",
        "GraphsConfig", "RationalesConfig", "SeriesConfig", "TagConfig", "AnswerConfig", "LmConfig",
    }  # fmt: skip
    assert RECIPE.named_config("multi30k").size == "tiny"
    assert RECIPE.named_config("evolving_base_wmt14_fr").target_language == "fr"  # of several in a file


def test_a_value_is_in_one_file_or_the_one_it_names():
    for path in pathlib.Path(recipes.__path__[0]).glob("*/configs/*.py"):
        bases = re.findall(r"^from recipes.[a-z]+.configs import (.*)", path.read_text(encoding="utf-8"), re.M)
        assert len(bases) <= 1, path
        for base in bases:
            assert "import dataclasses" not in path.with_stem(base).read_text(encoding="utf-8"), path


def test_another_attention_has_other_arguments():
    config = RECIPE.named_config("evolving_lite_iwslt14")
    assert config.attention_arguments == dict(alpha=0.1, beta=0.1)
    assert config.changed({"model_arguments": {"dropout": 0.1}}).decoder_attention_arguments == dict(alpha=0.0)
    assert config.changed({"decoder_attention": "multi_head"}).decoder_attention_arguments == {}
    assert config.changed({"decoder_attention": "evolving"}) == dataclasses.replace(
        config, decoder_attention="evolving"
    )
    other = config.changed({"attention": "multi_head"})
    assert other.attention_arguments == other.decoder_attention_arguments == {}


def test_other_data_take_the_place_of_those_of_a_configuration():
    config = RECIPE.named_config("wmt14_de").changed({"train": ("a", "b"), "validation": ("c", "d")})
    assert config.data == "train" and config.tfds is None and config.changed({"built_in": True}).validation == ()


def test_vocabularies_of_two_sizes():
    config = RECIPE.named_config("disentangled_iwslt14")
    assert (config.vocabulary_size, config.target_vocabulary_size) == (8848, 6632)


def test_the_synthetic_task_is_small():
    config = RECIPE.named_config("numbers")
    assert config.data == "built_in" and config.epochs == 6 and config.vocabulary_size == 300
    assert config.shape == dict(num_layers=2, hidden_dim=128, intermediate_dim=256, num_heads=4)


def test_sizes_of_the_papers():
    assert SIZES["tiny"] == dict(num_layers=4, hidden_dim=128, intermediate_dim=256, num_heads=4)
    assert override(TranslateConfig(), {"size": "base", "num_heads": 16}).shape == dict(
        num_layers=6, hidden_dim=512, intermediate_dim=2048, num_heads=16
    )


def test_a_run_may_export_nothing():
    assert TranslateConfig(export=None).export_folder is None
    assert TranslateConfig(run="runs/mine").export_folder == "saved_models/mine"


def test_arguments_are_merged_key_by_key():
    config = RECIPE_OF_PRETRAIN.settings().changed({"repulsive_arguments": {"step_size": 0.3}})
    assert config.repulsive_arguments["step_size"] == 0.3 and config.repulsive_arguments["repulsive_weight"] == 0.1
    config = config.changed({"repulsive_arguments": {"select": None}, "repulsive": "svgd"})
    assert config.repulsive_arguments == dict(step_size=0.3, repulsive_weight=0.1, select=None)


def test_another_constructor_has_other_arguments():
    config = TranslateConfig(attention_regularizer="disagreement", attention_regularizer_arguments=dict(per="token"))
    assert config.changed({"attention_regularizer": "none"}).attention_regularizer_arguments == dict(per="token")
    assert config.changed({"attention_regularizer": "frobenius"}).attention_regularizer_arguments == {}
