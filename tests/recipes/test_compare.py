"""Tables and pictures of finished runs side by side, of runs that only look trained."""

import json
import shutil

import keras
import numpy as np
import pytest
from scipy import stats

from recipes.classify.__main__ import RECIPE
from recipes.classify.modelling import make_classifier
from recipes.classify.settings import ClassifyConfig
from recipes.classify.train import score, targets_of, tokenizer_of
from recipes.compare import main, read_predictions
from recipes.engine.config import override
from recipes.engine.run import Run
from recipes.engine.tables import paired_test
from recipes.engine.texts.data import load_corpora
from recipes.engine.texts.predicting import runs_of
from recipes.engine.texts.training import keep_labels
from tests.recipes.commands import drawn
from tests.refusals import refused

TINY = dict(
    model_arguments=dict(embedding_dim=4, hidden_dim=3, mlp_dim=5),
    pooling_dim=3,
    max_length=8,
    text_column="review",
    label_column="stars",
)
NAMES = ["0", "1", "2"]


def make_run(folder, table, **options):
    config = override(ClassifyConfig(), TINY | {"train": (str(table),), "run": str(folder)} | options)
    keras.utils.set_random_seed(config.seed)
    run, texts = Run(folder, RECIPE), load_corpora(config)
    run.start(config)
    targets = targets_of(config, corpus=texts.train)
    keep_labels(run, targets, texts)
    tokenizer = tokenizer_of(run, config, texts.train)
    classifier = make_classifier(config, tokenizer.vocabulary_size, targets.width)
    run.save_model(classifier, run.model)
    score(run, config, classifier, texts.tests)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    rows = [f"{' '.join(rng.choice('not so bad a film'.split(), 5))},{label}" for label in rng.integers(0, 3, 60)]
    (folder / "data.csv").write_text("\n".join(["review,stars", *rows]) + "\n")
    for seed in (1, 2):
        make_run(folder / "plain" / f"seed={seed}", folder / "data.csv", pooling_heads=2, seed=seed)
    make_run(folder / "svgd" / "seed=2", folder / "data.csv", pooling_heads=2, seed=2, repulsive="svgd")
    make_run(folder / "one", folder / "data.csv", pooling_heads=3)
    make_run(
        folder / "other",
        folder / "data.csv",
        pooling_heads=2,
        model_arguments=TINY["model_arguments"] | dict(dropout=0.0),
    )
    make_run(folder / "pairs", folder / "data.csv", pooling_heads=2, second_column="review")
    (folder / "translated").mkdir()
    (folder / "translated" / "config.json").write_text('{"recipe": "translate"}')
    for run in ("plain/seed=1", "one"):  # as `recipes.classify evaluate` adds it
        shutil.copytree(folder / run / "results" / "test", folder / run / "results" / "added")
    return folder


def scores(run):
    return json.loads((run / "results" / "test" / "scores.json").read_text())


def test_tasks_are_compared_by_item(runs, tmp_path, capsys):
    right = {"first": [1, 1, 1, 0, 0, 0, 0, 0], "other": [1, 1, 0, 1, 1, 1, 1, 1]}
    for name, values in right.items():
        shutil.copytree(runs / "one", tmp_path / name)
        (tmp_path / name / "results" / "test" / "right.json").write_text(json.dumps(values))
    main(["scores", str(tmp_path / "first"), str(tmp_path / "other"), "--set", "test"])
    p = 2 * (1 + 6) / 2**6  # of six that differ, one or none
    assert f"other alone has 5 right, first alone 1; McNemar's p {p:.2g}\n" in capsys.readouterr().out
    (tmp_path / "other" / "results" / "test" / "right.json").write_text("[1]")
    with refused("items", "8 and 1", SystemExit):
        main(["scores", str(tmp_path / "first"), str(tmp_path / "other"), "--set", "test"])


def test_scores(runs, capsys):
    main(["scores", str(runs / "plain"), str(runs / "svgd"), "--measures", "loss"])
    losses = [scores(runs / "plain" / f"seed={seed}")["loss"] for seed in (1, 2)]
    other = scores(runs / "svgd" / "seed=2")["loss"]
    row = capsys.readouterr().out.splitlines()[-1]
    assert row == f"| loss | {np.mean(losses):.4f} ± {np.std(losses, ddof=1):.4f} | {other:.4f} | – |"
    with refused("accuracy", "bleu", SystemExit):
        main(["scores", str(runs / "plain"), "--measures", "bleu"])


def test_scores_of_other_examples_are_refused(runs, tmp_path):
    shutil.copytree(runs / "one", tmp_path / "fewer")
    path = tmp_path / "fewer" / "results" / "test" / "scores.json"
    path.write_text(json.dumps(scores(runs / "one") | {"examples": 2}))
    with refused("examples of test", "/fewer", SystemExit):
        main(["scores", str(runs / "one"), str(tmp_path / "fewer"), "--set", "test"])


def test_scores_of_any_recipe_and_of_means(tmp_path, capsys):
    """Each of two folders has runs on top of others: two pre-trainings, and two fine-tunings of each."""
    found = {"plain": [[10, 20], [30, 50]], "svgd": [[20, 30], [50, 60]]}
    for name, groups in found.items():
        for outer, values in enumerate(groups):
            for seed, value in enumerate(values):
                folder = tmp_path / name / f"seed={outer}" / f"seed={seed}"
                (folder / "results" / "test").mkdir(parents=True)
                (folder / "config.json").write_text(json.dumps({"recipe": "graphs", "seed": seed}))
                text = json.dumps({"BLEU": {"name": "BLEU", "value": value, "signature": ""}})
                (folder / "results" / "test" / "scores.json").write_text(text)
    main(["scores", str(tmp_path / "plain"), str(tmp_path / "svgd")])
    p = stats.ttest_rel([15, 40], [25, 55]).pvalue
    assert capsys.readouterr().out.endswith(f"| BLEU | 27.5000 ± 17.6777 | 40.0000 ± 21.2132 | {p:.2g} |\n")
    main(["scores", str(tmp_path / "plain" / "seed=1"), str(tmp_path / "svgd" / "seed=1")])
    p = stats.ttest_rel([30, 50], [50, 60]).pvalue
    assert capsys.readouterr().out.endswith(f"| 40.0000 ± 14.1421 | 55.0000 ± 7.0711 | {p:.2g} |\n")


def test_paired_test_is_that_of_the_common_seeds():
    first, second = {1: 0.5, 2: 0.6, 3: 0.75, 4: 0.1}, {3: 0.9, 1: 0.6, 2: 0.65}
    expected = stats.ttest_rel([0.5, 0.6, 0.75], [0.6, 0.65, 0.9]).pvalue
    assert paired_test(first, second) == pytest.approx(expected)
    assert paired_test({1: 0.5}, {1: 0.6}) is None and paired_test({1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5}) is None


def test_predictions_are_those_of_all_seeds(runs):
    labels, probabilities = read_predictions(runs_of(runs / "plain"), "test")
    assert labels.shape == (12,) and probabilities.shape == (12, 3)
    accuracies = [scores(runs / "plain" / f"seed={seed}")["accuracy"] for seed in (1, 2)]
    assert (probabilities.argmax(1) == labels).mean() == pytest.approx(np.mean(accuracies))
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("command", ["reliability", "ablation", "errors"])
def test_pictures_of_a_test_set(runs, tmp_path, capsys, figures, command):
    main([command, str(runs / "plain"), str(runs / "one"), "--output", str(tmp_path / "picture.png")])
    assert (tmp_path / "picture.png").exists() and all(drawn(figures[0]))
    titles = {"reliability": "Accuracy against", "ablation": "Drop in accuracy", "errors": "Error by"}
    assert figures[0].get_suptitle().startswith(titles[command]) and "test" in figures[0].get_suptitle()
    plots = {"reliability": 4, "ablation": 2, "errors": 1}
    assert len(figures[0].axes) == plots[command]
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == str(tmp_path / "picture.png")
    if command == "ablation":
        drops = [line.split(": ")[1].split() for line in lines if "pooling: " in line]
        assert [len(heads) for heads in drops] == [2, 3]


def test_entropy_of_other_texts(runs, tmp_path, figures):
    (tmp_path / "texts.txt").write_text("not a film\nso so\n")
    arguments = ["entropy", str(runs / "plain"), str(runs / "one"), "--file", str(tmp_path / "texts.txt")]
    main([*arguments, "--output", str(tmp_path / "entropy.png")])
    assert (tmp_path / "entropy.png").exists() and "texts.txt" in figures[0].get_suptitle()
    curves = {line.get_label(): line.get_ydata() for line in figures[0].axes[0].lines}
    assert all(curves[title][-1] == 1 for title in ("plain", "one"))


def test_heatmaps(runs, tmp_path, figures):
    arguments = ["heatmap", str(runs / "plain"), str(runs / "svgd"), "--text", "Not bad, unheard", "--output"]
    main([*arguments, str(tmp_path / "heads.png")])
    assert (tmp_path / "heads.png").exists()
    # Of two models two heads and their sum, each with a label and at least four words and signs.
    assert len(drawn(figures[0])) == 6 and min(drawn(figures[0])) > 4
    main([*arguments, str(tmp_path / "one.png"), "--heads", "2"])
    assert figures[1].axes[0].texts[0].get_text() == "head 2"
    arguments.insert(-1, "a film")
    main([*arguments, str(tmp_path / "heads.html")])
    page = (tmp_path / "heads.html").read_text()
    assert "unheard" in page and "film" in page and "<unk>" not in page
    with refused("--output", tmp_path / "several.png", SystemExit):
        main([*arguments, str(tmp_path / "several.png")])
    assert not (tmp_path / "several.png").exists()


@pytest.mark.parametrize("arguments, name, received", [
    (["scores", "plain", "plain"], "folder once", "plain plain"),
    (["scores", "plain", "--set", "news"], "added, test", "--set news"),
    (["entropy", "plain", "--file", "none.txt"], "No such file", "none.txt"),
    (["entropy", "pairs", "--file", "data.csv"], "--file", "runs that classify pairs of texts: pairs"),
    (["ablation", "plain", "--set", "news"], "test", "--set news"),
    (["heatmap", "plain", "--text", "a", "--heads", "0", "3"], "2", "--heads 0 3"),
    (["reliability", "plain", "translated"], "classify or glue", "translated, of translate"),
    (["errors", "plain", "other"], "line of the picture", "'dropout': 0.0"),
])  # fmt: skip
def test_errors(runs, monkeypatch, arguments, name, received):
    monkeypatch.chdir(runs)
    with refused(name, received, SystemExit):
        main(arguments)
    with pytest.raises(SystemExit, match="Received: nothing"):
        main(["scores", "nothing"])
