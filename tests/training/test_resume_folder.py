"""Which checkpoints `Resume` keeps, goes on from, and refuses."""

import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_headattn.training._resume.checkpoint import write_checkpoint
from keras_headattn.training._resume.checkpoint_folder import CheckpointFolder
from keras_headattn.training._resume.folder_lock import lock_folder, unlock_folder
from tests.refusals import refused
from tests.training.resuming import Kill, Killed, fit, simple


def test_kept_are_the_last_and_the_last_end_of_an_epoch(tmp_path):
    with pytest.raises(Killed):
        fit(simple(), tmp_path, 3, every=1, keep=2, callbacks=[Kill(11, "on_train_batch_end")])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["epoch-00001-batch-00000000.npz", *(f"epoch-00001-batch-{n:08d}.npz" for n in (3, 4))]


def test_another_number_of_replicas_goes_on_from_the_end_of_an_epoch(tmp_path):
    model = simple()
    start = model.get_weights()
    with pytest.raises(Killed):
        fit(model, tmp_path, 3, every=1, callbacks=[Kill(9, "on_train_batch_end")])
    with pytest.warns(UserWarning, match="within an epoch.*replicas: 1 there, 2 here"):
        history = fit(simple(replicas=2), tmp_path, 3, every=1, callbacks=[Kill()]).history
    model = simple()
    model.set_weights(start)
    expected = fit(model, tmp_path / "one", 3).history
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)


def test_checkpoints_that_were_given_up_do_not_outlive_new_ones(tmp_path):
    with pytest.raises(Killed):
        fit(simple(), tmp_path, 3, every=1, callbacks=[Kill(11, "on_train_batch_end")])
    with pytest.warns(UserWarning, match="within an epoch"), pytest.raises(Killed):
        fit(simple(replicas=2), tmp_path, 3, every=1, callbacks=[Kill(2, "on_train_batch_end")])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["epoch-00001-batch-00000000.npz", "epoch-00001-batch-00000001.npz"]


@pytest.mark.parametrize("changed, received", [
    ({"units": 1}, "variable 0: (4, 2) float32 there, (4, 1) float32 here"),
    ({"optimizer": "adam"}, "optimizer.class_name: SGD there, Adam here"),
    ({"optimizer": keras.optimizers.SGD(0.1, clipnorm=1.0)}, "optimizer.config.clipnorm: None there, 1.0 here"),
])  # fmt: skip
def test_checkpoints_of_another_run(tmp_path, changed, received):
    fit(simple(), tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with refused("another run", received):
        fit(simple(**changed), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


OTHER_PROCESS = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("has it", flush=True)
sys.stdin.read()
"""


def test_one_process_at_a_time(tmp_path):
    """A second one is refused and changes nothing; the lock ends with the process that has it, killed or not."""
    (tmp_path / ".epoch-of-the-other.npz").write_bytes(b"half")
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "has it\n"
        with refused("Another process", tmp_path):
            fit(simple(), tmp_path)
        assert (tmp_path / ".epoch-of-the-other.npz").exists()
        other.kill()
    fit(simple(), tmp_path)
    # After `fit` others may have the folder.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "has it\n"
        other.kill()


# Locks a folder, and ends while a child is there.
PARENT = """
import os, sys, time
from keras_headattn.training._resume.folder_lock import lock_folder
lock_folder(sys.argv[1])
child = os.fork()
if not child:
    os.close(1)
    time.sleep(600)
print(child, flush=True)
os._exit(0)
"""


def test_the_lock_is_not_inherited_by_children(tmp_path):
    """Else a process that was killed could not be started again while one of its children is there."""
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)
    try:
        lock_folder(tmp_path)
        unlock_folder(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)  # an error if it is no longer there


def test_nothing_but_damaged_checkpoints(tmp_path):
    fit(simple(), tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    with pytest.warns(UserWarning, match="is damaged"), pytest.raises(ValueError, match="No checkpoint"):
        fit(simple(), tmp_path)


def test_a_checkpoint_of_something_else(tmp_path):
    fit(simple(), tmp_path)
    for number, state in ((8, [1]), (9, {"epoch": 9})):
        write_checkpoint(tmp_path / f"epoch-{number:05d}-batch-00000000.npz", state, {})
    with pytest.warns(
        UserWarning, match="epoch-0000[89]-batch-00000000.npz is damaged .its state is not that of a run"
    ):
        fit(simple(), tmp_path)


def test_a_folder_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        fit(simple(), tmp_path / "file" / "checkpoints")


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with refused("folder", tmp_path / "file", NotADirectoryError):
        fit(simple(), tmp_path / "file")


def test_folders_named_like_checkpoints_are_left_alone(tmp_path):
    names = ["epoch-00000-batch-00000003.bak.npz", "epoch-00099-batch-00000000.npz", ".epoch-00001.npz"]
    for name in names:
        (tmp_path / name).mkdir()
    fit(simple(), tmp_path, 2, every=1)
    assert all((tmp_path / name).is_dir() for name in names)


def test_a_checkpoint_that_cannot_be_written_ends_training_before_the_next_epoch_ends(tmp_path, monkeypatch):
    """The thread that writes fails at the end of the first epoch."""

    def write(folder, checkpoint):
        if checkpoint[0]["epoch"]:
            raise OSError("full")

    ended = []
    monkeypatch.setattr(CheckpointFolder, "write", write)
    end = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ended.append(epoch))
    with pytest.raises(OSError, match="full"):
        fit(simple(), tmp_path, 3, callbacks=[end])
    assert ended == [0]
