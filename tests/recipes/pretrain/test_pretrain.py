"""The recipe of pre-training from end to end, and fine-tuning from its runs."""

import functools
import json
import re
import shutil
import types

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import keras_headattn  # noqa: F401  (its classes are in the files of runs)
from recipes.engine.encoders import saved_tokenizer
from recipes.glue.__main__ import RECIPE as GLUE
from recipes.glue.__main__ import main as glue
from recipes.glue.train import make_model
from recipes.pretrain.__main__ import RECIPE, main
from recipes.pretrain.train import next_command
from tests.recipes.commands import quick_run, run_here


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A finished run with repulsion, and its folder; records are in it, too."""
    return quick_run("pretrain", tmp_path_factory, "--repulsive", "svgd", "--processes", 2)


def test_the_console_is_quiet(quick):
    assert quick[1].stderr == ""


def test_a_run_leaves_scores_and_a_model(quick):
    run = quick[0] / "run"
    history = json.loads((run / "history.json").read_text())
    scores = json.loads((run / "results" / "held_out" / "scores.json").read_text())
    names = {"generator_loss", "discriminator_loss", "masked_accuracy", "sampled_accuracy", "replaced_share"}
    names |= {f"detection_{name}" for name in ("accuracy", "precision", "recall", "auc")}
    assert names <= set(scores) and {*names, *(f"val_{name}" for name in names), "head_distance"} <= set(history[-1])
    loss = scores["generator_loss"] + 50 * scores["discriminator_loss"]
    assert scores["loss"] == pytest.approx(loss, rel=2e-3)  # which is a mean of batches
    assert history[-1]["val_generator_loss"] < history[0]["val_generator_loss"]
    assert (run / "model.keras").exists() and "acts on 3 kernels" in quick[1].stdout


def test_the_console_shows_little_and_what_comes_next(quick):
    lines = quick[1].stdout.splitlines()
    shown = [re.findall(r" - (\S+) ", line) for line in lines if line.startswith("Epoch ")]
    names = ["loss", "val_detection_auc", "val_generator_loss", "val_loss", "val_masked_accuracy"]
    assert shown and all(sorted(line) == sorted([*names, "tokens_per_second", "head_distance"]) for line in shown)
    run = quick[0] / "run"
    assert lines[-1] == f"Next: python -m recipes.glue --task language --checkpoint {run}"
    config = RECIPE.settings().changed({"train": ("text.txt",), "run": "runs/mine"})
    assert next_command(config) == "python -m recipes.glue --task cola --glue GLUE --checkpoint runs/mine"


def test_the_scores_of_a_finished_run_are_those_of_training(quick, recipe):
    run = quick[0] / "run"
    before = json.loads((run / "results" / "held_out" / "scores.json").read_text())
    assert "held_out, 64 sequences" in recipe("evaluate", run)
    assert json.loads((run / "results" / "held_out" / "scores.json").read_text()) == pytest.approx(before, rel=1e-5)
    assert before["loss"] == pytest.approx(json.loads((run / "history.json").read_text())[-1]["val_loss"], rel=1e-5)


def test_other_text_is_scored(quick, recipe, tmp_path):
    (tmp_path / "others.txt").write_text("eins, zwei, drei\n" * 40)
    assert "others, " in recipe("evaluate", quick[0] / "run", "--test", tmp_path / "others.txt")
    assert (quick[0] / "run" / "results" / "others" / "scores.json").exists()
    (tmp_path / "empty.txt").write_text("\n")
    assert "must have text" in recipe("evaluate", quick[0] / "run", "--test", tmp_path / "empty.txt")


def test_tensorboard_shows_losses_and_heads(quick):
    shown = EventAccumulator(str(quick[0] / "run" / "tensorboard")).Reload().Tags()
    tags = {*shown["tensors"], *shown["scalars"], *shown["images"]}
    wanted = ("generator_loss", "discriminator_loss", "val_detection_auc", "replaced_share", "head_distance")
    assert {"head_norms", *(f"epoch/{name}" for name in wanted)} <= tags
    assert "test/held_out/detection_auc" in tags


def test_the_same_command_has_nothing_left_to_train(quick, recipe):
    same = ["--quick", "--repulsive", "svgd", "--run", quick[0] / "run", "--export", quick[0] / "exported"]
    assert "no epoch left" in recipe(*same)
    assert "repulsive: the folder has 'svgd', you gave 'none'" in recipe("--quick", "--run", quick[0] / "run")


def test_what_is_exported(quick, recipe, tmp_path):
    """Both networks as Hugging Face names them, Google's checkpoint, and the vocabulary; and in again."""
    version = quick[0] / "exported" / "1"
    assert "discriminator_predictions.dense.weight" in load_file(version / "discriminator" / "model.safetensors")
    assert "generator_lm_head.bias" in load_file(version / "generator" / "model.safetensors")
    assert (version / "google" / "model.ckpt.index").exists() and (version / "discriminator" / "vocab.txt").exists()
    run = tmp_path / "imported"
    generator = ["--generator", version / "generator"]
    assert f"--checkpoint {run}" in recipe("import", version / "discriminator", *generator, "--run", run)
    google = tmp_path / "google"
    recipe("import", version / "google" / "model.ckpt", "--num-heads", 4, "--run", google)
    first, *others = (keras.saving.load_model(f / "model.keras") for f in (quick[0] / "run", run, google))
    for other in others:
        for layer in ("generator", "discriminator"):
            pairs = zip(getattr(first, layer).get_weights(), getattr(other, layer).get_weights(), strict=True)
            assert all(np.array_equal(*pair) for pair in pairs)
    cased = shutil.copytree(version / "discriminator", tmp_path / "cased")
    (cased / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    recipe("import", cased, *generator, "--run", tmp_path / "of_cased")
    for folder, is_lower in ((run, True), (tmp_path / "of_cased", False)):
        assert json.loads((folder / "config.json").read_text())["lowercase"] is is_lower
        assert saved_tokenizer(folder / "tokenizer.json").lowercase is is_lower
    assert "must be that of the model" in recipe(
        "import", version / "discriminator", *generator, "--vocabulary", longer(version, tmp_path), "--run", run
    )


def longer(version, folder):
    path = folder / "longer.txt"
    path.write_bytes((version / "discriminator" / "vocab.txt").read_bytes() + b"more\n")
    return path


def test_fine_tuning_from_a_run(quick, capsys, tmp_path):
    """Which language a number is in; then another task from that run, with a new head."""
    arguments = ["--epochs", 1, "--export", "none", "--train-examples", 64, "--max-examples", 80, "--max-length", 64]
    first = ["--built-in", "--task", "language", "--checkpoint", quick[0] / "run", "--run", tmp_path / "language"]
    electra = ["--optimizer", "electra", "--layer-decay", 0.8]
    printed = run_here(glue, capsys, *first, *arguments, *electra)
    assert "accuracy" in printed and (tmp_path / "language" / "model.keras").exists(), printed
    second = ["--built-in", "--task", "paraphrase", "--checkpoint", tmp_path / "language", "--run", tmp_path / "second"]
    printed = run_here(glue, capsys, *second, *arguments, "--swap-pairs", "--model-arguments", "pooling=mean")
    assert "f1" in printed, printed
    config = json.loads((tmp_path / "second" / "config.json").read_text())
    assert config["attention"] == "multi_head" and config["size"] is None


def test_the_encoder_of_a_run_keeps_its_weights(quick, tmp_path):
    run = keras.saving.load_model(quick[0] / "run" / "model.keras").discriminator.encoder
    config = GLUE.settings().changed(dict(task="rte", glue=str(tmp_path), checkpoint=str(quick[0] / "run")))

    def weights(**changed):
        return make_model(
            config.changed(changed), types.SimpleNamespace(vocabulary_size=0), types.SimpleNamespace(width=2)
        )

    same = weights()
    assert same.kind == "linear" and same.encoder.pooler is None
    for mine, theirs in zip(same.encoder.get_weights(), run.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert weights(model_arguments={"pooling": "mean"}).pooling == "mean"
    evolving = weights(attention="evolving").encoder
    found = {weight.path.split("/")[-2]: weight.numpy() for weight in evolving.blocks[0].attention.weights}
    there = {weight.path.split("/")[-2]: weight.numpy() for weight in run.blocks[0].attention.weights}
    assert all(np.array_equal(found[name], there[name]) for name in there)
    fresh = weights(checkpoint_weights=False).encoder
    assert fresh.hidden_dim == run.hidden_dim and not np.array_equal(fresh.get_weights()[0], run.get_weights()[0])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--train", "{tmp}/none.txt"], "no such file"),
        (["--records", "{tmp}"], "give --vocabulary"),
        (["--built-in", "--attention", "evolving", "--attention-arguments", "gamma=1"], "gamma"),
        (
            ["--built-in", "--generator-attention-arguments", "gamma=1"],
            "--generator-attention-arguments: MultiHeadAttention takes",
        ),
        (["--built-in", "--num-heads", "7"], "--num-heads must divide"),
        (["--built-in", "--max-length", "600"], "--max-length must be at most"),
        (["--config", "electra_small"], "Give --train or --built-in or --records"),
        (["export", "{tmp}/nothing", "--export", "x"], "no run"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, message, recipe, tmp_path):
    arguments = [argument.replace("{tmp}", str(tmp_path)) for argument in arguments]
    command = [] if arguments[0] == "export" else ["--run", tmp_path / "run"]
    reported = recipe(*arguments, *command)
    assert message in reported and reported.startswith("error: ") and "\n" not in reported


def test_runs_of_other_recipes_are_no_checkpoints(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"recipe": "classify"}))
    reported = run_here(glue, capsys, "--checkpoint", tmp_path, "--run", tmp_path / "run")
    assert "takes runs of recipes.pretrain, recipes.glue" in reported
    (tmp_path / "config.json").write_text(json.dumps({"recipe": "pretrain"}))
    reported = run_here(glue, capsys, "--checkpoint", tmp_path, "--run", tmp_path / "run")
    assert "no tokenizer.json" in reported
