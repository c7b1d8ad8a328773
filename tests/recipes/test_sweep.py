"""The loop of a sweep, with runs that train nothing."""

import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_headattn._files import write_atomically
from recipes import sweep
from recipes.engine import subruns
from recipes.engine.config import save_config
from recipes.engine.modelling import check_attentions
from recipes.engine.table_figures import draw
from recipes.engine.tables import Cell, Table, differences, markdown, published_value
from tests.recipes.commands import ROOT
from tests.refusals import refused

HEADS_DO_NOT_FIT = "error: The width must be a multiple of the number of heads."


@pytest.fixture(autouse=True)
def signals():
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture
def runs(monkeypatch):
    """Puts a run in place of the recipe that leaves what the recipe would; gives the list of runs started."""
    started = []

    def run(recipe, settings, log, watch):
        config = json.loads(pathlib.Path(settings).read_text())
        started.append((config["attention"], config["num_heads"], config["seed"]))
        if config["num_heads"] == 3:
            log.write(f"Some lines\n{HEADS_DO_NOT_FIT}\n".encode())
            return 1
        folder = pathlib.Path(config["run"])
        write_atomically(folder / "config.json", pathlib.Path(settings).read_bytes())
        history = [{"val_loss": 4.0, "tokens_per_second": 1500.0}] * config["epochs"]
        write_atomically(folder / "history.json", json.dumps(history).encode())
        watch()
        score = {"name": "BLEU", "value": config["num_heads"] + 2.0 * config["seed"], "signature": "tok:13a"}
        write_atomically(folder / "results" / "test" / "scores.json", json.dumps({"BLEU": score}).encode())
        return 0

    monkeypatch.setattr(subruns, "run", run)
    monkeypatch.setattr(sweep, "draw", lambda cells, table: None)  # it takes its time
    monkeypatch.setattr(sweep, "write_figure", lambda path, figure: path.write_bytes(b"\x89PNG"))
    return started


def start(folder, *arguments):
    sweep.main(["--runs", str(folder), "--attentions", "multi_head", "interacting", "--epochs", "2", *arguments])


def planned(*arguments):
    """The settings of all runs."""
    *_, options = sweep.parse(arguments)
    return [config for _, config in sweep.plan(*sweep.attentions_by_heads(options), options)]


def table(folder):
    return (folder / "sweep.md").read_text()


def test_trains_all_and_then_nothing(tmp_path, runs, capsys):
    start(tmp_path, "--heads", "2", "4")
    assert runs == [(name, heads, 0) for name in ("multi_head", "interacting") for heads in (2, 4)]
    assert "**test, BLEU** `tok:13a`" in table(tmp_path) and "| interacting | 2.00 | 4.00 |" in table(tmp_path)
    assert "| multi_head | 1,500 | 1,500 |" in table(tmp_path)
    assert (tmp_path / "sweep.png").read_bytes() == b"\x89PNG"
    shown = capsys.readouterr().out
    assert "4 runs to train, 8 epochs: 8 in " in shown and "interacting, 4 heads, seed 0: finished" in shown
    start(tmp_path, "--heads", "2", "4", "8")
    assert runs[4:] == [("multi_head", 8, 0), ("interacting", 8, 0)]


def test_scores_of_another_sweep_are_not_trained_again(tmp_path, runs):
    start(tmp_path / "first", "--heads", "2", "4")
    scores, unfinished = tmp_path / "first" / "sweep.csv", tmp_path / "unfinished.csv"
    unfinished.write_text(scores.read_text().partition("\n")[0])
    start(tmp_path / "both", "--heads", "2", "4", "--seeds", "0", "1", "--scores", str(unfinished), str(scores))
    assert runs[4:] == [(name, heads, 1) for name in ("multi_head", "interacting") for heads in (2, 4)]
    start(tmp_path / "all", "--heads", "2", "4", "--seeds", "0", "1")
    assert (tmp_path / "both" / "sweep.csv").read_text() == (tmp_path / "all" / "sweep.csv").read_text()
    assert table(tmp_path / "both") == table(tmp_path / "all")
    head, *lines = scores.read_text().splitlines()
    for text in ("id,text\n1,a\n", "\n".join([head, *(f"other {line}" for line in lines)])):
        scores.write_text(text)
        with refused("--scores", str(scores), error=SystemExit):
            start(tmp_path / "new", "--scores", str(scores))


def test_both_signatures_of_a_measure_are_shown():
    values = {"plain": (1.0, "tok:13a"), "other": (2.0, "tok:none")}
    cells = [Cell(row, "", 0, {("test", "BLEU"): score}) for row, score in values.items()]
    table = Table(title="Heads", rows=dict.fromkeys(values, {}), columns={"": {}, "b": {}})
    assert "**test, BLEU** `tok:13a or tok:none`" in markdown(cells, table)


def test_times_are_relative_to_runs_of_this_machine(tmp_path, runs, monkeypatch):
    """Not to those in a file, of another sweep."""
    table = Table(title="Heads", rows={"multi_head": {}, "evolving": {}}, measures=(("training", "relative time"),))
    here, other = ({("training", "minutes an epoch"): (minutes, "")} for minutes in (4.0, 0.5))
    monkeypatch.setattr(sweep, "find", lambda recipe, cell, config: dataclasses.replace(cell, scores=here))
    config, _ = planned("--runs", str(tmp_path), "--heads", "2", "--quick", "--attentions", "multi_head", "evolving")
    for of_first, times in ((other, 0), ({}, 2)):
        cells = [(Cell("multi_head", "", 0, of_first), config), (Cell("evolving", "", 0), config)]
        sweep.sweep(sweep.TRANSLATE, table, cells, tmp_path, table_only=True)
        assert (tmp_path / "sweep.csv").read_text().count("relative time") == times


def test_goes_on_after_an_interruption(tmp_path, runs, monkeypatch):
    whole = subruns.run

    def interrupted(recipe, settings, log, watch):
        if len(runs) == 1:
            raise KeyboardInterrupt
        return whole(recipe, settings, log, watch)

    monkeypatch.setattr(subruns, "run", interrupted)
    with pytest.raises(SystemExit) as end:
        start(tmp_path, "--heads", "2", "4")
    assert end.value.code == 130
    assert runs == [("multi_head", 2, 0)] and "| multi_head | 2.00 | – |" in table(tmp_path)
    monkeypatch.setattr(subruns, "run", whole)
    start(tmp_path, "--heads", "2", "4")
    assert len(runs) == len(set(runs)) == 4 and "4 of 4 runs" in table(tmp_path)


def test_a_failure_loses_nothing(tmp_path, runs):
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            start(tmp_path, "--heads", "3", "4", "--model-arguments", "hidden_dim=120")
        assert "2 of 4 runs failed" in stop.value.code and "multiple of the number" in stop.value.code
    assert runs.count(("multi_head", 3, 0)) == 2 and runs.count(("multi_head", 4, 0)) == 1
    assert "| multi_head | failed [1] | 4.00 |" in table(tmp_path)
    assert "2. interacting, 3 heads, seed 0: The width must be a multiple of the number of heads." in table(tmp_path)


def test_table_only(tmp_path, runs):
    start(tmp_path, "--heads", "2")
    (tmp_path / "sweep.md").unlink()
    for options in ((), ("--quiet", "--replicas", "1")):
        start(tmp_path, "--heads", "2", "4", "--table-only", *options)
        assert len(runs) == 2 and "| interacting | 2.00 | – |" in table(tmp_path)


def test_other_settings(tmp_path, runs):
    start(tmp_path, "--heads", "2")
    config = planned("--runs", str(tmp_path), "--attentions", "multi_head")[0]
    save_config(config, pathlib.Path(config.run) / "config.json", "translate")
    start(tmp_path, "--heads", "2", "--epochs", "3")
    assert len(runs) == 4
    with pytest.raises(SystemExit, match="model_arguments.dropout: the folder has 0.1, you gave 0.2"):
        start(tmp_path, "--heads", "2", "--model-arguments", "dropout=0.2")
    assert len(runs) == 4


def test_seeds_are_averaged(tmp_path, runs):
    start(tmp_path, "--heads", "4", "--seeds", "0", "1", "2")
    # 4, 6 and 8: their mean is 6, their standard deviation 2.
    assert "| multi_head | 6.00 ± 2.00 |" in table(tmp_path) and "of 3 seeds" in table(tmp_path)


@pytest.mark.parametrize("arguments, name, received", [
    (["--attentions", "singing_heads"], "attention", "singing_heads"),
    (["--attentions", "multi_head:wide"], "NAME=VALUE", "wide in --attentions multi_head:wide"),
    (["--train", "a", "b", "--validation", "c", "d"], "--test", "none"),
    (["--attentions", "evolving:alpha"], "NAME=VALUE", "alpha in --attentions evolving:alpha"),
])  # fmt: skip
def test_mistakes_are_reported_before_training(tmp_path, runs, arguments, name, received):
    with refused(name, received, SystemExit):
        sweep.main(["--runs", str(tmp_path), *arguments])
    assert runs == []


def planned_of(name, *arguments):
    """The recipe, table and settings of all runs of a paper's table."""
    recipe, table, options = sweep.parse([name, *arguments])
    table = sweep._part_of(table, options)
    return recipe, table, [config for _, config in sweep.plan(recipe, table, options)]


TABLES = sweep.named_tables()
DATA = {
    "translate": ("--train", "a", "b", "--validation", "c", "d", "--test", "e", "f"),
    "classify": ("--train", "a.csv", "--test", "b.csv"),
    "glue": ("--glue", "GLUE"),
    "graphs": ("--train", "a.tsv", "--validation", "b.tsv", "--test", "c.tsv"),
    "imagenet": ("--images", "folder"),
    "lm": ("--train", "a.txt"),
    "lm_heads_tasks": (),
    "rationales": ("--eraser", "folder"),
}


def test_a_papers_table():
    _, table, configs = planned_of("interacting_table3", "--iwslt", "de-en")
    assert len(configs) == 4 * 6
    assert {(c.attention, c.attention_arguments.get("key_dim")) for c in configs} == {
        ("multi_head", None), ("multi_head", 20), ("talking_heads", None), ("interacting", None)
    }  # fmt: skip
    assert (
        configs[6].run == "runs/interacting_table3/multi_head,key_dim=20,heads=2,seed=0" and configs[6].export is None
    )
    assert {name for name, _ in table.published} - {"training"} == set(configs[0].test_splits)


def test_synthetic_tasks_are_no_tasks_of_the_paper():
    """Columns of data are one column, and what is equal is trained once."""
    _, table, configs = planned_of("evolving_table3_bert_base", "--built-in", "--table-columns", "rte")
    assert [*table.columns] == [""] and table.headlines == {} and "attention of rte" in table.title
    assert [c.attention_arguments for c in configs] == [{}, dict(alpha=0.2, beta=0.1)]
    assert len(planned_of("evolving_grid", "--built-in")[1].columns) == 3
    _, table, configs = planned_of("disentangled_table2", "--built-in")
    runs = dict(zip(table.rows, (config.run for config in configs), strict=True))
    assert runs["transformer_base_37k"] == runs["transformer_base"] != runs["dma_base"] == runs["dma_base_37k"]


def test_a_column_may_begin_with_the_runs_of_another():
    _, table, configs = planned_of("repulsive_table3", *DATA["glue"], "--table-columns", "mnli", "rte_after_mnli")
    mnli, rte = configs[:2]
    assert (rte.task, rte.epochs, rte.checkpoint) == ("rte", 10, mnli.run) and mnli.checkpoint == "runs/electra_small"
    means = {
        name: published_value(table, "electra_small", columns, None)
        for name, columns in sweep.named_table("repulsive_table3")[1].means.items()
    }
    assert means == pytest.approx({"mean": 80.0, "mean, RTE after MNLI": 80.5}, abs=0.05)


def test_rows_are_what_the_paper_names():
    """Of Wang et al. 2021, section 4.2, vanilla maps beside synthetic ones, and appendix A.2, a layer of 2,000."""
    *_, (_, row, _) = planned_of("evolving_table3_t5_base", *DATA["glue"], "--table-columns", "cola")
    assert row.attention == "synthesizer" and set(row.attention_arguments["mixture"]) == {"random", "dot_product"}
    widths = {
        model: {c.model_arguments.get("head_dim") for c in planned_of(f"evolving_table3_{model}", *DATA["glue"])[2]}
        for model in ("bert_base", "bert_large", "roberta_large")
    }
    assert widths == {"bert_base": {2000}, "bert_large": {2000}, "roberta_large": {None}}


@pytest.mark.parametrize("name", TABLES)
def test_papers_tables_have_valid_settings(name):
    """Each row and column, with files and on the synthetic data; published figures have a place."""
    recipe, table, configs = planned_of(name, *DATA.get(name, DATA[TABLES[name][0].name]))
    assert len({json.dumps(vars(config), default=str) for config in configs}) == len(configs)
    assert len({config.run for config in configs}) == len(table.rows) * len(table.columns)
    _, built_in, of_synthetic = planned_of(name, "--built-in", "--quick")
    for config in configs + of_synthetic:
        check_attentions(config)
    assert built_in.published == {} and len(of_synthetic) == len(built_in.rows) * len(built_in.columns)
    for measure, rows in table.published.items():
        assert set(rows) <= set(table.rows)
        for figures in rows.values():
            assert measure in table.of_model or set(figures if isinstance(figures, dict) else [""]) <= set(
                table.columns
            )
    assert set(table.headlines) in (set(), set(table.columns))
    assert {column for columns in table.means.values() for column in columns} <= set(table.columns)


def compared(values):
    """Returns the cells and the table of losses by row and seed."""
    measure = "validation", "loss"
    cells = [
        Cell(row, "", seed, {measure: (value, "")}) for row, seeds in values.items() for seed, value in seeds.items()
    ]
    return cells, Table(title="Heads", rows=dict.fromkeys(values, {}), measures=(measure,), compared=measure)


def test_differences_are_paired_by_seed():
    """Intervals and p values, Holm's, are Student's with one deviation, that which rows and seeds leave unexplained."""
    values = {
        "plain": {1: 2.0, 2: 2.2, 3: 2.1}, "better": {1: 1.8, 2: 2.1, 3: 1.9}, "same": {1: 2.1, 2: 2.1, 3: 2.1},
        "one": {3: 1.0},
    }  # fmt: skip
    cells, table = compared(values)
    runs = np.array([[*values[row].values()] for row in ("plain", "better", "same")])
    rest = runs - runs.mean(0) - runs.mean(1, keepdims=True) + runs.mean()
    half = 2.776445 * (2 * np.sum(rest**2) / 4 / 3) ** 0.5  # the 97.5 % quantile of t with 4 degrees of freedom
    text = markdown(cells, table)
    for row, mean, p in (("better", -0.5 / 3, 0.12), ("same", 0.0, 1)):
        assert f"| {row} | {mean:+.4f} | {mean - half:+.4f} to {mean + half:+.4f} | {p} |" in text.splitlines(), text
    assert "| one | -1.1000 | – | – |" in text.splitlines()
    uncompared = markdown(cells, dataclasses.replace(table, compared=()))
    assert "difference" not in uncompared and "(p " in uncompared and "(p " not in text
    (axes,) = draw(cells, table).axes
    bars = [bar.get_segments()[0] for bar in axes.collections]
    for bar, mean, place in zip(bars, (-0.5 / 3, 0.0), range(2), strict=False):
        np.testing.assert_allclose(bar, [(mean - half, place), (mean + half, place)], rtol=1e-5)
    points = {tuple(line.get_ydata()): line.get_xdata() for line in axes.lines if line.get_marker() == "o"}
    np.testing.assert_allclose(points[0, 0, 0], [-0.2, -0.1, -0.2])
    np.testing.assert_allclose(points[(2,)], -1.1)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["better", "same", "one"]
    assert axes.get_xlabel() == "loss, difference from plain"


def test_a_row_that_varies_more_has_its_own_interval():
    """It widens no other row's, and Student's t with one degree of freedom finds nothing in its two seeds."""
    random = np.random.default_rng(0)
    values = {f"row {number}": dict(enumerate(random.normal(0, 0.01, 2))) for number in range(8)}
    values["row 1"] = {seed: value - 0.1 for seed, value in values["row 1"].items()}
    alone = differences(*compared(values), "")
    found = differences(*compared(values | {"noisy": {0: 1.0, 1: 0.2}}), "")
    assert found["row 1"][3] < 0.01 and found["noisy"][3] == 1
    np.testing.assert_allclose(found["row 1"][:3], alone["row 1"][:3])
    np.testing.assert_allclose(found["noisy"][2] - found["noisy"][0], 12.7062 * 0.4, rtol=0.1)


def test_relative_times_have_a_panel_where_they_were_measured():
    """That of the first row, 1 by definition, needs none."""
    measure, time = ("validation", "loss"), ("training", "relative time")
    table = Table(title="Heads", rows={"plain": {}, "other": {}}, measures=(measure, time), compared=measure)
    scores = {measure: (2.0, "")}
    plain = [Cell("plain", "", seed, scores | {time: (1.0, "")}) for seed in (1, 2)]
    for found, panels in (scores, 1), (scores | {time: (1.5, "")}, 2):
        assert len(draw([*plain, *(Cell("other", "", seed, found) for seed in (1, 2))], table).axes) == panels


def test_a_difference_far_off_is_written_at_the_edge():
    measure = "validation", "loss"
    scores = {"plain": 2.0} | {f"row {number}": 2.0 + 0.01 * number for number in range(1, 12)} | {"far": 4.0}
    table = Table(title="Heads", rows=dict.fromkeys(scores, {}), measures=(measure,), compared=measure)
    cells = [Cell(row, "", seed, {measure: (score, "")}) for row, score in scores.items() for seed in (1, 2)]
    (axes,) = draw(cells, table).axes
    assert [(text.get_text(), text.get_position()[1]) for text in axes.texts] == [("+2", 11)]
    assert 0.11 < axes.get_xlim()[1] < 2
    (axes,) = draw([cell for cell in cells if cell.row != "far"], table).axes
    assert not axes.texts and axes.get_xlim()[1] > 0.11


def test_differences_need_two_seeds():
    assert differences(*compared({"plain": {1: 2.0}, "other": {1: 1.5}}), "") == {}


def recipe_that(tmp_path, monkeypatch, does):
    script = tmp_path / "python"
    script.write_text(f"#!/bin/bash\n{does}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_an_interrupted_run_may_save_its_state(tmp_path, monkeypatch):
    recipe_that(tmp_path, monkeypatch, "trap 'echo saved; exit 143' TERM; echo ready; while true; do sleep 0.05; done")

    def watch():
        while (tmp_path / "log").read_text() != "ready\n":
            time.sleep(0.02)
        raise KeyboardInterrupt

    with open(tmp_path / "log", "wb") as log, pytest.raises(KeyboardInterrupt):
        subruns.run("recipes.translate", "settings.json", log, watch)
    assert (tmp_path / "log").read_text() == "ready\nsaved\n"


def test_a_killed_run(tmp_path, monkeypatch):
    recipe_that(tmp_path, monkeypatch, "kill -KILL $$")
    with pytest.raises(SystemExit, match="multi_head, 2 heads, seed 0: ended by SIGKILL"):
        sweep.main(["--runs", str(tmp_path / "runs"), "--attentions", "multi_head", "--heads", "2"])


def test_a_run_that_outlives_its_sweep_is_waited_for(tmp_path, runs, monkeypatch):
    whole, said, left_behind = subruns.run, tmp_path / "said", []

    def killed(recipe, settings, log, watch):
        command = ["bash", "-c", f"until grep -qs waiting {said}; do sleep 0.05; done"]
        left_behind.append(subprocess.Popen(command, stdout=log))
        raise KeyboardInterrupt

    monkeypatch.setattr(subruns, "run", killed)
    with pytest.raises(SystemExit):
        start(tmp_path, "--heads", "2")
    monkeypatch.setattr(subruns, "run", whole)
    monkeypatch.setattr("recipes.engine.run.print", lambda text, **_: said.write_text(text), raising=False)
    start(tmp_path, "--heads", "2")
    assert left_behind[0].wait() == 0
    assert len(runs) == 2


def test_all_tables_of_recipes_are_known():
    assert {recipe.name for recipe, _ in TABLES.values()} == {
        path.parents[1].name for path in (ROOT / "recipes").glob("*/configs/*.py") if "\nTABLES = " in path.read_text()
    }
