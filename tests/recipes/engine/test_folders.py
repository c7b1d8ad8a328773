"""Folders of runs: their names, their seeds, and which recipe they are of."""

import json

import pytest

from recipes.engine.counting import chosen_layers
from recipes.engine.folders import folders_of_seeds, titles
from recipes.engine.recipe_of import check_recipe, recipe_of


@pytest.mark.parametrize(
    "folders, expected",
    [
        (["runs/a"], ["a"]),
        (["runs/a", "runs/b"], ["a", "b"]),
        (["x/a", "y/a/"], ["x", "y"]),
        (["x/a", "y/a", "y/b"], ["x/a", "y/a", "y/b"]),
        (["runs/a", "runs/a/seed=1"], ["a", "a/seed=1"]),
    ],
)
def test_titles_are_what_differs(folders, expected):
    assert titles(folders) == expected


def test_seeds_are_sorted_by_number(tmp_path):
    assert folders_of_seeds(tmp_path) == []
    for seed in (10, 2):
        (tmp_path / f"seed={seed}").mkdir()
        (tmp_path / f"seed={seed}" / "config.json").write_text("{}")
    (tmp_path / "seed=3").mkdir()  # not begun
    assert [path.name for path in folders_of_seeds(tmp_path)] == ["seed=2", "seed=10"]
    assert folders_of_seeds(tmp_path / "seed=2") == [tmp_path / "seed=2"]


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({"recipe": "recipes.classify", "source_language": "en"}, "recipes.classify"),
        ({"recipe": "translate"}, "recipes.translate"),
        ({"source_language": "en"}, "recipes.translate"),
        ({"text_column": "text"}, "recipes.classify"),
        ({"image_size": 32}, "recipes.imagenet"),
        ({}, None),
    ],
)
def test_the_recipe_of_a_run(tmp_path, settings, expected):
    (tmp_path / "config.json").write_text(json.dumps(settings))
    assert recipe_of(tmp_path) == expected
    if expected in (None, "recipes.translate"):
        check_recipe(tmp_path, "recipes.translate")
    else:
        with pytest.raises(ValueError, match=f"is a run of {expected}. Give runs of recipes.translate"):
            check_recipe(tmp_path, "recipes.translate")


def test_the_recipe_is_read_off_settings_that_the_recipes_have():
    from recipes.images.settings import ImageNetConfig
    from recipes.sentences.settings import ClassifyConfig
    from recipes.translation.settings import TranslateConfig

    marks = {"source_language": TranslateConfig, "text_column": ClassifyConfig, "image_size": ImageNetConfig}
    for mark, config in marks.items():
        assert [other for other in marks.values() if hasattr(other(), mark)] == [config]


def test_no_run(tmp_path):
    with pytest.raises(ValueError, match="There is no run in"):
        recipe_of(tmp_path)


def test_layers_by_default_are_the_last_three_that_there_are():
    assert chosen_layers("ab") == {1: "a", 2: "b"} and chosen_layers("abcd") == {2: "b", 3: "c", 4: "d"}
    assert chosen_layers("abcd", [-1, 1]) == {4: "d", 1: "a"}
    with pytest.raises(ValueError, match="2 attention layers, counted from 1. Received: --layers 0 -3"):
        chosen_layers("ab", [0, 2, -3])
