"""Files appear whole, with the permissions of any new file."""

import os

import pytest

from keras_headattn._files import atomic_path, write_atomically


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new" / "file.txt", b"text")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "file.txt").stat().st_mode & 0o777 == mode


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.weights.h5"
    path.write_text("old")
    with pytest.raises(ValueError), atomic_path(path) as temporary:
        assert temporary.name.startswith(".model.") and temporary.name.endswith(".weights.h5")
        temporary.write_text("half")
        raise ValueError
    assert path.read_text() == "old" and os.listdir(tmp_path) == [path.name]
