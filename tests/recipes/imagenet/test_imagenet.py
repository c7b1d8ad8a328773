"""The recipe of image classification from end to end, as a user runs it; training in a process of its own."""

import functools
import json

import pytest

from recipes.imagenet.__main__ import main
from tests.recipes.commands import quick_run, run_here
from tests.recipes.imagenet.image_files import jpeg, make_folder, webp
from tests.refusals import refused


@pytest.fixture
def recipe(capsys):
    return functools.partial(run_here, main, capsys)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return quick_run("imagenet", tmp_path_factory)


def test_the_console_is_quiet(quick):
    assert quick[1].stderr == ""


def test_a_run_leaves_scores_and_models(quick):
    folder, process = quick
    history = json.loads((folder / "run" / "history.json").read_text())
    assert len(history) == 2 and history[1]["loss"] < history[0]["loss"]
    assert history[0]["images_per_second"] > 0 and {"val_accuracy", "val_top5_accuracy"} <= set(history[0])
    scores = json.loads((folder / "run" / "results" / "validation" / "scores.json").read_text())
    assert scores["accuracy"] == pytest.approx(history[1]["val_accuracy"], abs=0.01) and scores["examples"] == 297
    assert scores["accuracy"] > 0.5
    confusion = (folder / "run" / "results" / "validation" / "confusion.txt").read_text().splitlines()[1:]
    counts = [[int(count) for count in line.split()[1:]] for line in confusion]
    assert sum(map(sum, counts)) == 297
    assert sum(row[place] for place, row in enumerate(counts)) / 297 == pytest.approx(scores["accuracy"])
    assert (folder / "run" / "classes.txt").read_text().split() == list("0123456789")
    assert list((folder / "run" / "tensorboard").rglob("events*"))
    for name in ("exported", "exported_tensors"):
        assert (folder / name / "1" / "saved_model.pb").exists()
    assert "Evaluating on 297 images: 297 in " in process.stdout  # and not the number of batches
    assert "Graphs made for training steps: 1\n" in process.stdout and process.stdout.count(", labelled ") == 5
    assert process.stdout.endswith(f"\nNext: python -m recipes.imagenet classify {folder / 'run'} FILE\n")


def test_the_same_command_has_nothing_left_to_train(quick, recipe):
    before = (quick[0] / "run" / "history.json").read_text()
    printed = recipe("--quick", "--run", quick[0] / "run", "--export", "none")
    assert "no epoch left" in printed
    assert (quick[0] / "run" / "history.json").read_text() == before
    assert "seed: the folder has 0, you gave 4" in recipe("--quick", "--run", quick[0] / "run", "--seed", 4)


def test_evaluating_other_images_and_naming_damaged_ones(quick, recipe, tmp_path):
    folder = make_folder(tmp_path / "mine", classes=["3", "7"], each=2)
    (folder / "7" / "02.png").write_bytes(jpeg(2)[:50])
    assert "may have been trained on these images" in recipe("evaluate", quick[0] / "run", "--validation", "0.5")
    printed = recipe("evaluate", quick[0] / "run", "--images", tmp_path, "--validation", "mine")
    results = quick[0] / "run" / "results" / "mine"
    assert json.loads((results / "scores.json").read_text())["examples"] == 3
    assert "1 damaged images or files are skipped" in printed
    assert (results / "damaged.txt").read_text().startswith(str(folder / "7" / "02.png"))


def test_classifying_files(quick, tmp_path, capsys):
    good, bad = tmp_path / "good.jpg", tmp_path / "bad.jpg"
    good.write_bytes(jpeg(3))
    bad.write_text("no image")
    with refused("images", "1 of 2 others", SystemExit):
        main(["classify", *map(str, (quick[0] / "run", bad, good)), "--top", "2"])
    lines = dict(line.split("\t", 1) for line in capsys.readouterr().out.splitlines())
    assert lines[str(bad)] == "not an image that can be read"
    (first, one), (second, other) = (text.split() for text in lines[str(good)].split("\t"))
    assert first != second and float(one) >= float(other)


def test_classifying_a_folder(quick, tmp_path, capsys):
    (tmp_path / "b" / "c").mkdir(parents=True)
    for name, data in (("b/z.png", jpeg(3)), ("b/c/a.webp", webp(4)), ("a.jpg", b"no image"), ("b/notes.tif", b"")):
        (tmp_path / name).write_bytes(data)
    with refused("images", "1 of 3 others", SystemExit):
        main(["classify", str(quick[0] / "run"), str(tmp_path)])
    printed = capsys.readouterr()
    lines = [line.split("\t") for line in printed.out.splitlines()]
    assert [name for name, _ in lines] == [str(tmp_path / name) for name in ("a.jpg", "b/c/a.webp", "b/z.png")]
    assert lines[0][1] == "not an image that can be read" and all(float(text.split()[1]) > 0 for _, text in lines[1:])
    assert printed.err == f"{tmp_path}: 1 file is not an image by its name: .tif\n"


def test_exporting_again_needs_no_data(quick, recipe):
    recipe("export", quick[0] / "run", "--export", quick[0] / "again")
    assert (quick[0] / "again" / "1").is_dir() and (quick[0] / "again_tensors" / "1").is_dir()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--config", "nonsense"], "nonsense"),
        (["--config", "numbers"], "cifar10, digits"),
        (["--config", "cifar10", "--run", "{tmp}/run"], "Give --images"),
        (["--images", "{tmp}/nothing", "--run", "{tmp}/run"], "{tmp}/nothing"),
        (
            ["--images", "{tmp}", "--run", "{tmp}/run"],
            "no folder {tmp}/validation. Give --validation, a split or a share",
        ),
        (["--images", "{tmp}", "--validation", "val", "--run", "{tmp}/run"], "Give --validation-labels"),
        (["classify", "{tmp}/nothing", "{tmp}"], "must have image files. Received: {tmp}"),
        (["--records", "a", "--run", "{tmp}/run"], "--num-classes"),
        (["evaluate", "{tmp}/nothing"], "no run"),
        (["--built-in", "--class-names", "a.txt", "--run", "{tmp}/run"], "--class-names is only for --images and"),
        (["--tfds", "x", "--class-names", "a.txt", "--run", "{tmp}/run"], "--class-names is only for --images and"),
        (["--built-in", "--train-split", "validation", "--run", "{tmp}/run"], "--train-split is not for --built-in"),
        (
            ["--augmentation", "none", "--augmentation-arguments", "jitter=1", "--run", "{tmp}/run"],
            "--augmentation none takes no --augmentation-arguments",
        ),
        (["classify", "{tmp}/nothing", "missing.jpg"], "missing.jpg"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, message, recipe, tmp_path):
    for folder in ("train/cat", "val/images"):
        (tmp_path / folder).mkdir(parents=True)
    reported = recipe(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    message = message.replace("{tmp}", str(tmp_path))
    assert message in reported and reported.startswith("error: ") and "\n" not in reported
