"""Batches of documents: the states of their words, or their windows."""

import numpy as np

from keras_headattn.data import LabelledBatches


class DocumentBatches(LabelledBatches):
    """Batches of `Sequence`, as `RationaleReader` takes them with states, and `RationaleClassifier` without.

    `states` are the `KeptStates` that have them, or `None`; `pad_id` is that of pieces. An example has `choices`
    sequences, one after the other. Other arguments are those of `LabelledBatches`.
    """

    def __init__(self, sequences, labels, states=None, pad_id=0, choices=1, **kwargs):
        self.examples = [sequences[begin : begin + choices] for begin in range(0, len(sequences), choices)]
        super().__init__(
            {"words": [np.ones(max(map(len, example)), "int32") for example in self.examples]}, labels, **kwargs
        )
        self.choices = choices
        self.states = states
        self.piece_pad = pad_id
        self.sizes = {}  # most windows, and longest window, of a bucket
        for bucket, sequence in zip(np.repeat(self._bucket, choices), sequences, strict=True):
            sizes = len(sequence.windows), max(map(len, sequence.windows))
            self.sizes[bucket] = tuple(map(max, zip(sizes, self.sizes.get(bucket, (1, 1)), strict=True)))

    def make_batch(self, bucket, members):
        inputs, labels, weights = super().make_batch(bucket, members)
        length = inputs["words"].shape[1]
        chosen = [sequence for member in members for sequence in self.examples[member]]
        if self.states is None:
            inputs = self._windows(chosen, length, *self.sizes.get(bucket, (1, 1)))
        else:
            inputs = padded_states(
                [self.states[sequence] for sequence in chosen], len(weights), length, self._shape(), self.choices
            )
        return inputs, labels, weights

    def _shape(self):
        if not hasattr(self, "_of_states"):
            self._of_states = self.states[self.examples[0][0]].shape[1:]
        return self._of_states

    def _windows(self, chosen, length, windows, pieces):
        rows = self.batch_size * self.choices
        ids = np.full((rows, windows, pieces), self.piece_pad, "int32")
        places = np.full((rows, length), -1, "int32")
        places[len(chosen) :, 0] = 0  # a row needs a word
        for row, sequence in enumerate(chosen):
            for index, window in enumerate(sequence.windows):
                ids[row, index, : len(window)] = window
            places[row, : len(sequence)] = sequence.window_of * pieces + sequence.offset_of
        return {name: _by_choices(array, self.choices) for name, array in (("token_ids", ids), ("places", places))}


def padded_states(states, rows, length, shape, choices=1, dtype="float16"):
    """Pads states for `RationaleReader`, or mixed ones: `"states"` `(rows, choices, length, ...)`, and `"mask"`."""
    padded, mask = np.zeros((rows * choices, length, *shape), dtype), np.zeros((rows * choices, length), bool)
    mask[len(states) :, 0] = True  # a row needs a word
    for row, state in enumerate(states):
        padded[row, : len(state)] = state
        mask[row, : len(state)] = True
    return {"states": _by_choices(padded, choices), "mask": _by_choices(mask, choices)}


def _by_choices(array, choices):
    return array.reshape(-1, choices, *array.shape[1:])
