"""Folders of runs: their names and their seeds."""

import pytest

from recipes.engine.finished import chosen_layers, explained, folders_of_seeds, new_path, titles


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


def test_layers_by_default_are_the_last_three_that_there_are():
    assert chosen_layers("ab") == {1: "a", 2: "b"} and chosen_layers("abcd") == {2: "b", 3: "c", 4: "d"}
    assert chosen_layers("abcd", [-1, 1]) == {4: "d", 1: "a"}


def test_files_of_one_name_do_not_replace_each_other(tmp_path):
    paths = []
    for file in ("a/films.txt", "b/films.txt.gz", "a/films_2.txt", "-", "-", ".films"):
        paths.append(explained(tmp_path, file, ".html"))
        paths[-1].parent.mkdir(exist_ok=True)
        paths[-1].write_text(file)
    assert [path.stem for path in paths] == ["films", "films-2", "films_2", "stdin", "stdin-2", "films-3"]
    assert explained(tmp_path, "films").name == "films-4"  # a folder


def test_default_names_are_new(tmp_path):
    assert new_path(tmp_path / "maps.png") == tmp_path / "maps.png"
    (tmp_path / "maps-cat.png").touch()
    (tmp_path / "maps-2.png").touch()
    assert new_path(tmp_path / "maps.png") == tmp_path / "maps-3.png"
