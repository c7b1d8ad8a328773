"""Batches of documents: the states of their words, or their windows."""

import numpy as np

from keras_headattn.data import LabelledBatches


class DocumentBatches(LabelledBatches):
    """Batches of `Sequence`, as `RationaleReader` takes them with states, and `RationaleClassifier` without.

    `states` are the `KeptStates` that have them, or `None`; `pad_id` is that of pieces, and other arguments are those
    of `LabelledBatches`.
    """

    def __init__(self, sequences, labels, states=None, pad_id=0, **kwargs):
        super().__init__({"words": [np.ones(len(each), "int32") for each in sequences]}, labels, **kwargs)
        self.sequences = sequences
        self.states = states
        self.piece_pad = pad_id
        self.sizes = {}  # most windows, and longest window, of a bucket
        for bucket, sequence in zip(self._bucket, sequences, strict=True):
            sizes = len(sequence.windows), max(map(len, sequence.windows))
            self.sizes[bucket] = tuple(map(max, zip(sizes, self.sizes.get(bucket, (1, 1)), strict=True)))

    def make_batch(self, bucket, members):
        inputs, labels, weights = super().make_batch(bucket, members)
        length = inputs["words"].shape[1]
        chosen = [self.sequences[place] for place in members]
        if self.states is None:
            inputs = self._windows(chosen, length, *self.sizes.get(bucket, (1, 1)))
        else:
            inputs = padded_states([self.states[each] for each in chosen], self.batch_size, length, self._shape())
        return inputs, labels, weights

    def _shape(self):
        if not hasattr(self, "_of_states"):
            self._of_states = self.states[self.sequences[0]].shape[1:]
        return self._of_states

    def _windows(self, chosen, length, windows, pieces):
        ids = np.full((self.batch_size, 1, windows, pieces), self.piece_pad, "int32")
        places = np.full((self.batch_size, 1, length), -1, "int32")
        places[len(chosen) :, :, 0] = 0  # a row needs a word
        for row, sequence in enumerate(chosen):
            for number, window in enumerate(sequence.windows):
                ids[row, 0, number, : len(window)] = window
            places[row, 0, : len(sequence)] = sequence.window_of * pieces + sequence.offset_of
        return {"token_ids": ids, "places": places}


def padded_states(states, rows, length, shape, dtype="float16"):
    """Pads states for `RationaleReader`, or mixed ones: `"states"` `(rows, 1, length, ...)`, and `"mask"`."""
    padded, mask = np.zeros((rows, 1, length, *shape), dtype), np.zeros((rows, 1, length), bool)
    mask[len(states) :, :, 0] = True  # a row needs a word
    for row, each in enumerate(states):
        padded[row, 0, : len(each)] = each
        mask[row, 0, : len(each)] = True
    return {"states": padded, "mask": mask}
