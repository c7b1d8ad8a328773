import json
import sys

import pytest

from recipes.curves import common_scores, main

EPOCH = {"loss": 2.0, "compilations": 1.0, "val_loss": 3.0, "val_bleu": 10.0, "training_seconds": 90.0}


def make_run(folder, losses, **logs):
    folder.mkdir(parents=True)
    history = [{"val_loss": loss, **logs} for loss in losses]
    (folder / "history.json").write_text(json.dumps(history))
    return str(folder)


def lines(axes):
    return [line.get_xydata().tolist() for line in axes.lines]


def test_draws_the_runs(tmp_path, figures):
    one = make_run(tmp_path / "one", [3.0, 2.0], val_bleu=10.0)
    two = make_run(tmp_path / "two", [3.0, 2.5, 2.2], val_bleu=10.0)
    main([one, two, "--output", str(tmp_path / "curves.png")])
    (figure,) = figures
    assert [axes.get_ylabel() for axes in figure.axes] == ["validation loss", "validation BLEU"]
    assert lines(figure.axes[0]) == [[[1, 3.0], [2, 2.0]], [[1, 3.0], [2, 2.5], [3, 2.2]]]
    assert figure.get_suptitle() == "Learning curves of one, two" and figure.axes[0].get_xlabel() == "epoch"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]
    colors = [line.get_color() for line in figure.axes[0].lines]
    assert colors == [line.get_color() for line in figure.legends[0].get_lines()] and len(set(colors)) == 2
    assert (tmp_path / "curves.png").exists()


@pytest.mark.parametrize("arguments, message", [
    (["one", "--by", "minutes"], "Received: training_seconds"),
    (["one", "--quantities", "accuracy"], "val_loss, val_bleu. Received: accuracy"),
    (["three"], "Received: three"),
    (["empty"], "Received: empty"),
    (["one", "one/"], "Received: one one/"),
    (["one", "other"], "--quantities.*Received: one, other of recipes.imagenet"),
])  # fmt: skip
def test_errors(tmp_path, monkeypatch, arguments, message):
    make_run(tmp_path / "one", [3.0, 2.0], val_bleu=10.0)
    make_run(tmp_path / "empty", [])
    make_run(tmp_path / "other", [3.0])
    (tmp_path / "other" / "history.json").write_text('[{"accuracy": 1}]')
    (tmp_path / "other" / "config.json").write_text('{"recipe": "imagenet"}')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=message):
        main(arguments)


def test_many_quantities_stand_in_rows(tmp_path, figures):
    run = make_run(tmp_path / "one", [3.0], **{f"quantity_{number}": 0.0 for number in range(5)})
    quantities = ["val_loss", *(f"quantity_{number}" for number in range(4))]
    main([run, "--quantities", *quantities, "--output", str(tmp_path / "curves.png")])
    shown = [axes for axes in figures[0].axes if axes.axison]
    assert len(shown) == 5 and shown[1].get_ylabel() == "quantity 0"
    assert {axes.get_subplotspec().get_geometry()[:2] for axes in shown} == {(2, 3)}
    assert lines(shown[1]) == [[[1, 0.0]]] and shown[1].get_ylim() == (0, 1)  # no score below 0


def test_seeds_of_a_run_have_one_colour_and_one_name(tmp_path, figures):
    for name in ("sst", "svgd"):
        for seed in (1, 2, 10):
            make_run(tmp_path / name / f"seed={seed}", [float(seed)])
    (tmp_path / "sst" / "seed=3").mkdir()  # not begun
    main([str(tmp_path / "sst"), str(tmp_path / "svgd" / "seed=1"), "--output", str(tmp_path / "curves.png")])
    (axes,) = figures[0].axes
    assert lines(axes) == [[[1, 1.0]], [[1, 2.0]], [[1, 10.0]], [[1, 1.0]]]
    *seeds, other = (line.get_color() for line in axes.lines)
    assert len(set(seeds)) == 1 and other not in seeds
    assert [text.get_text() for text in figures[0].legends[0].get_texts()] == ["sst, 3 seeds", "svgd/seed=1"]


def test_default_quantities_are_the_scores_that_all_runs_have():
    without = {name: value for name, value in EPOCH.items() if not name.startswith("val_")}
    assert common_scores({"one": [EPOCH, EPOCH]}) == ["loss", "val_loss", "val_bleu"]
    assert common_scores({"one": [EPOCH], "two": [EPOCH | {"val_accuracy": 1}]}) == ["loss", "val_loss", "val_bleu"]
    assert common_scores({"one": [EPOCH], "two": [without]}) == ["loss"]


def test_minutes_of_training_run_across(tmp_path, figures):
    """Of all epochs so far, added up."""
    run = make_run(tmp_path / "one", [3.0, 2.0], training_seconds=90.0)
    main([run, "--by", "minutes", "--quantities", "val_loss", "--output", str(tmp_path / "curves.png")])
    (axes,) = figures[0].axes
    assert lines(axes) == [[[1.5, 3.0], [3.0, 2.0]]] and axes.get_xlabel() == "minutes of training"


def test_matplotlib_is_asked_for(tmp_path, monkeypatch):
    run = make_run(tmp_path / "one", [3.0])
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.lines"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match="pip install matplotlib"):
        main([run])
