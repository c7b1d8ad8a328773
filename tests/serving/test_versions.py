import errno
import os
import pathlib
import resource
import subprocess
import sys

import pytest
import tensorflow as tf

from keras_headattn.serving._versions import write_version


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
    with pytest.raises(OSError, match="on a disk with enough room. Received: folder=.*File too large"):
        write_version(tmp_path, lambda path: tf.saved_model.save(module, path))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Give a folder that may be written to.*Received: folder="):
        write_version(tmp_path / "file", writer("x"))

    def refuse(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(OSError, match="Give a folder that may be written to.*Read-only file system"):
        write_version(tmp_path, writer("x"))


def test_without_tensorflow():
    code = "import sys; sys.modules['tensorflow'] = None; from keras_headattn.serving import export_translator"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr.splitlines()[-1] == "ImportError: Install tensorflow: pip install tensorflow"
