"""What a run's folder, its checkpoints and its corpora do, without training."""

import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.data import source_lengths
from keras_headattn.models import Transformer
from recipes.engine.callbacks import (
    FiniteLoss,
    SaveEpochs,
    StopWhenStalled,
    final_epochs,
    finish,
    has_stalled,
    weights_of,
)
from recipes.engine.run import Run as RunOf
from recipes.engine.run import locked, try_folder
from recipes.engine.session import report_hidden_gpus
from recipes.translate.__main__ import RECIPE
from recipes.translate.batches import make_batches
from recipes.translate.corpora import load_corpora, load_tests
from recipes.translate.evaluation import check_metrics, named_metrics
from recipes.translate.modelling import make_transformer
from recipes.translate.settings import TranslateConfig, files_of_tests
from recipes.translate.text import make_text
from tests.recipes.commands import train
from tests.refusals import refused

CONFIG = RECIPE.named_config("numbers")
Run = functools.partial(RunOf, recipe=RECIPE)


def save_checkpoint(run, name="epoch-00000-batch-00001000.npz"):
    run.checkpoints.mkdir(parents=True, exist_ok=True)
    (run.checkpoints / name).touch()


def test_a_run_begins_with_its_first_checkpoint(tmp_path):
    run, other = Run(tmp_path / "run"), dataclasses.replace(CONFIG, seed=1)
    run.start(CONFIG)
    (run.folder / "vocabulary.model").touch()
    run.check(other)
    run.start(CONFIG)
    save_checkpoint(run, "epoch-00000-batch-00000000.npz")
    assert (run.folder / "vocabulary.model").exists()
    run.start(other)
    assert not (run.folder / "vocabulary.model").exists() and run.read_config() == other
    save_checkpoint(run)
    run.check(dataclasses.replace(other, epochs=9))
    with pytest.raises(ValueError, match="seed: the folder has 1, you gave 0"):
        run.check(CONFIG)


@pytest.mark.parametrize("change", [{"average": 3}, {"average_of": "last"}, {"max_length": 65}])
def test_what_may_not_change(tmp_path, change):
    run = Run(tmp_path)
    run.start(CONFIG)
    save_checkpoint(run)
    with pytest.raises(ValueError, match=next(iter(change))):
        run.check(dataclasses.replace(CONFIG, **change))


def test_clearing_leaves_other_files(tmp_path):
    run = Run(tmp_path)
    run.start(CONFIG)
    save_checkpoint(run)
    (tmp_path / "notes.txt").touch()
    run.clear()
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("old", [True, False])
def test_a_killed_removal_goes_on(old, tmp_path, monkeypatch):
    """Wherever it ends, the next command, of the old settings or of others, finds no run."""
    config = CONFIG if old else dataclasses.replace(CONFIG, seed=1)
    for moment in itertools.count():
        run = Run(tmp_path / str(moment))
        run.start(CONFIG, {"training": {"examples": 1, "sha256": "a"}})
        for path in ("history.json", "vocabulary.model", "model.keras", "results/test/scores.json"):
            (run.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (run.folder / path).write_text("[{}]")
        save_checkpoint(run)
        with monkeypatch.context() as patch:
            if not killed(patch, run.clear, moment):
                break
        trained = moment == 0  # nothing is done yet: another run is refused
        assert run.is_trained() == trained
        if trained:
            continue
        run.check(config)
        run.check_data({"training": {"examples": 2, "sha256": "b"}})
        run.start(config, {"training": {"examples": 2, "sha256": "b"}})
        assert sorted(path.name for path in run.folder.iterdir()) == ["config.json", "data.json"]
        assert run.read_config() == config and run.history() == []
    assert moment > 6


def killed(patch, function, moment):
    """Has a function end before its step of this number that changes files; False if it has fewer."""
    count = itertools.count()

    def before(change):
        def changed(*args, **kwargs):
            if next(count) == moment:
                raise KeyboardInterrupt
            return change(*args, **kwargs)

        return changed

    patch.setattr(os, "replace", before(os.replace))
    patch.setattr(os, "unlink", before(os.unlink))
    patch.setattr(os, "rmdir", before(os.rmdir))
    patch.setattr(pathlib.Path, "unlink", before(pathlib.Path.unlink))
    try:
        function()
    except KeyboardInterrupt:
        return True
    return False


def test_learned_files_of_other_data_are_removed(tmp_path):
    """Of a run that was killed before its first checkpoint."""
    run = Run(tmp_path / "run")
    for data in ("a", "b"):
        run.start(CONFIG, {"training": {"examples": 1, "sha256": data}})
        assert not (run.folder / "vocabulary.model").exists()
        (run.folder / "vocabulary.model").touch()


def test_kept_files(tmp_path):
    run = Run(tmp_path)
    for content in ("a\n", "b\n", "b\n"):
        run.keep("labels.txt", content)
        assert (tmp_path / "labels.txt").read_text() == content
    (tmp_path / "config.json").touch()
    run.model.touch()
    run.keep("labels.txt", "b\n")
    with refused("another labels.txt", tmp_path / "labels.txt"):
        run.keep("labels.txt", "a\n")


def test_one_process_trains_in_a_folder(tmp_path):
    with locked(tmp_path, "taken"), refused("Another process", tmp_path):
        train(RECIPE, dataclasses.replace(CONFIG, run=str(tmp_path)), afresh=True)


def test_the_optimizer_is_tried_before_data_are_read(tmp_path):
    config = CONFIG.changed({"repulsive": "svgd", "repulsive_arguments": {"roles": []}, "run": str(tmp_path / "run")})
    with refused("--repulsive-arguments: `roles`", ()):
        train(RECIPE, config)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("found", [None, "/usr/bin/nvidia-smi"])
def test_hidden_gpus(monkeypatch, capsys, found):
    monkeypatch.setattr(shutil, "which", lambda name: found)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    report_hidden_gpus()
    assert ("[recipes,gpu]" in capsys.readouterr().out) == bool(found)


def save(run, losses, patience=None, **settings):
    """Epochs with these validation losses; returns the model, whose training may have been stopped."""
    run.checkpoints.mkdir(exist_ok=True)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.stop_training = False
    for callback in (SaveEpochs(run, model, **settings), StopWhenStalled(run, patience)):
        callback.set_model(model)
        for epoch, loss in enumerate(losses):
            callback.on_epoch_end(epoch, {"val_loss": loss})
    return model


@pytest.mark.parametrize("name, place", [("loss", "step 2 of epoch 1"), ("val_loss", "epoch 1")])
def test_a_loss_that_is_not_finite_ends_training(name, place, tmp_path):
    """Nothing of that epoch is kept."""
    run = Run(tmp_path)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    x, right, wrong = np.ones((4, 1)), np.ones((4, 1)), np.array([[1], [1], [np.inf], [1]])
    train, validation = (wrong, right) if name == "loss" else (right, wrong)
    callbacks = [FiniteLoss(run), SaveEpochs(run, model)]
    with refused(place, f"{name}=inf"):
        model.fit(x, train, 2, verbose=0, shuffle=False, callbacks=callbacks, validation_data=(x, validation))
    assert run.history() == [] and not run.checkpoints.exists()


def test_weights_kept(tmp_path):
    run = Run(tmp_path)
    save_checkpoint(run)
    save(run, [2.0, 1.0, 3.0, 4.0], average=2, average_of="last")
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [
        "epoch-00000-batch-00001000.npz",
        "epoch-002.weights.h5",
        "epoch-003.weights.h5",
        "epoch-004.weights.h5",
    ]
    assert run.history() == [{"val_loss": loss} for loss in (2.0, 1.0, 3.0, 4.0)]


def test_an_epoch_done_again_may_end_otherwise(tmp_path):
    """On GPUs, or other numbers of replicas: the weights that were the best before it are needed again."""
    run = Run(tmp_path)
    model = save(run, [2.0, 1.0])
    SaveEpochs(run, model).on_epoch_end(1, {"val_loss": 3.0})
    assert final_epochs(run.history()) == [1] and weights_of(run, 1).exists()


def test_final_weights(tmp_path):
    run = Run(tmp_path)
    save(run, [2.0, 1.0, 3.0, 1.5, 4.0], average=2, average_of="best")
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["epoch-002.weights.h5", "epoch-004.weights.h5"]
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    values = []
    for epoch in (2, 4):
        model.load_weights(weights_of(run, epoch))
        values.append(model.get_weights()[0] + epoch)
        model.set_weights([values[-1], np.zeros(1)])
        model.save_weights(weights_of(run, epoch))
    finish(run, model, [2, 4])
    np.testing.assert_allclose(model.get_weights()[0], sum(values) / 2, rtol=1e-6)
    assert run.model.exists()


@pytest.mark.parametrize(
    "average, average_of, epochs",
    [(1, "last", [4]), (1, "best", [2]), (2, "last", [3, 4]), (2, "best", [1, 2]), (9, "best", [1, 2, 3, 4])],
)
def test_epochs_of_the_final_weights(average, average_of, epochs):
    history = [{"val_loss": loss} for loss in (2.0, 1.0, 3.0, 4.0)]
    assert final_epochs(history, average=average, average_of=average_of) == epochs


def test_patience_counts_all_epochs_of_the_run(tmp_path):
    run = Run(tmp_path)
    assert not save(run, [1.0, 2.0, 2.0], patience=3).stop_training
    assert save(run, [1.0, 2.0, 2.0, 2.0], patience=3).stop_training
    history = run.history()
    assert has_stalled(history, 3) and not has_stalled(history, 4) and not has_stalled(history, None)
    assert not has_stalled([], 1)


def write_pair(folder, name, lines=("a b", "c d", "e")):
    folder.mkdir(exist_ok=True)
    files = [folder / f"{name}.en", folder / f"{name}.de"]
    for file in files:
        file.write_text("".join(f"{line}\n" for line in lines))
    return tuple(map(str, files))


def test_corpora_of_files(tmp_path):
    files = write_pair(tmp_path, "train")
    config = TranslateConfig(train=files, validation=files, test=write_pair(tmp_path, "test"), max_sentences=2)
    corpora = load_corpora(config)
    assert len(corpora.train) == len(corpora.validation) == len(corpora.tests["test"]) == 2
    assert load_tests(dataclasses.replace(config, test=())) == {}


@pytest.fixture
def text():
    """In place of a `Text`: a token a word, and the end symbol."""
    ids = lambda sentences: [np.ones(len(sentence.split()) + 1, "int32") for sentence in sentences]  # noqa: E731
    return types.SimpleNamespace(encode_source=ids, encode_target=ids, target=types.SimpleNamespace(bos_id=2))


def test_validation_pairs_longer_than_those_of_training(tmp_path, text, capsys):
    files, longer = write_pair(tmp_path, "train", ["a b c"]), write_pair(tmp_path, "val", ["a", "a b c d e", "a " * 9])
    config = TranslateConfig(train=files, validation=longer, max_length=8)
    train, validation = make_batches(config, load_corpora(config), text)
    assert train.bucket_lengths == (4,) and validation.bucket_lengths == (4, 6) and validation.num_dropped == 1
    assert "1 of 3 validation pairs left out" in capsys.readouterr().out
    only_longer = dataclasses.replace(config, validation=write_pair(tmp_path, "val", ["a b c d e"]))
    assert make_batches(only_longer, load_corpora(config), text)[1].bucket_lengths == (4, 6)
    assert "left out" not in capsys.readouterr().out


def test_batches_of_pairs_that_are_all_too_long(tmp_path, text):
    files = write_pair(tmp_path, "train", ["a b c"])
    config = TranslateConfig(train=files, validation=files, max_length=3)
    with refused("--max-length", 3):
        make_batches(config, load_corpora(config), text)
    train, validation = make_batches(dataclasses.replace(config, max_length=4), load_corpora(config), text)
    assert train.bucket_lengths == validation.bucket_lengths == (4,)


def test_test_sets_of_one_name(tmp_path):
    files = (*write_pair(tmp_path / "x", "test"), *write_pair(tmp_path / "y", "test"))
    with refused("names", f"{files[0]} and {files[2]}"):
        files_of_tests(files)
    with refused("--test", files[0]):
        files_of_tests(files[:3])


def test_learned_positions_reach_as_far_as_sources(tmp_path):
    config = dataclasses.replace(CONFIG, model_arguments=dict(positions="learned", num_layers=1), max_length=20)
    model = make_transformer(config, 30, 30)
    assert isinstance(model, Transformer) and model.max_length == source_lengths(20)[-1] == 64
    longest = np.ones((1, source_lengths(20)[-1]), "int32")
    model({"source": longest, "target": longest})


def test_a_missing_vocabulary_is_named(tmp_path):
    with refused("no vocabulary.model", "sentences=None"):
        make_text(CONFIG, None, tmp_path)
    with refused("no moses.source.json", "sentences=None"):
        make_text(dataclasses.replace(CONFIG, moses=True), None, tmp_path)


def test_metrics_are_tried_before_training(tmp_path, monkeypatch):
    check_metrics(["bleu", "exact_match"], "de")
    with refused("word vectors", "no.vec", FileNotFoundError):
        check_metrics(["yisi"], "de", str(tmp_path / "no.vec"))
    monkeypatch.setitem(sys.modules, "jiwer", None)
    with pytest.raises(ImportError, match="jiwer"):
        check_metrics(["wer"], "de")


@pytest.mark.parametrize("language, sentence, tokenize", [
    ("zh", "我有两只黑色的猫", "zh"),
    ("ja", "私は黒い猫を飼っている", "char"),
    ("de", "Ich habe zwei schwarze Katzen", "13a"),
])  # fmt: skip
def test_words_of_bleu(language, sentence, tokenize):
    (bleu,) = named_metrics(["bleu"], language)
    score = bleu([sentence[:-2]], [sentence])
    assert 0 < score.value < 100 and f"|tok:{tokenize}|" in score.signature


def test_lower_case(tmp_path):
    files = write_pair(tmp_path, "train", ["Ein Haus", "Der BAUM", "im Haus"])
    config = TranslateConfig(train=files, validation=files, lowercase=True, vocabulary_size=20)
    text = make_text(config, load_corpora(config).train, tmp_path)
    assert text.references(["Der BAUM"]) == ["der baum"]
    assert text.decode(text.target(["Der BAUM"])) == ["der baum"]


def test_a_finished_run_without_checkpoints_is_kept(tmp_path):
    run = Run(tmp_path / "run")
    run.start(CONFIG)
    run.model.touch()
    with pytest.raises(ValueError, match="seed: the folder has 0, you gave 1"):
        run.check(dataclasses.replace(CONFIG, seed=1))


def test_an_empty_set_is_an_error(tmp_path):
    files, empty = write_pair(tmp_path, "train"), write_pair(tmp_path, "val", [])
    with refused("empty", tmp_path / "val"):
        load_corpora(TranslateConfig(train=files, validation=empty))


def test_folders_are_tried(tmp_path):
    try_folder("--export", tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").touch()
    with refused("--export", tmp_path / "file" / "x", OSError):
        try_folder("--export", tmp_path / "file" / "x")


@pytest.mark.parametrize("name, value, received", [
    ("num_decoder_layers", 0, "num_decoder_layers=0"), ("hidden_dim", 30, "num_heads=4 for a width of 30"),
])  # fmt: skip
def test_the_model_is_tried_before_data_are_read(name, value, received, tmp_path):
    config = CONFIG.changed({"model_arguments": {name: value}, "run": str(tmp_path / "run")})
    with refused("--model-arguments", received):
        train(RECIPE, config)
    assert not (tmp_path / "run").exists()


def test_a_start_that_fails_leaves_what_was_there(tmp_path):
    run = Run(tmp_path / "run")
    run.start(CONFIG)
    run.model.write_text("finished")
    (run.folder / "notes.txt").touch()  # no file of the run
    before = {path.name for path in run.folder.iterdir()}
    again, folder = Run(tmp_path / "run"), tmp_path / "saved"
    with pytest.raises(KeyboardInterrupt), again.starting([folder]):
        folder.mkdir()
        again.set_aside()
        assert not again.is_trained()
        again.start(CONFIG)
        again.keep("classes.txt", "a")
        raise KeyboardInterrupt
    assert {path.name for path in run.folder.iterdir()} - {"classes.txt"} == before
    assert run.model.read_text() == "finished" and not folder.exists()
    with pytest.raises(ValueError), again.starting():
        again.set_aside()
        again.start(CONFIG)
        again.begin()
        raise ValueError
    assert not run.model.exists() and not list(run.folder.glob(".earlier*"))


def test_a_first_start_that_fails_leaves_no_run(tmp_path):
    run = Run(tmp_path / "run")
    for error in (ValueError, AttributeError):
        with pytest.raises(error), locked(run.folder, "busy", is_new=True), run.starting():
            run.start(CONFIG, {"training": {"examples": 1}})
            raise error
        assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError), run.starting():  # once the disk has room, the same command goes on
        run.folder.mkdir()
        run.start(CONFIG)
        raise OSError
    assert (run.folder / "config.json").exists()
    run.clear()
    (run.folder / "records").mkdir()  # the work of hours
    with pytest.raises(ValueError), run.starting():
        run.start(CONFIG)
        raise ValueError
    assert (run.folder / "config.json").exists()


def test_halves_in_a_run_are_removed(tmp_path):
    run = Run(tmp_path)
    (run.results / "test").mkdir(parents=True)
    for path in (run.folder / ".config.0123abcd.json", run.results / "test" / ".sentences.0123abcd.tsv"):
        path.touch()
    run.remove_halves()
    assert [path for path in tmp_path.rglob(".*")] == []
