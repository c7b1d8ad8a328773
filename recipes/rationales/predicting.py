"""Predictions of a finished model, and the scores that its words have."""

import numpy as np
import tensorflow as tf

from keras_headattn._files import read_lines
from keras_headattn.layers import capture_intermediates
from recipes.engine.encoders import saved_tokenizer
from recipes.rationales.batches import padded_states
from recipes.rationales.states import WordStates, batches_of, portions_of
from recipes.rationales.words import WordPieces

LENGTHS = tuple(2**power for power in range(4, 16))


class Predictor:
    """Probabilities of documents, which are lists of words, with queries; and scores of their words.

    It takes a `RationaleClassifier`, `WordPieces`, and the names of the classes. A model with fewer outputs than
    classes reads the document with each choice in its query.
    """

    def __init__(self, model, pieces, classes):
        self.model, self.pieces, self.classes = model, pieces, classes
        self.choices = len(classes) // model.reader.num_outputs
        self.states = WordStates(model, mixed=True)
        spec = {"states": tf.TensorSpec((None, None, None, model.encoder.hidden_dim), tf.float32)}
        spec["mask"] = tf.TensorSpec((None, None, None), tf.bool)
        self.read = tf.function(self._read, [spec], autograph=False)
        self.classify = tf.function(self._classify, [spec], autograph=False)
        self.maps = tf.function(self._maps, [tf.TensorSpec((None, None), tf.int32)], autograph=False)

    def __call__(self, documents, queries, progress=None):
        """Probabilities `(B, C)` of lists of words; `progress` is called with the number of documents done."""
        probabilities = [None] * len(documents)
        for members, _, inputs in self._parts(documents, queries, progress):
            for index, row in zip(members, self.classify(inputs).numpy(), strict=True):
                probabilities[index] = row
        return np.stack(probabilities)

    def num_words(self, documents, queries):
        """Counts the words of documents that are read: list of ints."""
        return [min(sequence.num_words for sequence in group) for group in self._sequences(documents, queries)]

    def scores(self, documents, queries, progress=None):
        """Returns scores of words, by what the model computes: dictionary of lists of arrays `(n,)`, one a document.

        They are means over the choices, and sum to 1; those of words that were cut off are 0.

        | | |
        |---|---|
        | attention | weights of the additive attention |
        | gradient | absolute sum of mixed states times gradient, of the likeliest class's logit |
        | cls | the row of the first token in the last block's attention, mean of the heads |
        | received | what all tokens give a word in all blocks' attention, mean of heads and blocks |

        Of the last two a word has the sum over its pieces in the window where it counts, times the tokens of that
        window.
        """
        names = "attention", "gradient", "cls", "received"
        result = {name: [None] * len(documents) for name in names}
        for members, sequences, inputs in self._parts(documents, queries, progress):
            computed = [*(tensor.numpy() for tensor in self.read(inputs)), *self._of_encoder(sequences)]
            for group_index, index in enumerate(members):
                group = slice(group_index * self.choices, (group_index + 1) * self.choices)
                read = min(sequence.num_words for sequence in sequences[group])
                for name, rows in zip(names, computed, strict=True):
                    scores = np.zeros(len(documents[index]))
                    scores[:read] = np.mean([row[:read] for row in rows[group]], axis=0)
                    result[name][index] = scores / (scores.sum() or 1.0)
        return result

    def _sequences(self, documents, queries):
        self.pieces.learn([*documents, *queries])
        return [self.pieces.of_choices(*pair, self.choices) for pair in zip(documents, queries, strict=True)]

    def _parts(self, documents, queries, progress):
        """Yields places of a few documents, the sequences of all, and mixed states of their words."""
        sequences = self._sequences(documents, queries)
        done = 0
        for members in portions_of(sequences):
            part = [sequence for member in members for sequence in sequences[member]]
            states = self.states(part)
            length = next(size for size in LENGTHS if size >= max(map(len, part)))
            shape = states[0].shape[1:]
            yield members, part, padded_states(states, len(members), length, shape, self.choices, "float32")
            if progress:
                progress(done := done + len(members))

    def _logits(self, states, mask):
        logits = self.model.reader.read(states, mask, training=False)
        return tf.reshape(logits, (tf.shape(mask)[0], -1))

    def _classify(self, inputs):
        return tf.nn.softmax(self._logits(**inputs))

    def _read(self, inputs):
        """Weights of the pooling, and absolute sums of states times gradient, both `(B * C, n)`."""
        mixed, reader = inputs["states"], self.model.reader
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            with capture_intermediates() as intermediates:
                chosen = tf.reduce_max(self._logits(mixed, inputs["mask"]), axis=-1)
        gradient = tf.abs(tf.reduce_sum(mixed * tape.gradient(chosen, mixed), axis=-1))
        weights = intermediates[reader.pooling.path]["weights"]
        return weights[:, 0], tf.reshape(gradient, tf.shape(weights[:, 0]))

    def _maps(self, ids):
        with capture_intermediates() as intermediates:
            self.model.piece_states(ids)
        maps = [
            tf.reduce_mean(intermediates[block.attention.path]["weights"], axis=1)
            for block in self.model.encoder.blocks
        ]
        rows = tf.cast(ids != self.model.encoder.pad_id, maps[0].dtype)
        received = tf.einsum("bn,lbnm->bm", rows, tf.stack(maps)) / len(maps)
        return maps[-1][:, 0] * tf.reduce_sum(rows, axis=1, keepdims=True), received

    def _of_encoder(self, sequences):
        """Scores `cls` and `received` of all words of sequences: two lists of arrays."""
        windows = [window for sequence in sequences for window in sequence.windows]
        maps = [None] * len(windows)
        for members, ids in batches_of(windows, self.model.encoder.pad_id):
            for index, *rows in zip(members, *(tensor.numpy() for tensor in self.maps(ids)), strict=False):
                maps[index] = rows
        scores, begin = ([], []), 0
        for sequence in sequences:
            sequence_maps = maps[begin : begin + len(sequence.windows)]
            begin += len(sequence.windows)
            ends = _ends(sequence)
            for kind, rows in enumerate(scores):
                places = zip(sequence.window_of, sequence.offset_of, ends, strict=True)
                rows.append(np.array([sequence_maps[window][kind][start:end].sum() for window, start, end in places]))
        return scores


def load_predictor(run, config, model):
    """Returns the `Predictor` of a run, with what it learned of its training set."""
    pieces = WordPieces(saved_tokenizer(run.folder / "tokenizer.json"), config.window, config.max_windows)
    return Predictor(model, pieces, list(read_lines(run.folder / "labels.txt")))


def _ends(sequence):
    """Returns the places where the pieces of each word end in its window."""
    ends = np.empty(len(sequence), int)
    for index, (window, offset) in enumerate(zip(sequence.window_of, sequence.offset_of, strict=True)):
        last = len(sequence.windows[window]) - 1
        following = index + 1 < len(sequence) and sequence.window_of[index + 1] == window
        ends[index] = sequence.offset_of[index + 1] if following else min(last, offset + 1)
    return ends
