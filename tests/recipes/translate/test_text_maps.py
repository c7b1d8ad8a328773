"""Heads and clusters of finished translation runs, of runs that only look finished."""

import functools
import shutil
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn._files import write_atomically
from keras_headattn.metrics import Score
from recipes.attention_maps import main
from recipes.engine.run import Run as RunOf
from recipes.translate import evaluation, map_pictures, train
from recipes.translate.__main__ import RECIPE
from recipes.translate.corpora import load_corpora
from recipes.translate.modelling import make_transformer
from recipes.translate.text import load_text, make_text
from recipes.translate.text_maps import lines_of_test, maps_of_test, mean_redundancy
from tests.recipes.commands import drawn
from tests.refusals import refused

Run = functools.partial(RunOf, recipe=RECIPE)
SIZE = dict(
    max_sentences=60,
    vocabulary_size=150,
    model_arguments=dict(num_layers=2, hidden_dim=8, intermediate_dim=8),
    num_heads=2,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of two Transformers as they are before training, and what they would have translated."""
    folder = tmp_path_factory.mktemp("runs")
    for attention in ("multi_head", "disentangled_mask"):
        run = Run(folder / attention)
        config = RECIPE.named_config("numbers").changed(
            SIZE | {"attention": attention, "attention_arguments": {"key_dim": 4}}
        )
        corpora = load_corpora(config)
        run.start(config)
        text = make_text(config, corpora.train, run.folder)
        keras.utils.set_random_seed(0)
        transformer = make_transformer(config, text.source.vocabulary_size, text.target.vocabulary_size)
        transformer.build()
        run.save_model(transformer, run.model)
        (test,) = corpora.tests.values()
        for name, lines in (("sources", test.source), ("hypotheses", test.target), ("references", test.target)):
            write_atomically(run.results / "test" / f"{name}.txt", "".join(f"{line}\n" for line in lines[:5]).encode())
    return folder


@pytest.mark.parametrize("kind", ["encoder", "cross"])
def test_redundancy(runs, tmp_path, capsys, figures, kind):
    folders = [str(runs / name) for name in ("multi_head", "disentangled_mask")]
    options = ["--kind", kind, "--sentences", "3", "--output", str(tmp_path / "picture.png")]
    main(["redundancy", *folders, *options])
    lines = capsys.readouterr().out.splitlines()
    assert f"disentangled_mask, {kind}: LR " in lines[-2] and lines[-1] == str(tmp_path / "picture.png")
    assert all(drawn(figures[0])) and len(figures[0].axes) == 2 + 1  # a scale
    assert [label.get_text() for label in figures[0].axes[0].get_xticklabels()] == ["1", "2"]
    assert kind in figures[0].get_suptitle()
    for line in lines[-3:-1]:
        layer, whole = (float(part.split()[-1]) for part in line.split(": ")[1].split(","))
        assert 0 < layer <= 1 and 0 < whole <= 1


def test_redundancy_as_a_metric(runs, tmp_path, monkeypatch):
    """That of the command, among a run's scores."""
    shutil.copytree(runs / "disentangled_mask", tmp_path / "run")
    run = Run(tmp_path / "run")
    config = run.read_config().changed({"metrics": ("redundancy",)})
    (test,) = load_corpora(config).tests.values()

    def translate(sentences, progress):
        return [types.SimpleNamespace(text=line) for line in test.target]

    translate.text = load_text(run, config)
    monkeypatch.setattr(train, "load_translator", lambda *_: translate)
    train.score(run, config, run.load_model(), {"copy": test})  # the first set by name
    layer, matrix, _ = mean_redundancy(maps_of_test(run, 100, "encoder"))
    assert run.scores()["copy"] == pytest.approx({"LR": layer, "HR": matrix.mean()})


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_clusters_of_a_sentence(runs, tmp_path, capsys, figures, kind):
    options = ["--sentence", "twenty-one", "--head", "1", "--kind", kind, "--output", str(tmp_path / "picture.png")]
    main(["clusters", str(runs / "disentangled_mask"), *options])
    assert (tmp_path / "picture.png").exists() and all(drawn(figures[0])) and len(figures[0].axes) == 2 + 2  # scales
    assert ("none when it translates" in capsys.readouterr().out) == (kind == "decoder")


def test_tokens_of_clusters(runs, tmp_path, capsys, figures):
    arguments = ["tokens", str(runs / "disentangled_mask"), "--cluster", "2", "--output", str(tmp_path / "picture.png")]
    main(arguments)
    assert (tmp_path / "picture.png").exists()
    assert figures[0].get_suptitle().split()[-6:] == ["layer", "2,", "head", "1,", "cluster", "2"]
    clusters = [line.split(": ") for line in capsys.readouterr().out.splitlines()[-5:-1]]
    assert [name for name, _ in clusters] == [f"cluster {number}" for number in range(1, 5)]
    assert drawn(figures[0]) == [len(clusters[1][1].split())]  # a bar for each
    words = clusters[0][1].split()
    main([*arguments, "--leave-out", *words])
    left = capsys.readouterr().out.splitlines()[-5].split(": ")[1].split()
    assert words and not set(words) & set(left)


def test_maps_of_a_sentence_by_default_are_of_the_last_layers_that_there_are(runs, tmp_path, figures):
    main(
        ["text", str(runs / "multi_head"), "--sentence", "one", "--kind", "cross", "--output", str(tmp_path / "a.png")]
    )
    *maps, bar = figures[0].axes
    assert [axes.get_title().replace("\n", " ") for axes in maps] == [
        f"layer {i}: head {j}" for i in (1, 2) for j in (1, 2)
    ]
    assert [axes.get_images()[0].get_clim() for axes in maps] == [(0, 1)] * 4 and bar.get_ylabel() == "weight"
    assert figures[0].get_suptitle() == "multi_head, cross-attention"
    rows, columns = (names for names in (maps[0].get_yticklabels(), maps[0].get_xticklabels()))
    assert rows[-1].get_text() == columns[-1].get_text() == "</s>" and rows[0].get_text() != "<s>"  # what is written
    main(["text", str(runs / "multi_head"), "--sentence", "one", "--head", "2", "--output", str(tmp_path / "a.png")])
    assert [axes.get_title().split()[-1:] for axes in figures[1].axes] == [["weights"], ["weights"], []]
    assert figures[1].get_suptitle().replace("\n", " ") == "multi_head, self-attention of the encoder, head 2"


def test_summed_queries_are_said_to_be_summed(runs, tmp_path, monkeypatch, capsys, figures):
    def summed(*arguments):
        for maps in maps_of_test(*arguments):
            for layer in maps.layers.values():
                layer.queries = layer.queries.sum(1, keepdims=True)
            yield maps

    monkeypatch.setattr(map_pictures, "maps_of_test", summed)
    options = ["--sentences", "2", "--points", "5", "--output", str(tmp_path / "picture.png")]
    main(["queries", str(runs / "multi_head"), *options])
    assert "multi_head: attention sums the queries of its 2 heads." in capsys.readouterr().out
    assert figures[0].axes[0].get_title() == "multi_head, layer 2, sum of the heads' queries"


def test_queries(runs, tmp_path, monkeypatch, figures):
    monkeypatch.chdir(runs)
    options = ["--kind", "decoder", "--sentences", "2", "--points", "5", "--projector", str(tmp_path / "projector")]
    main(["queries", "multi_head", "disentangled_mask", *options, "--output", str(tmp_path / "picture.png")])
    assert (tmp_path / "picture.png").exists()
    assert [len(axes.collections[0].get_offsets()) for axes in figures[0].axes] == [2 * 5] * 2  # heads by points
    (maps,) = maps_of_test(Run("multi_head"), 2, "decoder")
    queries, tokens = list(maps.layers.values())[-1].queries, [token for each in maps.queries for token in each]
    rows = (tmp_path / "projector" / "multi_head.tsv").read_text().splitlines()
    assert rows[0] == "token\thead"
    assert [row.split("\t")[1] for row in rows[1:]] == ["1"] * len(tokens) + ["2"] * len(tokens)
    assert [row.split("\t")[0] for row in rows[1:]] == tokens * 2
    checkpoint = tf.train.load_checkpoint(str(tmp_path / "projector"))
    found = checkpoint.get_tensor("multi_head/.ATTRIBUTES/VARIABLE_VALUE")
    np.testing.assert_array_equal(found, queries.swapaxes(0, 1)[:, maps.mask].reshape(len(found), -1))


def test_ablation(runs, tmp_path, monkeypatch, capsys, figures):
    """Every head of every kind once, after the whole model, each by a score of its own."""
    monkeypatch.chdir(runs)
    scores = iter(np.arange(13.0))
    monkeypatch.setattr(evaluation, "named_metrics", lambda *_: [lambda *_: Score("BLEU", next(scores), "")])
    main(["ablation", "multi_head", "--sentences", "2", "--output", str(tmp_path / "picture.png")])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("multi_head, ")]
    assert (tmp_path / "picture.png").exists() and len(lines) == 6  # layers
    assert len(figures[0].axes[0].patches) == 12
    drops = [float(drop) for line in lines for drop in line.split(": ")[1].split()]
    # Two heads each, and the whole model first; cross-attention, called before the decoder's own, is listed last.
    assert sorted(drops) == list(-np.arange(12.0, 0, -1))
    names = [f"{kind} {number}" for kind in ("encoder", "decoder", "cross") for number in (1, 2)]
    assert [line.split(": ")[0] for line in lines] == [f"multi_head, {name}" for name in names]
    assert [label.get_text() for label in figures[0].axes[0].get_xticklabels()] == names


@pytest.mark.parametrize("arguments, name, received", [
    (["clusters", "multi_head", "--sentence", "one"], "disentangled_mask", "attention=multi_head"),
    (["tokens", "disentangled_mask", "--head", "3"], "2", "--head 3"),
    (["tokens", "disentangled_mask", "--cluster", "5"], "4", "--cluster 5"),
    (["queries", "multi_head", "--layer", "3"], "2 attention layers", "--layers 3"),
    (["text", "multi_head", "--sentence", "one", "--head", "0"], "2", "--head 0"),
    (["redundancy", "multi_head", "multi_head"], "folder once", "multi_head"),
])  # fmt: skip
def test_errors(runs, tmp_path, monkeypatch, arguments, name, received):
    monkeypatch.chdir(runs)
    with refused(name, received, SystemExit):
        main([*arguments, "--output", str(tmp_path / "picture.png")])


def test_batches_change_no_measure(runs, tmp_path, monkeypatch, capsys):
    """Though sentences are padded to other lengths in them."""
    arguments = ["redundancy", str(runs / "multi_head"), "--output", str(tmp_path / "picture.png")]
    main(arguments)
    whole = capsys.readouterr().out
    monkeypatch.setattr(map_pictures, "maps_of_test", functools.partial(maps_of_test, batch_size=2))
    main(arguments)
    assert capsys.readouterr().out == whole and "LR" in whole


def test_a_run_that_has_translated_nothing(tmp_path):
    with pytest.raises(ValueError, match="translated no test set.*Received: "):
        lines_of_test(Run(tmp_path), 3, "sources")


def test_maps_of_sentences(runs):
    run = Run(runs / "disentangled_mask")
    (maps,) = maps_of_test(run, 3, "cross")
    assert len(maps.layers) == 2 and len(maps.keys) == 3 and maps.mask.sum() == sum(map(len, maps.queries))
    for layer in maps.layers.values():
        assert layer.posteriors.shape == (*layer.queries.shape[:3], 4)
        assert layer.key_posteriors.shape == (*layer.weights.shape[:2], layer.weights.shape[3], 4)
        sums = layer.weights.sum(-1)
        np.testing.assert_allclose(sums[np.broadcast_to(maps.mask[:, None], sums.shape)], 1, atol=1e-5)
