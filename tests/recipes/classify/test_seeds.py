"""Runs of several seeds, and what is left of runs before."""

import json
import pathlib
import signal

import pytest

from keras_headattn._files import write_atomically
from recipes.classify.__main__ import RECIPE, main
from recipes.engine import seeds, subruns
from recipes.engine.config import override, save_config
from recipes.engine.run import Run
from tests.recipes.classify.small import config_of

NUMBER_WORDS = RECIPE.named_config("number_words")


@pytest.fixture
def started(monkeypatch):
    """Puts a run in place of the recipe that leaves what the recipe would; gives the list of seeds started."""
    handler = signal.getsignal(signal.SIGTERM)
    seeds_started = []

    def run(recipe, settings, log, watch, *options):
        config = json.loads(pathlib.Path(settings).read_text())
        assert recipe == "classify" and config["export"] is None
        seeds_started.extend([config["seed"], *options])
        if config["seed"] == 13 and seeds_started.count(13) == 1:
            log.write(b"error: bad luck\n")
            return 1
        scores = {"accuracy": config["seed"] / 10, "dist": None, "examples": 6}
        folder = pathlib.Path(config["run"])
        write_atomically(folder / "config.json", pathlib.Path(settings).read_bytes())
        path = folder / "results" / "test" / "scores.json"
        write_atomically(path, json.dumps(scores).encode())
        watch()
        return 0

    monkeypatch.setattr(subruns, "run", run)
    yield seeds_started
    signal.signal(signal.SIGTERM, handler)


def test_seeds_make_a_table(started, tmp_path, capsys):
    arguments = ["--built-in", "--run", str(tmp_path), "--seeds"]
    main([*arguments, "2", "4"])
    text = (tmp_path / "seeds.md").read_text()
    assert "| accuracy | 0.3000 ± 0.1414 | 0.2000 | 0.4000 |" in text and "| dist | – | – | – |" in text
    assert text in capsys.readouterr().out and "examples" not in text
    main([*arguments, "2", "4", "9"])
    assert started == [2, 4, 9]  # those that had finished were not run again
    found = json.loads((tmp_path / "seeds.json").read_text())["test"]["accuracy"]
    assert found["mean"] == pytest.approx(0.5) and found["deviation"] == pytest.approx(0.36055, rel=1e-4)
    assert found["values"] == {"2": 0.2, "4": 0.4, "9": 0.9}


def test_a_seed_that_failed_is_tried_again(started, tmp_path):
    arguments = ["--built-in", "--run", str(tmp_path), "--seeds", "13", "2"]
    with pytest.raises(SystemExit, match="1 of 2 runs failed:\nseed 13: bad luck"):
        main(arguments)
    assert "Seeds: 2." in (tmp_path / "seeds.md").read_text()
    main(arguments)
    assert started == [13, 2, 13] and "Seeds: 13, 2." in (tmp_path / "seeds.md").read_text()


def test_seeds_of_other_settings_are_refused(started, tmp_path):
    config = seeds.plan(override(NUMBER_WORDS, {"run": str(tmp_path)}), [2])[0]
    Run(config.run, RECIPE).start(config)
    (pathlib.Path(config.run) / "results").mkdir()
    with pytest.raises(SystemExit, match="batch_size: the folder has 32, you gave 8"):
        main(["--built-in", "--run", str(tmp_path), "--batch-size", "8", "--seeds", "2"])
    assert started == []


def test_a_seed_that_was_trained_on_is_refused(started, tmp_path):
    arguments = ["--built-in", "--run", str(tmp_path), "--seeds", "2"]
    main(arguments)
    path = tmp_path / "seed=2" / "config.json"
    path.write_text(path.read_text().replace('"epochs": 3', '"epochs": 8'))
    with pytest.raises(SystemExit, match="seed=2, epochs=8 in place of 3"):
        main(arguments)


def test_quick_seeds_start_afresh(started, table, tmp_path, monkeypatch):
    """With any settings, but a folder that is named is kept."""
    monkeypatch.chdir(tmp_path)
    arguments = ["--quick", "--text-column", "review", "--label-column", "stars", "--seeds", "2", "--train", str(table)]
    main(arguments)
    folder = pathlib.Path("runs/quick_classify/seed=2")
    Run(folder, RECIPE).save_config(RECIPE.named_config(str(folder / "settings.json")))
    with pytest.raises(SystemExit, match="batch_size: the folder has 32, you gave 8"):
        main([*arguments, "--batch-size", "8", "--run", "runs/quick_classify"])
    assert started == [2, "--afresh"]
    main([*arguments, "--batch-size", "8"])
    assert started == [2, "--afresh"] * 2


def test_afresh_clears_nothing_before_the_data_were_read(table, tmp_path, capsys):
    (tmp_path / "run" / "results" / "old").mkdir(parents=True)
    Run(tmp_path / "run", RECIPE).save_config(config_of(table))
    good = table.read_text()
    table.write_text("review,second,stars\n" + "".join(f"red {row},blue,1\n" for row in range(60)))
    config = config_of(table, epochs=1, seed=3)
    save_config(config, tmp_path / "settings.json", "classify")
    with pytest.raises(SystemExit, match="data.csv must have two labels"):
        main(["--config", str(tmp_path / "settings.json"), "--afresh"])
    assert (tmp_path / "run" / "results" / "old").exists()
    table.write_text(good)
    main(["--config", str(tmp_path / "settings.json"), "--afresh"])
    assert [path.name for path in (tmp_path / "run" / "results").iterdir()] == ["test"]
    assert Run(tmp_path / "run", RECIPE).read_config() == config
