"""The checkpoints of a run."""

import math
import pathlib
import warnings

from keras_headattn.training._distribution.workers import gather, worker_index
from keras_headattn.training._resume import snapshot
from keras_headattn.training._resume.checkpoint import DamagedCheckpoint, read_checkpoint, write_checkpoint
from keras_headattn.training._resume.folder_lock import lock_folder, unlock_folder

_END = f"-batch-{0:08d}"  # suffix of checkpoints at the end of an epoch


class CheckpointFolder:
    """Folder of a run's checkpoints, one file each; workers other than the first have subfolders `worker-1` and so on.

    A checkpoint must have the same `run`, and within an epoch the same `place`: from the end of an epoch, all workers
    can continue from the first worker's. The `keep` newest are kept, and the last one from the end of an epoch.
    """

    def __init__(self, folder, keep, run, place, strategy):
        self._shared = pathlib.Path(folder)
        if self._shared.exists() and not self._shared.is_dir():
            raise NotADirectoryError(f"`folder` must be a folder for checkpoints. Received: folder={str(folder)!r}")
        self._strategy = strategy
        index = worker_index(strategy)
        self._folder = self._shared / f"worker-{index}" if index else self._shared
        self._keep = keep
        self._run, self._place = run, place

    def lock(self):
        """Locks the folder against other processes; raises a ValueError if one has it."""
        lock_folder(self._folder)

    def unlock(self):
        unlock_folder(self._folder)

    def newest(self):
        """Returns the newest checkpoint that all workers have, `None` if there are no files. Raises a ValueError if
        none fits."""
        for path in self._folder.glob(".epoch-*"):
            if path.is_file():
                path.unlink()  # left by a killed process
        last = (math.inf, math.inf)
        while True:
            checkpoint = self._newest_until(last)
            steps = gather(_step(checkpoint), self._strategy).tolist()
            last = tuple(min(steps))
            if last == tuple(max(steps)):
                return checkpoint
            if last < (0, 0):
                raise ValueError(
                    f"Only some workers find a checkpoint in {self._shared}. All must see the same folder. "
                    f"Received: epoch and batch of each worker {[[int(number) for number in step] for step in steps]}"
                )

    def _newest_until(self, last):
        paths = self._paths()
        if self._folder != self._shared:
            paths += filter(pathlib.Path.is_file, self._shared.glob(f"epoch-*{_END}.npz"))
        for path in sorted(paths, key=lambda path: path.name, reverse=True):
            try:
                state, arrays = read_checkpoint(path)
                if not isinstance(state, dict) or not {"run", "place", "epoch", "batch"} <= state.keys():
                    raise DamagedCheckpoint(f"{path} is damaged (its state is not that of a run)")
            except DamagedCheckpoint as error:
                warnings.warn(f"{error}. The checkpoint before it is used.", stacklevel=2)
                continue
            if difference := snapshot.difference(state["run"], self._run):
                raise ValueError(
                    f"The checkpoints in {path.parent} are of another run. Choose another folder, or delete them. "
                    f"Received: {difference}"
                )
            difference = snapshot.difference(state["place"], self._place)
            if state["batch"] and difference:
                warnings.warn(
                    f"{path} cannot be used within an epoch. The one before it is tried. {difference}", stacklevel=2
                )
            elif _step((state, arrays)) <= last:
                return state, arrays
        if paths:
            names = ", ".join(sorted(path.name for path in paths))
            raise ValueError(
                f"No checkpoint in {self._folder} can be used. Delete them to start over. Received: {names}"
            )
        return None

    def _paths(self):
        return sorted(filter(pathlib.Path.is_file, self._folder.glob("epoch-*.npz")), reverse=True)

    def write(self, checkpoint):
        """Writes a checkpoint `(state, arrays)`, and deletes the oldest ones and those of later steps."""
        state, arrays = checkpoint
        path = self._folder / f"epoch-{state['epoch']:05d}-batch-{state['batch']:08d}.npz"
        try:
            write_checkpoint(path, state, arrays)
            for given_up in (later for later in self._paths() if later.name > path.name):
                given_up.unlink()  # damaged or of another number of replicas
            paths = self._paths()
            # Checkpoints at the end of an epoch fit any number of replicas.
            ends = [old for old in paths if old.stem.endswith(_END)]
            for old in set(paths[self._keep :]) - set(ends[:1]):
                old.unlink()
        except OSError as error:
            newest = next(iter(self._paths()), None)
            left = f"The newest one is {newest}." if newest else "There is no other."
            raise OSError(f"The checkpoint {path} cannot be written: {error}. {left}") from error


def _step(checkpoint):
    return (-1, -1) if checkpoint is None else (checkpoint[0]["epoch"], checkpoint[0]["batch"])
