import errno
import os
import pathlib
import resource

import pytest
import tensorflow as tf

from keras_headattn.serving import check_export_folder
from keras_headattn.serving._versions import save_signatures, write_version
from tests.refusals import refused


def writer(text):
    def write(path):
        folder = pathlib.Path(path, "variables")
        folder.mkdir()
        (folder / "data").write_text(text)

    return write


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_versions_are_counted_up(tmp_path):
    folder = tmp_path / "models" / "a"
    assert write_version(folder, writer("first")) == folder / "1"
    assert write_version(str(folder), writer("second")) == folder / "2"
    assert contents(folder) == {"1/variables/data": "first", "2/variables/data": "second"}


def test_numbers_are_compared_as_numbers_and_other_names_ignored(tmp_path):
    for name in ("9", "10", "notes", ".new.99"):
        (tmp_path / name).mkdir()
    (tmp_path / "12").write_text("a file")
    assert write_version(tmp_path, writer("x")).name == "13"


def test_a_version_that_another_process_just_wrote_is_kept(tmp_path, monkeypatch):
    rename = os.rename

    def rename_second(source, target):
        if target.name == "1":
            writer("theirs")(target.mkdir() or target)
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_second)
    assert write_version(tmp_path, writer("ours")) == tmp_path / "2"
    assert contents(tmp_path) == {"1/variables/data": "theirs", "2/variables/data": "ours"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_midway_leaves_nothing(tmp_path, error):
    write_version(tmp_path, writer("good"))

    def fail(path):
        writer("half")(path)
        raise error

    with pytest.raises(error):
        write_version(tmp_path, fail)
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert contents(tmp_path) == {"1/variables/data": "good"}


def test_a_version_appears_only_when_all_of_it_is_on_the_disk(tmp_path, monkeypatch):
    synced, fsync, rename = set(), os.fsync, os.rename

    def remember(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def check(source, target):
        parts = [pathlib.Path(source), *pathlib.Path(source).rglob("*")]
        assert len(parts) == 3
        assert {path.stat().st_ino for path in parts} <= synced
        rename(source, target)

    monkeypatch.setattr(os, "fsync", remember)
    monkeypatch.setattr(os, "rename", check)
    version = write_version(tmp_path, writer("x"))
    assert tmp_path.stat().st_ino in synced
    assert version.stat().st_mode & 0o777 == 0o755


@pytest.fixture
def full_disk():
    """No file may grow beyond 4 kB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_saved_model_too_large_for_the_disk(tmp_path, full_disk):
    module = tf.Module()
    module.variable = tf.Variable(tf.zeros(5000))
    with refused("folder", "File too large", OSError):
        write_version(tmp_path, lambda path: tf.saved_model.save(module, path))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with refused("folder", tmp_path / "file", OSError):
        write_version(tmp_path / "file", writer("x"))

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with refused("folder", "Read-only file system", OSError):
        write_version(tmp_path, writer("x"))


def save(folder, run=None):
    """Writes the smallest of models."""
    signature = (lambda x: {"y": x}, [tf.TensorSpec((None,), tf.float32, name="x")])
    return save_signatures({"serving_default": signature}, folder, run=run)


def test_versions_are_of_one_run(tmp_path):
    save(tmp_path)  # of no name: it may be anybody's
    second = save(tmp_path, "runs/first ü")
    assert save(str(tmp_path), "runs/first ü").name == "3"
    assert (second / "assets.extra" / "run.txt").read_text(encoding="utf-8") == "runs/first ü\n"
    for other in ("runs/second", "", None):
        with refused("another run, runs/first ü", f"run={other!r}"):
            save(tmp_path, other)
        with refused("another run, runs/first ü", f"run={other!r}"):
            check_export_folder(tmp_path, other)
    check_export_folder(tmp_path, "runs/first ü")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]
    assert tf.saved_model.load(tmp_path / "3").signatures["serving_default"](x=tf.ones(2))["y"].shape == (2,)
    (tmp_path / "4").mkdir()  # of no name, by hand
    with refused("another run, runs/first ü", "run='runs/second'"):
        save(tmp_path, "runs/second")


def test_buckets_are_no_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("folder", "gs://bucket/model"):
        check_export_folder("gs://bucket/model")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_tried_before_training(tmp_path, monkeypatch):
    check_export_folder(tmp_path / "models" / "new", "runs/first")
    assert not list((tmp_path / "models" / "new").iterdir())
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with refused("folder", path, OSError):
            check_export_folder(path)
    mkdir = pathlib.Path.mkdir

    def refuse_inside(path, *args, **kwargs):
        if path.name.startswith(".new."):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        mkdir(path, *args, **kwargs)

    monkeypatch.setattr("pathlib.Path.mkdir", refuse_inside)
    with refused("folder", "Read-only file system", OSError):
        check_export_folder(str(tmp_path))
