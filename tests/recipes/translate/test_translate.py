"""The recipe from end to end, as a user runs it; training in processes of their own."""

import functools
import json
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.image import imread
from tensorflow.core.protobuf import saved_model_pb2

from recipes.translate.__main__ import main
from tests.recipes.commands import ROOT, quick_run, run_here, run_process


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return quick_run("translate", tmp_path_factory, "--seed", 3, "--max-sentences", 6000)


def test_the_console_is_quiet(quick):
    assert quick[1].stderr == ""


def test_settings_of_decoding_are_in_the_signatures(quick):
    scores = json.loads((quick[0] / "run" / "results" / "test" / "scores.json").read_text())
    assert scores["BLEU"]["signature"].endswith("|beam_size:2|alpha:0.6|max_length:64|min_length:1")


def test_a_run_leaves_scores_and_translations(quick):
    folder, process = quick
    results = folder / "run" / "results" / "test"
    scores = json.loads((results / "scores.json").read_text())
    assert {"exact match", "BLEU", "chrF2"} <= set(scores)
    assert len((results / "hypotheses.txt").read_text().splitlines()) == 500
    history = json.loads((folder / "run" / "history.json").read_text())
    assert history[1]["loss"] < history[0]["loss"] and history[0]["tokens_per_second"] > 0
    assert "padding: source" in process.stdout
    assert list((folder / "run" / "tensorboard").rglob("events*"))


def signatures_in(path):
    """Names of the signatures of a SavedModel."""
    definition = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    names = {name for graph in definition.meta_graphs for name in graph.signature_def}
    return {name for name in names if not name.startswith("__")}


def test_the_exported_model_translates(quick):
    folder, process = quick
    assert (folder / "exported" / "1" / "saved_model.pb").exists()
    assert (folder / "exported_ids" / "1" / "saved_model.pb").exists()
    assert process.stdout.count("    -> ") == 5
    assert process.stdout.endswith(f"python -m recipes.serve {folder / 'exported'}\n")
    assert signatures_in(folder / "exported" / "1") == {"serving_default", "n_best", "constrained", "attention"}


def test_translating_standard_input(quick):
    stdin = "the number seven\n\ntwelve\n"
    process = run_process("translate", "translate", quick[0] / "run", "--scores", stdin=stdin)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert len(lines) == 3 and float(lines[0].split("\t")[0]) < 0 and lines[1] == "0.0000\t"


def test_n_best_lists_with_beginnings(quick, recipe, tmp_path):
    sentences, beginnings = tmp_path / "sentences.en", tmp_path / "beginnings.de"
    sentences.write_text("the number seven\n\ntwelve\n")
    beginnings.write_text("\n\nacht\n")
    given = ("--n-best", 2, "--prefixes", beginnings, "--search-arguments", "no_repeat_ngram_size=2", "min_length=3")
    lines = [line.split(" ||| ") for line in recipe("translate", quick[0] / "run", sentences, *given).splitlines()]
    assert [line[0] for line in lines] == ["1", "1", "2", "3", "3"] and lines[2][1:] == ["", "0.0000"]
    assert lines[0][1] != lines[1][1] and float(lines[0][2]) >= float(lines[1][2])
    assert all(text.startswith("acht") for _, text, _ in lines[3:])


@pytest.mark.parametrize("given, message", [
    (("--n-best", 3), "--n-best must be from 1 to 2, the number of hypotheses"),
    (("--prefixes", "one.txt"), "--prefixes must have a line for each of 2 sentences. Received: 1"),
    (("--search-arguments", "temperature=0.5"), "temperature needs `num_samples`. Received: num_samples=None"),
    (("--search-arguments", "min_length=64"), "`min_length` must be below --max-length"),
    (("--search-arguments", "top_p=2"), "top_p needs `num_samples`. Received: num_samples=None"),
    (("--search-arguments", "num_samples=2", "top_p=2"), "Received: top_p=2"),
    (("--search-arguments", "beam=2"), "takes min_length, no_repeat_ngram_size"),
    (("--search-arguments", "coverage_penalty=0.1", "--beam-size", 1), "`coverage_penalty` needs a beam search"),
])  # fmt: skip
def test_wrong_options_of_a_search(quick, recipe, tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.txt").write_text("one\ntwo\n")
    (tmp_path / "one.txt").write_text("eins\n")
    found = recipe("translate", quick[0] / "run", "two.txt", *given)
    assert found.startswith("error: ") and message in found and "\n" not in found


def test_shortlists(quick, recipe, tmp_path):
    """Learnt from text, read from a table, and used by `translate` and `evaluate`."""
    run = quick[0] / "run"
    (tmp_path / "sentences.en").write_text("the number seven\ntwelve\n")
    command = "translate", run, tmp_path / "sentences.en", "--shortlist", 100
    assert "must learn a shortlist first: python -m recipes.translate shortlist" in recipe(*command)
    (tmp_path / "pairs.tsv").write_text("seven\tsieben\ntwelve\tzwölf\nthe number seven\tdie Nummer sieben\n" * 9)
    assert "Learning the shortlist from 27 pairs" in recipe("shortlist", run, tmp_path / "pairs.tsv")
    assert len(recipe(*command).splitlines()) == 2
    found = recipe("evaluate", run, "--shortlist", 100)
    assert "|shortlist:100" in found
    assert (run / "results" / "test,shortlist=100" / "scores.json").exists()
    (tmp_path / "lex.s2t").write_text("▁sie ▁the 0.5\n")
    assert "Give text, or --lexicon" in recipe("shortlist", run, tmp_path / "pairs.tsv", "--lexicon", "lex.s2t")
    recipe("shortlist", run, "--lexicon", tmp_path / "lex.s2t")
    assert np.load(run / "shortlist.npz")["table"].sum() > 0


def test_scores_of_given_translations(quick, recipe, tmp_path):
    pairs = {"source.en": "seven\ntwelve\n", "target.de": "sieben\nzwölf\n"}
    for name, text in pairs.items():
        (tmp_path / name).write_text(text)
    lines = recipe("score", quick[0] / "run", *(tmp_path / name for name in pairs)).splitlines()
    by_token = recipe("score", quick[0] / "run", *(tmp_path / name for name in pairs), "--tokens").splitlines()
    assert len(lines) == 2 and all(float(line) < 0 for line in lines)
    for total, line in zip(lines, by_token, strict=True):
        first, *tokens = line.split("\t")
        assert first == total and tokens[-1].startswith("</s> ")
        assert sum(float(token.split(" ")[1]) for token in tokens) == pytest.approx(float(total), abs=1e-3)
    message = recipe("score", quick[0] / "run", tmp_path / "source.en", tmp_path / "target.de", tmp_path / "source.en")
    assert message.startswith("error: Give a source and a target, or a file of pairs.")


def test_other_search_arguments_have_results_of_their_own(quick, recipe):
    found = recipe("evaluate", quick[0] / "run", "--search-arguments", "repetition_penalty=1.5")
    assert "|repetition_penalty:1.5" in found, found
    assert (quick[0] / "run" / "results" / "test,repetition_penalty=1.5" / "scores.json").exists()


def test_standard_input_that_is_no_text(quick):
    """And how a mistake ends a process: with one line and the exit status 1."""
    command = [sys.executable, "-m", "recipes.translate", "translate", str(quick[0] / "run")]
    process = subprocess.run(command, cwd=ROOT, input=b"seven\nz\xff\n", capture_output=True, timeout=600)
    assert process.returncode == 1 and len(process.stderr.splitlines()) == 1
    assert b"standard input, line 2 is not UTF-8" in process.stderr and b"0xff at position 2" in process.stderr


def test_a_beam_that_is_too_wide(quick, recipe):
    message = recipe("evaluate", quick[0] / "run", "--beam-size", 5000)
    assert message.startswith("error: ") and "beam_size=5000" in message and "\n" not in message


def test_an_empty_test_set(quick, recipe, tmp_path):
    files = [tmp_path / "none.en", tmp_path / "none.de"]
    for file in files:
        file.touch()
    message = recipe("evaluate", quick[0] / "run", "--test", *files)
    assert message.startswith("error: ") and "none.en" in message


def test_options_together(tmp_path_factory):
    """XLA on two replicas in mixed precision, without logits, Moses' tokens in true case, and two vocabularies."""
    size = ["--num-heads", 2, "--max-sentences", 500]
    size += ["--model-arguments", "num_layers=1", "hidden_dim=16", "intermediate_dim=16", "loss_chunk_size=64"]
    training = ["--replicas", 2, "--compile-arguments", "jit_compile=true", "--precision", "mixed_bfloat16"]
    training += ["--optimizer-arguments", "gradient_accumulation_steps=2", "global_clipnorm=1.0"]
    text = ["--moses", "--truecase", "--no-shared-vocabulary", "--vocabulary-type", "unigram", "--vocabulary-size", 100]
    attention = ["--attention", "interacting", "--attention-arguments", "interaction=pairwise", "--num-buckets", 1]
    options = [*attention, *size, *training, *text, "--export", "none"]
    folder, process = quick_run("translate", tmp_path_factory, *options)
    assert process.stderr == ""
    history = json.loads((folder / "run" / "history.json").read_text())
    assert history[1]["loss"] < history[0]["loss"]


def test_evaluating_again_gives_the_same_scores(quick):
    folder = quick[0] / "run"
    before = (folder / "results" / "test" / "scores.json").read_text()
    process = run_process("translate", "evaluate", folder)
    assert process.returncode == 0, process.stderr
    assert (folder / "results" / "test" / "scores.json").read_text() == before


def test_evaluating_another_test_set_with_other_settings(quick, recipe, tmp_path):
    files = [tmp_path / "mine.en", tmp_path / "mine.de"]
    files[0].write_text("twelve\n")
    files[1].write_text("zwölf\n", encoding="utf-8")
    folder = quick[0] / "run"
    recipe("evaluate", folder, "--test", *files, "--beam-size", 1, "--metrics", "exact_match")
    assert (folder / "results" / "mine,beam_size=1" / "scores.json").exists()


def test_exporting_again_needs_no_data(quick, recipe):
    options = ("--samples", 1, "--export-arguments", "attention=false", "weights=int8", "cpu_only=true")
    printed = recipe("export", quick[0] / "run", "--export", quick[0] / "again", *options)
    assert printed.count("    -> ") == 1
    assert signatures_in(quick[0] / "again" / "1") == {"serving_default", "n_best", "constrained"}


def test_a_folder_of_other_settings_is_refused(quick, recipe):
    message = recipe("--quick", "--run", quick[0] / "run", "--seed", 4)
    assert message.startswith("error: ") and "seed: the folder has 3, you gave 4" in message


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--config", "nonsense"], "nonsense"),
        (["--config", "multi30k", "--run", "{tmp}/run"], "--train"),
        (["--num-heads", "3", "--run", "{tmp}/run"], "num_heads=3"),
        (["--train", "a.en", "b.de", "--validation", "c.en", "d.de", "--run", "{tmp}/run"], "a.en"),
        (["--metrics", "bleu", "bleu", "--run", "{tmp}/run"], "bleu bleu"),
        (["--attention", "luong", "--num-heads", "4", "--run", "{tmp}/run"], "num_heads=4"),
        (["--seed", "-1", "--run", "{tmp}/run"], "seed=-1"),
        (["evaluate", "{tmp}/nothing"], "no run"),
        (["translate", "{tmp}/nothing", "missing.txt"], "missing.txt"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, message, recipe, tmp_path):
    reported = recipe(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    assert message in reported and reported.startswith("error: ") and "\n" not in reported


def test_disentangled_mask_attention(tmp_path_factory):
    """Small, with its losses in the history, averaged weights and beam 5."""
    size = ["--num-heads", 2, "--max-sentences", 500]
    size += ["--model-arguments", "num_layers=1", "hidden_dim=16", "intermediate_dim=16", "loss_chunk_size=64"]
    decoding = ["--epochs", 2, "--num-buckets", 1, "--average", 2, "--beam-size", 5, "--export", "none"]
    attention = ["--attention", "disentangled_mask"]
    folder, process = quick_run("translate", tmp_path_factory, *attention, *size, *decoding)
    assert process.stderr == ""
    history = json.loads((folder / "run" / "history.json").read_text())
    names = {"shared_information", "kept_information", "divergence", "diversity", "clusters", "least_clusters"}
    assert len(history) == 2 and all(names <= set(epoch) for epoch in history)
    assert 1 <= history[1]["least_clusters"] <= history[1]["clusters"] <= 4


def test_drawing_attention_maps(quick):
    picture = quick[0] / "maps.png"
    options = ["--layers", 1, "--kind", "cross", "--sentence", "the number seven", "--output", picture]
    process = run_process("attention_maps", "text", quick[0] / "run", *options)
    assert process.returncode == 0 and process.stderr == "", process.stderr
    colors = imread(picture)[..., :3]
    assert (colors.max(-1) - colors.min(-1) > 0.2).mean() > 0.01  # blue, which axes and labels have not
