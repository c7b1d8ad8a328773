"""Options that would have no effect are refused by name."""

import argparse

import pytest

from recipes.classify import __main__ as classify
from recipes.engine.config import override
from recipes.engine.texts.explain import explain_command
from recipes.glue import __main__ as glue
from recipes.graphs import __main__ as graphs
from recipes.imagenet import __main__ as imagenet
from recipes.translate import __main__ as translate

FILES = {"train": ("a", "b"), "validation": ("c", "d")}
TABLE = {"train": ("a.csv",)}
EMBEDDED = {"embedded": True}
TEST = {"test": ("a.csv",)}


def refused(recipe, settings, given):
    """The message for options that are given to `evaluate` of a run with these settings."""
    config = override(recipe.RECIPE.settings(), settings).changed(
        {name: value for name, value in given.items() if name != "test"}
    )
    try:
        config.refuse_unused(given)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "recipe, settings, given, option",
    [
        (
            translate,
            FILES,
            {"splits": {"test": "nosuch"}},
            "--splits is only for data by --iwslt or --tfds, not for files",
        ),
        (translate, EMBEDDED, {"splits": {"test": "nosuch"}}, "--splits"),
        (translate, {"tfds": "x"}, {"splits": {"test": "y"}, "test": ("a", "b")}, "--splits"),
        (translate, FILES, {"tfds": "x", "test": ("a", "b")}, "--tfds and --test name test sets"),
        (translate, FILES, {"embeddings": "x.vec"}, "--embeddings is for --metrics yisi"),
        (translate, FILES, {"comet_model": "x"}, "--comet-model is for --metrics comet"),
        (translate, FILES, {"columns": (2, 1)}, "--columns is only for files of pairs"),
        (translate, FILES | {"pretrained": "x"}, {"vocabulary_size": 99}, "--vocabulary-size is that of --pretrained"),
        (classify, TABLE, {"splits": {"test": "test"}}, "--splits is only for data by --tfds"),
        (classify, {"tfds": "x"}, {"format": "csv"}, "--format is only for files"),
        (classify, {"tfds": "x"}, {"tfds": "y", **TEST}, "--tfds and --test"),
        (classify, EMBEDDED, {"text_column": "x"}, "--text-column is not for the embedded data"),
        (classify, TABLE, {"format": "tsv", "delimiter": ";"}, "--delimiter is only for csv"),
        (classify, TABLE, {"label_separator": ";"}, "--label-separator is for --predict labels"),
        (classify, TABLE | TEST, {"test_share": 0.3}, "--test-share is that of --train"),
        (glue, {"task": "cola", "glue": "x"}, {"encoding": "latin-1"}, "--encoding is only for files"),
        (glue, TABLE | {"task": "cola"}, {"text_column": "x"}, "--text-column is only for texts of your own"),
        (graphs, EMBEDDED, {"format": "json"}, "--format is only for files"),
        (imagenet, EMBEDDED, {"first_label": 0}, "--first-label is only for --records"),
    ],
)
def test_options_without_an_effect(recipe, settings, given, option):
    assert refused(recipe, settings, given).startswith(option)


@pytest.mark.parametrize(
    "recipe, settings, given",
    [
        (translate, {"tfds": "x"}, {"splits": {"test": "y"}}),
        (translate, FILES, {"iwslt": "x", "splits": {"test": "y"}}),
        (translate, FILES, {"columns": (2, 1), "test": ("a.tsv",)}),
        (translate, {}, {"test": ("a", "b")}),
        (classify, {"tfds": "x"}, {"text_column": "y", "splits": {"test": "test"}}),
        (classify, EMBEDDED, {"text_column": "y", "format": "csv", **TEST}),
        (glue, TABLE | {"task": "cola"}, {"encoding": "latin-1"}),
        (graphs, EMBEDDED, {"format": "json", **TEST}),
        (imagenet, {"records": "x"}, {"first_label": 0}),
    ],
)
def test_options_with_an_effect(recipe, settings, given):
    assert refused(recipe, settings, given) is None


def test_samples_of_no_method(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    command, parser = explain_command(), argparse.ArgumentParser()
    command.add(parser)
    arguments = ["run", "--file", str(tmp_path / "a.txt"), "--methods", "gradient"]
    for option in ("--samples", "--seed"):
        with pytest.raises(ValueError, match=f"{option} is only for lime.*=5 for gradient"):
            command.run(parser.parse_args([*arguments, option, "5"]))
