"""Options that would have no effect are refused by name."""

import argparse

import pytest

from recipes.answer import __main__ as answer
from recipes.classify import __main__ as classify
from recipes.engine.config import override
from recipes.engine.texts.explaining import explain_command
from recipes.glue import __main__ as glue
from recipes.graphs import __main__ as graphs
from recipes.imagenet import __main__ as imagenet
from recipes.series import __main__ as series
from recipes.translate import __main__ as translate
from tests.refusals import refused

FILES = {"train": ("a", "b"), "validation": ("c", "d")}
TABLE = {"train": ("a.csv",)}
EMBEDDED = {"built_in": True}
TEST = {"test": ("a.csv",)}


def with_options(recipe, settings, given):
    """The settings of a run with options that are given to `evaluate`."""
    values = {name: value for name, value in given.items() if name != "test"}
    return override(recipe.RECIPE.settings(), settings).changed(values)


@pytest.mark.parametrize("recipe, settings, given, options", [
    (translate, FILES, {"splits": {"test": "nosuch"}}, "--splits"),
    (translate, EMBEDDED, {"splits": {"test": "nosuch"}}, "--splits"),
    (translate, {"tfds": "x"}, {"splits": {"test": "y"}, "test": ("a", "b")}, "--splits"),
    (translate, FILES, {"tfds": "x", "test": ("a", "b")}, "--tfds and --test"),
    (translate, FILES, {"embeddings": "x.vec"}, "--embeddings is for --metrics yisi"),
    (translate, FILES, {"comet_model": "x"}, "--comet-model is for --metrics comet"),
    (translate, FILES, {"columns": (2, 1)}, "--columns"),
    (translate, FILES | {"pretrained": "x"}, {"vocabulary_size": 99}, "--vocabulary-size is that of --pretrained"),
    (translate, FILES | {"vocabulary": ("x",)}, {"vocabulary_sentences": 9}, "--vocabulary-sentences is that of"),
    (classify, TABLE, {"splits": {"test": "test"}}, "--splits"),
    (classify, TABLE, {"attention_regularizer_arguments": {"weight": 1.0}}, "is for --attention-regularizer"),
    (classify, TABLE | {"encoder": "naive_bayes"}, {"embeddings": "x.vec"}, "--embeddings is not for"),
    (classify, TABLE | {"encoder": "naive_bayes"}, {"model_arguments": {"dropout": 0.1}}, "--model-arguments is not"),
    (classify, TABLE | {"predict": "number"}, {"labels": ("a", "b")}, "--labels is for classes"),
    (classify, TABLE | {"predict": "number"}, {"label_smoothing": 0.1}, "--label-smoothing is for classes"),
    (glue, TABLE | {"task": "stsb"}, {"label_smoothing": 0.1}, "--label-smoothing is for classes"),
    (glue, TABLE | {"checkpoint": "x"}, {"vocabulary_size": 99}, "--vocabulary-size is that of --checkpoint"),
    (answer, TABLE | {"checkpoint": "x"}, {"vocabulary_size": 99}, "--vocabulary-size is that of --checkpoint"),
    (classify, {"tfds": "x"}, {"format": "csv"}, "--format"),
    (classify, {"tfds": "x"}, {"tfds": "y", **TEST}, "--tfds and --test"),
    (classify, EMBEDDED, {"text_column": "x"}, "--text-column"),
    (classify, TABLE, {"format": "tsv", "delimiter": ";"}, "--delimiter"),
    (classify, TABLE, {"label_separator": ";"}, "--label-separator is for --predict labels"),
    (classify, TABLE | TEST, {"test_share": 0.3}, "--test-share is that of --train"),
    (glue, {"task": "cola", "glue": "x"}, {"encoding": "latin-1"}, "--encoding"),
    (glue, TABLE | {"task": "cola"}, {"text_column": "x"}, "--text-column"),
    (graphs, EMBEDDED, {"format": "json"}, "--format"),
    (classify, EMBEDDED, {"test_share": 0.3}, "--test-share is that of --train"),
    (classify, TABLE | {"encoder": "cnn"}, {"pooling_heads": 2}, "--pooling-heads is not for"),
    (classify, TABLE | {"tokens": "pieces"}, {"min_count": 2}, "--min-count is for --tokens words"),
    (series, EMBEDDED, {"id_column": "x"}, "--id-column needs --train"),
    (series, EMBEDDED, {"validation": "a.csv"}, "--validation needs --train"),
    (series, EMBEDDED | {"attention": "none"}, {"num_heads": 2}, "--num-heads needs --attention"),
    (imagenet, EMBEDDED, {"first_label": 0}, "--first-label is only for --records"),
])  # fmt: skip
def test_options_without_an_effect(recipe, settings, given, options):
    config = with_options(recipe, settings, given)
    with refused(options):
        config.refuse_unused(given)


@pytest.mark.parametrize(
    "recipe, settings, given",
    [
        (translate, {"tfds": "x"}, {"splits": {"test": "y"}}),
        (translate, FILES, {"iwslt": "x", "splits": {"test": "y"}}),
        (translate, FILES, {"columns": (2, 1), "test": ("a.tsv",)}),
        (translate, {}, {"test": ("a", "b")}),
        (
            translate,
            FILES | {"vocabulary": ("x",), "moses": True},
            {"truecase": True, "vocabulary_sentences": 9},
        ),
        (classify, {"tfds": "x"}, {"text_column": "y", "splits": {"test": "test"}}),
        (classify, EMBEDDED, {"text_column": "y", "format": "csv", **TEST}),
        (glue, TABLE | {"task": "cola"}, {"encoding": "latin-1"}),
        (graphs, EMBEDDED, {"format": "json", **TEST}),
        (imagenet, {"records": "x"}, {"first_label": 0}),
    ],
)
def test_options_with_an_effect(recipe, settings, given):
    with_options(recipe, settings, given).refuse_unused(given)


def test_samples_of_no_method(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    command, parser = explain_command(), argparse.ArgumentParser()
    command.add(parser)
    arguments = ["run", "--file", str(tmp_path / "a.txt"), "--methods", "gradient"]
    for option in ("--samples", "--seed"):
        with refused(option, "=5 for gradient"):
            command.run(parser.parse_args([*arguments, option, "5"]))
