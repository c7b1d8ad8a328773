"""Encoders without heads: a CNN, and logistic regression on naive Bayes features."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from recipes.classify.__main__ import RECIPE, main
from recipes.classify.naive_bayes import NaiveBayesRegression
from recipes.engine.run import Run
from tests.recipes.classify.small import config_of
from tests.recipes.commands import train_here


@pytest.mark.parametrize("encoder, predict", [("cnn", "number"), ("naive_bayes", "class")])
def test_baselines_without_heads(table, tmp_path, monkeypatch, capsys, encoder, predict):
    """They train, score and export as the others do, and padding changes nothing; a word's gradient is its share."""
    export, file = str(tmp_path / "exported"), tmp_path / "texts.txt"
    config = config_of(table, encoder=encoder, predict=predict, epochs=1, export=export, samples=1, num_buckets=1)
    train_here(RECIPE, config, monkeypatch)
    scores = json.loads((tmp_path / "run" / "results" / "test" / "scores.json").read_text())
    assert scores["dist"] is None
    assert list(tf.saved_model.load(f"{export}/1").signatures) == ["serving_default"]
    model = Run(config.run, RECIPE).load_model()
    ids = np.array([[2, 3, 2, 4]], "int32")
    np.testing.assert_allclose(model(np.pad(ids, ((0, 0), (0, 3)))), model(ids), rtol=1e-5, atol=1e-6)
    file.write_text("red one\n")
    main(["explain", config.run, "--file", str(file), "--methods", "gradient", "--quiet"])
    line = (tmp_path / "run" / "explained" / "texts.jsonl").read_text()
    assert any(next(iter(json.loads(line)["scores"].values()))["gradient"])


def test_log_count_ratios():
    """Of unigrams and bigrams in three texts, by hand, and the sum over the different ones of a text."""
    model = NaiveBayesRegression(vocabulary_size=5, num_classes=2)
    model.build()
    model.learn_ratios([np.array([2, 3, 2]), np.array([2]), np.array([4])], np.array([0, 0, 1]))
    ratios = keras.ops.convert_to_numpy(model.ratios)
    # 2, 3, 4, and two bigrams: 3, 2, 1, 2, 2 texts of the first class and 1, 1, 2, 1, 1 of the second, each plus 1.
    np.testing.assert_allclose(ratios[2:5, 0], np.log([3 / 10 * 6, 2 / 10 * 6, 1 / 10 * 6 / 2]), rtol=1e-6)
    np.testing.assert_allclose(ratios[:, 1], -ratios[:, 0], rtol=1e-6)
    assert np.count_nonzero(ratios[:, 0]) == 5
    model.kernel.assign(keras.ops.ones_like(model.kernel))
    expected = ratios[2:4, 0].sum() + 2 * np.log(2 / 10 * 6)
    np.testing.assert_allclose(model(np.array([[2, 3, 2]]))[0, 0], expected, rtol=1e-6)
