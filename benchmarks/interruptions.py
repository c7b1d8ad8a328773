"""Effect of interruptions on a run of `fit`, with Keras's `BackupAndRestore` and with `Resume`.

    python -m benchmarks.interruptions [--kills 20]

A small model trains in its own processes. After each fault the run is started again until it ends; then weights,
optimizer state and history are compared with those of an undisturbed run.
"""

import argparse
import contextlib
import dataclasses
import multiprocessing
import os
import pathlib
import random
import resource
import signal
import tempfile
import time

import numpy as np

from benchmarks import timing

ROWS, BATCH_SIZE, EPOCHS, SAVE_STEPS = 200, 10, 3, 7
STEPS = EPOCHS * ROWS // BATCH_SIZE
SECONDS_A_STEP = 0.02  # so that kills fall between steps as well as into them
CONTEXT = multiprocessing.get_context("forkserver")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a run: weight updates made twice or not at all, and True if all is as in the undisturbed run."""

    repeated: int
    identical: bool
    text: str = ""

    def __str__(self):
        identical = "yes" if self.identical else "no"
        return self.text or f"{self.repeated:+d} updates, bit-identical: {identical}"


def train(keeper, folder, file_limit=None):
    """Runs one process: `fit` with the callback `keeper`; the final state is written to `folder`."""
    import keras

    from keras_headattn.training import Resume

    if file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    checkpoints = folder / "checkpoints"
    callback = {
        "BackupAndRestore": lambda: keras.callbacks.BackupAndRestore(checkpoints, save_freq=SAVE_STEPS),
        "Resume": lambda: Resume(checkpoints, every=SAVE_STEPS),
    }[keeper]()
    keras.utils.set_random_seed(0)
    inputs = keras.Input((8,))
    hidden = keras.layers.Dropout(0.3, seed=1)(keras.layers.Dense(16, "relu")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.BatchNormalization()(hidden)))
    model.compile(keras.optimizers.Adam(0.01, use_ema=True), "mse", metrics=["mae"])
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(ROWS, 8)), rng.normal(size=(ROWS, 1))
    slow = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: _step(folder))
    options = dict(batch_size=BATCH_SIZE, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[callback, slow])
    history = model.fit(x, y, **options).history
    arrays = [*model.get_weights(), *(variable.numpy() for variable in model.optimizer.variables)]
    np.savez(folder / "end.npz", *arrays, **history, iterations=model.optimizer.iterations.numpy())


def _step(folder):
    with open(folder / "steps", "ab") as file:
        file.write(b".")
    time.sleep(SECONDS_A_STEP)


def start(keeper, folder, steps, **options):
    """Starts a process that trains, and waits until it has made this many steps, or ended."""
    done = folder / "steps"
    done.write_bytes(b"")
    process = CONTEXT.Process(target=_quietly, args=(keeper, folder), kwargs=options)
    process.start()
    while process.is_alive() and done.stat().st_size < steps:
        time.sleep(SECONDS_A_STEP)
    return process


def finish(keeper, folder, **options):
    """Starts a process that trains, and waits for its end."""
    start(keeper, folder, 0, **options).join()


def stop(keeper, folder, steps, signal_number=signal.SIGKILL):
    """Starts a process that trains, signals it after this many steps, and returns its exit code."""
    process = start(keeper, folder, steps)
    with contextlib.suppress(ProcessLookupError):  # it had ended
        os.kill(process.pid, signal_number)
    process.join()
    return process.exitcode


def _quietly(keeper, folder, **options):
    with open(folder / "log.txt", "a", encoding="utf-8") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        train(keeper, folder, **options)


def uninterrupted(keeper, folder):
    folder.mkdir()
    finish(keeper, folder)
    return np.load(folder / "end.npz")


def compare(folder, expected):
    if not (folder / "end.npz").exists():
        error = (folder / "log.txt").read_text().strip().splitlines()[-1]
        return Outcome(0, False, f"cannot go on: {error.split(':')[0]}")
    actual = np.load(folder / "end.npz")
    same = actual.files == expected.files and all(np.array_equal(actual[name], expected[name]) for name in actual.files)
    return Outcome(int(actual["iterations"]) - STEPS, same)


def kills(keeper, folder, expected, times, signal_number=signal.SIGKILL, seed=0):
    """Sends signals at random moments, each to its own process, then lets one process end."""
    folder.mkdir()
    moments = random.Random(seed)
    for _ in range(times):
        stop(keeper, folder, moments.randint(1, 2 * SAVE_STEPS), signal_number)
    finish(keeper, folder)
    return compare(folder, expected)


def damage(keeper, folder, expected, change):
    """Kills a process, and changes its newest file of weights by `change`, bytes to bytes, before the restart."""
    folder.mkdir()
    stop(keeper, folder, 2 * SAVE_STEPS + 3)
    newest = max(path for pattern in ("*.npz", "*.h5") for path in (folder / "checkpoints").glob(pattern))
    newest.write_bytes(change(newest.read_bytes()))
    finish(keeper, folder)
    return compare(folder, expected)


def full_disk(keeper, folder, expected):
    """Runs a process that can save, one that cannot, and one that can."""
    folder.mkdir()
    stop(keeper, folder, 2 * SAVE_STEPS + 3)
    finish(keeper, folder, file_limit=10_000)
    finish(keeper, folder)
    return compare(folder, expected)


def faults(times):
    """Returns the faults by name: functions of keeper, folder and the undisturbed result."""
    return {
        f"SIGKILL, {times} times": lambda *run: kills(*run, times),
        f"SIGTERM, {times} times": lambda *run: kills(*run, times, signal.SIGTERM),
        "the newest file cut in half": lambda *run: damage(*run, lambda data: data[: len(data) // 2]),
        "a byte of it changed": lambda *run: damage(*run, _flip),
        "a full disk": full_disk,
    }


def _flip(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="[20]")
    times = parser.parse_args().kills
    timing.limit_threads(1)
    CONTEXT.set_forkserver_preload(["tensorflow", "keras"])  # which take longest to import
    keepers = ("BackupAndRestore", "Resume")
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        expected = {keeper: uninterrupted(keeper, root / keeper) for keeper in keepers}
        rows = []
        for index, (fault, run) in enumerate(faults(times).items()):
            outcomes = [run(keeper, root / f"{keeper}-{index}", expected[keeper]) for keeper in keepers]
            rows.append([fault, *outcomes])
            print(*rows[-1], sep=" | ", flush=True)
    timing.report(
        "interruptions",
        "# Interruptions of `fit`",
        f"{STEPS} steps in {EPOCHS} epochs, saved after every {SAVE_STEPS}. Updates: more (+) or fewer (-) than of an "
        "uninterrupted run.",
        timing.table(["", *(f"`{keeper}`" for keeper in keepers)], rows),
        "\n".join(timing.machine("tensorflow", "keras")),
    )


if __name__ == "__main__":
    main()
