"""JSON files of runs that somebody has damaged: one sentence that names the file."""

import pytest

from keras_headattn.metrics import Score
from recipes.compare import scores_by_seed
from recipes.curves import _histories, _recipe
from recipes.engine.config import load_config
from recipes.engine.encoders import kind_of, run_settings
from recipes.engine.generation import write_texts
from recipes.engine.run import Run
from recipes.engine.tables import read_scores
from recipes.engine.texts.predicting import recipe_of
from recipes.imagenet.__main__ import RECIPE
from recipes.imagenet.settings import ImageNetConfig

READERS = {
    "config.json": [
        lambda run: load_config(ImageNetConfig, run / "config.json", "imagenet"),
        lambda run: RECIPE.run_of(run),
        lambda run: scores_by_seed(run),
        lambda run: run_settings(run),
        lambda run: kind_of(run),
        lambda run: recipe_of(run),
        lambda run: _recipe(run / "history.json"),
    ],
    "history.json": [lambda run: Run(run, RECIPE).history(), _histories, read_scores],
    "results/test/scores.json": [lambda run: Run(run, RECIPE).scores(), read_scores],
}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "results" / "test").mkdir(parents=True)
    (tmp_path / "results" / "test" / "scores.json").write_text("{}")
    for name in ("config.json", "history.json"):
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000, b"1" * 5_000], ids=["half", "bytes", "deep", "long"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_not_json(run, name, text):
    (run / "results" / "test" / "scores.json").write_text('{"accuracy": {"value": 0.5, "signature": ""}}')
    (run / name).write_bytes(text)
    for read in READERS[name]:
        with pytest.raises(ValueError, match=name) as caught:
            read(run)
        assert "\n" not in str(caught.value)


def test_json_of_something_else(run):
    for name in READERS:
        (run / name).write_text("5")
    for read in (lambda: Run(run, RECIPE).history(), lambda: Run(run, RECIPE).scores(), lambda: kind_of(run)):
        with pytest.raises(ValueError, match="json"):
            read()
    with pytest.raises(ValueError, match="must be of classify or glue"):
        recipe_of(run)
    assert _recipe(run / "history.json") == str(run) and run_settings(run) is None


def test_damaged_scores_of_the_same_translations(tmp_path):
    arguments = tmp_path, ["a"], ["b"], ["c"], {"bleu": Score("bleu", 1.0, "signature")}
    write_texts(*arguments)
    for text in ("{", "[1]"):
        (tmp_path / "scores.json").write_text(text)
        with pytest.raises(ValueError, match="scores.json"):
            write_texts(*arguments)
