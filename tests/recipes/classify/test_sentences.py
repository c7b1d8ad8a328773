"""The parts of the recipe of sentence classification."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import LabelledText
from keras_headattn.regularizers import Frobenius
from recipes.classify import modelling
from recipes.classify.__main__ import RECIPE
from recipes.classify.settings import ClassifyConfig
from recipes.classify.text import embedding_width, load_embeddings, make_tokenizer
from recipes.classify.train import check, optimizer_of
from recipes.engine.command import Parser
from recipes.engine.config import override
from recipes.engine.texts.data import load_corpora, read_tests
from recipes.engine.texts.evaluation import evaluate
from recipes.engine.texts.targets import Classes, Labels, Numbers
from tests.recipes.classify.small import config_of
from tests.recipes.commands import train_here
from tests.refusals import refused


def test_examples_without_text(table, capsys):
    """They are in no set, and are counted; those without a label are if asked for."""
    with open(table, "a") as file:
        file.write(",x,1\nred,,1\nred one,x,\n")
    single = load_corpora(config_of(table, drop_labels=("",)))
    assert "data.csv: 1 of 63 examples have no text and are left out." in capsys.readouterr().out
    parts = single.train, single.validation, *single.tests.values()
    assert sum(map(len, parts)) == 61 and all(all(part.texts) and all(part.labels) for part in parts)
    load_corpora(config_of(table, drop_labels=("",), second_column="second"))
    assert "data.csv: 2 of 63 examples have no text" in capsys.readouterr().out
    with refused("data.csv, line 64", "stars=''"):
        load_corpora(config_of(table))
    table.write_text("review,stars\n,1\n,0\n")
    with refused("texts", f"{table}, which has none"):
        load_corpora(config_of(table))


@pytest.mark.parametrize("name", ["number_words", "yelp", "age", "snli", "twitter", "wikipedia", "sst2", "sst5"])
def test_named_configurations_load(name):
    assert isinstance(RECIPE.named_config(name), ClassifyConfig)


def test_the_settings_of_the_papers():
    yelp, snli = RECIPE.named_config("yelp"), RECIPE.named_config("snli")
    assert (yelp.pooling_dim, yelp.pooling_heads, yelp.model_arguments) == (350, 30, {"mlp_dim": 3000})
    assert snli.is_pair and (snli.pooling_dim, snli.optimizer) == (150, "adagrad")
    optimizer = optimizer_of(yelp)
    assert isinstance(optimizer, keras.optimizers.SGD) and optimizer.clipvalue == 0.5
    assert float(optimizer.learning_rate) == pytest.approx(0.06)


def test_shares_of_the_training_set(table):
    corpora = load_corpora(config_of(table, test_share=0.2))
    sides = corpora.train, corpora.validation, corpora.tests["test"]
    assert [len(side) for side in sides] == [43, 6, 11]  # copies of a text stay together
    assert read_tests(config_of(table, test_share=0.2, seed=3))["test"].texts == corpora.tests["test"].texts
    corpora = load_corpora(config_of(table, validation=(str(table),), test_share=0.0))
    assert len(corpora.train) == len(corpora.validation) == 60 and corpora.tests == {}
    corpora = load_corpora(config_of(table, test=(str(table),), max_examples=7, drop_labels=("2",)))
    assert list(corpora.tests) == ["data"] and len(corpora.train) == len(corpora.tests["data"]) == 7
    assert "2" not in corpora.train.labels


def test_test_sets_need_names_of_their_own(table):
    with refused("names", f"{table} and {table}"):
        read_tests(config_of(table), [str(table), str(table)])
    with refused("--test takes 3 files", "a b"):
        read_tests(config_of(table, format="aligned", second_column="3"), ["a", "b"])
    with refused("empty", table):
        load_corpora(config_of(table, drop_labels=("0", "1", "2")))


def test_labels_have_names(table):
    corpus = load_corpora(config_of(table)).train
    assert Classes.learn(corpus).names == ["0", "1", "2"]
    ten = dataclasses.replace(corpus, labels=["10", "9", *corpus.labels[2:]])
    assert Classes.learn(ten).names[-2:] == ["9", "10"]
    named = dataclasses.replace(corpus, labels=["b", "a"] * (len(corpus) // 2), texts=["x"] * len(corpus))
    assert Classes.learn(named).names == ["a", "b"]
    assert Classes.learn(named, ("b", "a")).names == ["b", "a"]
    assert Classes(["b", "a"]).of(named)[:2].tolist() == [0, 1]
    with refused("data.csv has labels that are none of a, c", "b"):
        Classes(["a", "c"]).of(named)
    with refused("data.csv must have two labels", "a"):
        Classes.learn(dataclasses.replace(named, labels=["a"] * len(named)))
    with refused("data.csv must have no line breaks", r"'a\nb'"):
        Classes.learn(dataclasses.replace(named, labels=["a\nb", "c"] * (len(corpus) // 2)))
    similarities = dataclasses.replace(corpus, labels=[f"{i / 7:.2f}" for i in range(len(corpus))])
    with refused("--predict number", "48 labels"):
        Classes.learn(similarities)


def test_several_labels_at_once():
    corpus = LabelledText(["x", "y", "z"], ["a;b", "", "b"], "mine.csv")
    targets = Labels.learn(corpus, label_separator=";")
    assert targets.names == ["a", "b"] and targets.of(corpus).tolist() == [[1, 1], [0, 0], [0, 1]]
    measures = targets.measure(targets.of(corpus), np.array([[0.9, 0.6], [0.2, 0.1], [0.7, 0.8]]))
    assert measures["accuracy"] == pytest.approx(5 / 6) and measures["exact"] == pytest.approx(2 / 3)
    assert measures["f1_micro"] == pytest.approx(6 / 7)
    assert targets.cells(np.array([[0.9, 0.6], [0.2, 0.1]])) == ["a;b", ""]
    with refused("none of a", "b"):
        Labels(["a"], label_separator=";").of(corpus)


def test_numbers(table):
    assert config_of(table, predict="number").select == "val_loss"
    corpus = LabelledText(["x", "y", "z"], ["1.5", "-2", "4"], "mine.csv")
    targets = Numbers.learn(corpus)
    measures = targets.measure(targets.of(corpus), np.array([[2.0], [-1.0], [3.0]]))
    assert measures["spearman"] == pytest.approx(1) and measures["mae"] == pytest.approx(2.5 / 3)
    assert measures["pearson"] == pytest.approx(np.corrcoef([1.5, -2, 4], [2, -1, 3])[0, 1])
    assert measures["loss"] == pytest.approx((0.25 + 1 + 1) / 3)
    with refused("--predict number", "good, nan"):
        targets.of(dataclasses.replace(corpus, labels=["1", "good", "nan"]))


@pytest.mark.parametrize(
    "predict, outputs", [("number", {"values", "is_cut"}), ("labels", {"classes", "scores", "is_cut"})]
)
def test_training_on_numbers_and_labels(table, tmp_path, monkeypatch, predict, outputs):
    """To the end, with a SavedModel; a constant text has its label."""
    export = str(tmp_path / "exported")
    config = config_of(table, predict=predict, epochs=1, export=export, samples=1, num_buckets=1)
    _, history = train_here(RECIPE, config, monkeypatch)
    assert np.isfinite(history[0]["val_loss"])
    model = tf.saved_model.load(f"{export}/1")
    assert set(model.signatures["serving_default"](text=tf.constant(["red one", "two"]))) == outputs
    assert set(model.signatures["attention"](text=tf.constant(["red one"]))) == outputs | {"pieces", "pooling"}
    scores = json.loads((tmp_path / "run" / "results" / "test" / "scores.json").read_text())
    assert ("spearman" if predict == "number" else "f1_micro") in scores
    header, *rows = (tmp_path / "run" / "results" / "test" / "predictions.tsv").read_text().splitlines()
    assert header.split("\t")[:2] == (["number", "predicted"] if predict == "number" else ["label", "predicted"])
    assert len(rows) == 6 and not (tmp_path / "run" / "results" / "test" / "confusion.png").exists()


def test_word_vectors(table, tmp_path, capsys):
    path = tmp_path / "vectors.txt"
    path.write_text("red 1 2 3\nblue 4 5 6\nunheard 7 8 9\n")
    assert embedding_width(path) == 3 and embedding_width(None, 4) == 4
    with refused("3 numbers", "embedding_dim=4"):
        embedding_width(path, 4)
    tokenizer = make_tokenizer(load_corpora(config_of(table)).train, tmp_path, "words")
    embedding = keras.layers.Embedding(tokenizer.vocabulary_size, 3)
    embedding.build()
    before = np.array(embedding.embeddings)
    red, blue, one = tokenizer.encode(["red blue one"])[0]
    load_embeddings(path, tokenizer, embedding, [np.array([red, blue, one, 1])])
    after = np.array(embedding.embeddings)
    assert after[red].tolist() == [1, 2, 3] and after[blue].tolist() == [4, 5, 6]
    np.testing.assert_array_equal(after[[0, 1, one]], before[[0, 1, one]])
    assert "of 2 of 7 words, 50.0% of the training text" in capsys.readouterr().out


@pytest.mark.parametrize(
    "given", [["--quick"], ["--config", "sst2"], ["--quick", "--model-arguments", "embedding_dim=32"]]
)
def test_word_vectors_bring_their_width(table, tmp_path, given):
    path = tmp_path / "vectors.txt"
    path.write_text("red 1 2 3\n")
    parser = Parser()
    RECIPE.all_commands()["train"].add(parser)
    config = RECIPE.chosen_settings(parser.parse_args([*given, "--train", str(table), "--embeddings", str(path)]))
    if "--model-arguments" in given:
        with refused("3 numbers", "embedding_dim=32"):
            check(config)
    else:
        check(config)
        assert config.model_arguments.get("embedding_dim") is None


@pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
def test_l2_is_besides_what_is_there(encoder):
    """Of all kernels, besides the regularizer of the heads."""
    values = {"encoder": encoder, "model_arguments": {"embedding_dim": 12}, "attention_regularizer": "cosine"}
    values |= {"num_heads": 3} if encoder == "transformer" else {}
    models = [modelling.make_classifier(override(ClassifyConfig(), {**values, "l2": l2}), 9, 2) for l2 in (0.0, 0.5)]
    models[0].set_weights(models[1].get_weights())
    kernels = [np.array(weight) for weight in models[1].trainable_weights if "kernel" in weight.name]
    expected = float(sum(models[0].losses)) + 0.5 * sum(np.square(kernel).sum() for kernel in kernels)
    assert float(sum(models[1].losses)) == pytest.approx(expected, rel=1e-5)


def test_heads_that_differ(capsys):
    """The kernels of the pooling are found; the regularizer is the pooling's."""
    config = override(
        ClassifyConfig(),
        dict(repulsive="spos", repulsive_arguments={"inverse_temperature": 50.0}, attention_regularizer="frobenius"),
    )
    classifier = modelling.make_classifier(config, 20, 2)
    optimizer = optimizer_of(config)
    optimizer.build(classifier.trainable_variables)
    assert optimizer.inverse_temperature == 50.0 and isinstance(optimizer.inner_optimizer, keras.optimizers.Adam)
    assert "acts on 1 kernel (head_kernel) of 30 heads" in capsys.readouterr().out
    assert isinstance(classifier.pooling.head_regularizer, Frobenius)


class Stop(keras.callbacks.Callback):
    """Ends training within the second epoch, as a kill would."""

    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 9:
            raise KeyboardInterrupt


def test_resumed_is_as_uninterrupted(table, tmp_path, monkeypatch):
    config = config_of(
        table,
        callback_arguments=dict(save_steps=2),
        class_weights="balanced",
        l2=0.01,
        attention_regularizer="frobenius",
    )
    whole, history = train_here(RECIPE, dataclasses.replace(config, run=str(tmp_path / "whole")), monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train_here(RECIPE, config, monkeypatch, Stop())
    again, other = train_here(RECIPE, config, monkeypatch)
    keras.tree.map_structure(np.testing.assert_array_equal, again, whole)
    assert other == history and len(history) == 2 and "val_accuracy" in history[0]
    scores = json.loads((tmp_path / "run" / "results" / "test" / "scores.json").read_text())
    assert {"accuracy", "mcc", "auc_roc", "auc_pr", "ece", "oe", "dist", "loss"} <= set(scores)
    assert scores["examples"] == 6 and scores["dist"] > 0


def test_pairs_on_two_replicas_in_mixed_precision(table, tmp_path, monkeypatch):
    """With a Transformer and repulsive heads."""
    config = config_of(
        table,
        second_column="second",
        encoder="transformer",
        num_heads=2,
        repulsive="svgd",
        replicas=2,
        precision="mixed_bfloat16",
        num_buckets=1,
        epochs=1,
        export=None,
    )
    weights, history = train_here(RECIPE, config, monkeypatch)
    assert np.isfinite(history[0]["loss"]) and all(weight.dtype == "float32" for weight in weights)
    lines = (tmp_path / "run" / "results" / "test" / "predictions.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["label", "predicted", "0", "1", "2", "text", "second_text"] and len(lines) == 7


def test_measures_of_known_probabilities(table, tmp_path, figures, capsys):
    class Known:
        def __call__(self, texts, second_texts=None, progress=None):
            return np.eye(3, dtype="float32")[[0] * len(texts)] * 0.7 + 0.1

        def measures(self, texts, second_texts=None):
            return {"dist": np.nan}

    corpora = load_corpora(config_of(table, test=(str(table),)))
    targets = Classes(["0", "1", "2"])
    scores = evaluate(Known(), corpora.tests, targets, tmp_path)["data"]
    assert "data: every text was taken for 0.\n" in capsys.readouterr().out
    share = corpora.tests["data"].labels.count("0") / 60
    assert scores["accuracy"] == pytest.approx(share) and scores["mcc"] == 0 and scores["dist"] is None
    assert scores["loss"] == pytest.approx(-share * np.log(0.8) - (1 - share) * np.log(0.1), rel=1e-5)
    rows = (tmp_path / "data" / "confusion.txt").read_text().splitlines()
    assert [row.split()[1:] for row in rows[1:]] == [
        [str(corpora.tests["data"].labels.count(label)), "0", "0"] for label in "012"
    ]
    assert (tmp_path / "data" / "confusion.png").exists()
    numbers = [text.get_text() for text in figures[0].axes[0].texts]
    assert numbers == [number for row in rows[1:] for number in row.split()[1:]]
    assert json.loads((tmp_path / "data" / "scores.json").read_text())["dist"] is None
