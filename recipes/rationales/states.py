"""States of words by an encoder, which are kept on the disk where the encoder is frozen."""

import hashlib
import io
import json
import pathlib

import numpy as np
import tensorflow as tf

from keras_headattn._files import read_json, write_atomically
from keras_headattn.data import pad_ids
from recipes.engine.progress import progress_bar

LENGTHS = (32, 64, 128, 256, 512)  # of windows, in a batch
WINDOWS = 8  # in a batch
TOGETHER = 32  # windows whose states are in memory


class WordStates:
    """States of the words of sequences by a `RationaleClassifier`: after each layer, or mixed as the model does."""

    def __init__(self, model, mixed=False):
        self.pad_id = model.encoder.pad_id

        def call(ids):
            states = model.piece_states(ids)
            return model.reader.mix(states) if mixed else states

        self.call = tf.function(call, [tf.TensorSpec((None, None), tf.int32)], autograph=False)

    def __call__(self, sequences):
        """Computes float32 arrays `(n, L, D)`, or `(n, D)` of mixed layers."""
        windows = [window for sequence in sequences for window in sequence.windows]
        window_states = [None] * len(windows)
        for members, ids in batches_of(windows, self.pad_id):
            for index, states in zip(members, self.call(ids).numpy(), strict=False):
                window_states[index] = states
        states, begin = [], 0
        for sequence in sequences:
            sequence_states = window_states[begin : begin + len(sequence.windows)]
            rows = zip(sequence.window_of, sequence.offset_of, strict=True)
            states.append(np.stack([sequence_states[window][offset] for window, offset in rows]))
            begin += len(sequence.windows)
        return states


def portions_of(groups):
    """Yields the places of a few groups of sequences, the longest first, that have few windows together."""
    order = sorted(range(len(groups)), key=lambda index: -max(map(len, groups[index])))
    while order:
        count = max(1, TOGETHER // sum(len(sequence.windows) for sequence in groups[order[0]]))
        yield order[:count]
        order = order[count:]


def batches_of(windows, pad_id):
    """Yields the places of a few windows of about the same length, and their ids, padded: int32 `(B, m)`."""
    order = sorted(range(len(windows)), key=lambda index: len(windows[index]))
    for begin in range(0, len(order), WINDOWS):
        members = order[begin : begin + WINDOWS]
        longest = len(windows[members[-1]])
        length = next((size for size in LENGTHS if size >= longest), longest)
        yield members, pad_ids([windows[index] for index in members], len(members), length, pad_id)


class KeptStates:
    """States of a frozen encoder after each layer, in float16, a file a sequence. What is missing is encoded.

    `made_of` are JSON values that the states depend on, besides the pieces of a sequence: a folder of others is a
    `ValueError`. `make_states` returns `WordStates`.
    """

    def __init__(self, folder, made_of, make_states):
        self.folder = pathlib.Path(folder)
        self.make_states = make_states
        path = self.folder / "made_of.json"
        known = read_json(path) if path.exists() else made_of
        different = [
            f"{name}={known.get(name)!r} (now {made_of[name]!r})"
            for name in made_of
            if known.get(name) != made_of[name]
        ]
        if different:
            raise ValueError(
                "--states has the states of another encoder: give another folder, or remove this one. "
                f"Received: {folder} with {', '.join(different)}"
            )
        write_atomically(path, json.dumps(made_of, indent=1).encode("utf-8"))

    def keep(self, sequences, quiet=False):
        """Encodes those sequences that are not there; shows a progress bar unless it is to be quiet."""
        missing = [sequence for sequence in sequences if not self._path(sequence).exists()]
        if not missing:
            return
        states, done, count = self.make_states(), 0, len(missing)
        progress = progress_bar(f"Encoding {count:,} documents, which are kept in float16", count, quiet)
        for places in portions_of([[sequence] for sequence in missing]):
            part = [missing[index] for index in places]
            for sequence, rows in zip(part, states(part), strict=True):
                file = io.BytesIO()
                np.save(file, rows.astype("float16"))
                write_atomically(self._path(sequence), file.getvalue())
            progress(done := done + len(part))

    def __getitem__(self, sequence):
        """Loads float16 `(n, L, D)`."""
        return np.load(self._path(sequence))

    def _path(self, sequence):
        parts = [*sequence.windows, sequence.window_of, sequence.offset_of]
        name = hashlib.sha256(b"|".join(np.asarray(part, "int32").tobytes() for part in parts)).hexdigest()[:32]
        return self.folder / name[:2] / f"{name}.npy"
