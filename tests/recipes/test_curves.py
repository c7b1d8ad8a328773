import json

import pytest

from recipes.curves import main


def test_draws_the_runs(tmp_path, figures):
    for name, losses in {"one": [3.0, 2.0], "two": [3.0, 2.5, 2.2]}.items():
        (tmp_path / name).mkdir()
        history = [{"val_loss": loss, "val_bleu": 10.0} for loss in losses]
        (tmp_path / name / "history.json").write_text(json.dumps(history))
    main([str(tmp_path / "one"), str(tmp_path / "two"), "--output", str(tmp_path / "curves.png")])
    (figure,) = figures
    assert [axes.get_ylabel() for axes in figure.axes] == ["val_loss", "val_bleu"]
    assert [[line.get_label() for line in axes.lines] for axes in figure.axes] == [["one", "two"]] * 2
    one, two = (line.get_xydata().tolist() for line in figure.axes[0].lines)
    assert one == [[1, 3.0], [2, 2.0]] and two == [[1, 3.0], [2, 2.5], [3, 2.2]]
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit, match="lacks training_seconds"):
        main([str(tmp_path / "one"), "--by", "minutes"])
    with pytest.raises(SystemExit, match="lacks accuracy; it has val_loss, val_bleu"):
        main([str(tmp_path / "one"), "--quantities", "accuracy"])
    with pytest.raises(SystemExit, match="no run in"):
        main([str(tmp_path / "three")])


def test_minutes_of_training_run_across(tmp_path, monkeypatch):
    """Of all epochs so far, added up."""
    (tmp_path / "one").mkdir()
    history = [{"loss": loss, "training_seconds": 90.0} for loss in (3.0, 2.0)]
    (tmp_path / "one" / "history.json").write_text(json.dumps(history))
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.plot", lambda axes, x, y, **kwargs: drawn.append((list(x), y)))
    monkeypatch.setattr("matplotlib.axes.Axes.legend", lambda axes: None)
    main([str(tmp_path / "one"), "--by", "minutes", "--quantities", "loss", "--output", str(tmp_path / "curves.png")])
    assert drawn == [([1.5, 3.0], [3.0, 2.0])]
