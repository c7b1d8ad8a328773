"""Recurrent decoder that attends to memories, and chooses between words and copies."""

import keras
from keras import layers, ops

from keras_headattn._identifiers import seed_plus
from keras_headattn._private import recurrence
from keras_headattn.layers import GraphAttention
from keras_headattn.ops._dense import sizes

FAR = -1e9  # logit of padding


class CopyDecoder(layers.Layer):
    """An LSTM that attends to memories in each step and feeds the contexts into the next.

    Source: Koncel-Kedziorski et al. 2019, "Text generation from knowledge graphs with graph transformers", section 4.4,
    and its public code.
    """

    def __init__(self, width, num_heads, memories, dropout=0.0, seed=None, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        common = {"dtype": self.dtype_policy}
        self.attentions = {
            name: GraphAttention(num_heads, width // num_heads, role="cross", name=f"cross_{name}", **common)
            for name in memories
        }
        self.dropouts = {
            name: layers.Dropout(dropout, seed=seed_plus(seed, index), **common) for index, name in enumerate(memories)
        }
        self.cell = layers.LSTMCell(width, name="lstm", **common)

    def build(self, *_):
        for attention in self.attentions.values():
            attention.build((None, None, self.width), (None, None, self.width))
        self.cell.build((None, (1 + len(self.attentions)) * self.width))
        self.built = True

    def project(self, memories):
        """Projects memories `(B, m, D)` once for all steps: keys and values by name."""
        return {name: self.attentions[name].project_cache(memory) for name, memory in memories.items()}

    def start(self, vertex, caches, masks, keep=None):
        """Returns the state before the first token, `(B, D)` each: the LSTM's output, its cell, each memory's context.

        No gradient flows to `vertex` `(B, D)` through the cell. By memory, `masks` are `(B, m)`, and `keep` are factors
        of attention weights `(B, h, m)`.
        """
        return [vertex, ops.stop_gradient(vertex), *self._contexts(vertex, caches, masks, keep or {})]

    def step(self, embedded, states, caches, masks, keep=None):
        """Returns the state after one more token, `embedded` `(B, D)`."""
        hidden, cell, *contexts = states
        _, (hidden, cell) = self.cell(ops.concatenate([*contexts, embedded], axis=-1), [hidden, cell])
        return [hidden, cell, *self._contexts(hidden, caches, masks, keep or {})]

    def _contexts(self, hidden, caches, masks, keep):
        """Adds to `hidden` what it attends to in each memory, `(B, D)` each."""
        attended = (
            attention.step(hidden, caches[name], masks[name], kept=keep.get(name))[0]
            for name, attention in self.attentions.items()
        )
        return [hidden + context for context in attended]

    def call(self, embedded, vertex, caches, masks, training=None):
        """Returns states and contexts of all steps side by side, `(B, m, D + D * number of memories)`."""
        first, keep, split = {}, [], lambda row: {}
        if training and any(layer.rate for layer in self.dropouts.values()):
            first, keep, split = self._draw(embedded, masks)

        def step(row, states):
            states = self.step(row[:, : self.width], states, caches, masks, split(row[:, self.width :]))
            hidden, _, *contexts = states
            return ops.concatenate([hidden, *contexts], axis=-1), states

        inputs = ops.concatenate([embedded, *keep], axis=-1) if keep else embedded
        return recurrence(step, inputs, self.start(vertex, caches, masks, first))

    def _draw(self, embedded, masks):
        """Draws the dropout of all steps before the loop.

        Returns `keep` of `start`, a list of tensors `(B, m, h * length of memory)`, and a function that splits a
        concatenated row of these into `keep` of `step`.
        """
        batch, steps, _ = ops.shape(embedded)
        drawn, lengths = {}, {}
        heads = next(iter(self.attentions.values())).num_heads
        for name, dropout in self.dropouts.items():
            lengths[name] = ops.shape(masks[name])[1]
            ones = ops.ones((batch, steps + 1, heads * lengths[name]), embedded.dtype)
            drawn[name] = dropout(ones, training=True)

        def split(row):
            parts, begin = {}, 0
            for name, length in lengths.items():
                size = heads * length
                parts[name] = ops.reshape(row[:, begin : begin + size], (-1, heads, length))
                begin = begin + size
            return parts

        first = {name: ops.reshape(x[:, 0], (-1, heads, lengths[name])) for name, x in drawn.items()}
        return first, [x[:, 1:] for x in drawn.values()], split

    def attend(self, outputs, caches, masks):
        """Calls the attentions once more for all steps, to record their intermediates."""
        for name, attention in self.attentions.items():
            attention(outputs[:, :, : self.width], cache=caches[name], key_mask=masks[name])


class CopyOutput(layers.Layer):
    """Log probabilities of words and of copies, weighed by a switch.

    With the state o and `s = sigmoid(w o + b)`, the word y has `s softmax(W_o o + b_o)_y`, and the copy of entity i
    `(1 - s) softmax((W_c o + b_c) . e)_i` (Koncel-Kedziorski et al. 2019, section 4.4, and its public code).
    """

    def __init__(self, vocabulary_size, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size

    def build(self, state_shape, entities_shape, mask_shape=None):
        common = {"dtype": self.dtype_policy}
        self.words = layers.Dense(self.vocabulary_size, name="words", **common)
        self.copies = layers.Dense(entities_shape[-1], name="copies", **common)
        self.switch = layers.Dense(1, name="switch", **common)
        for layer in (self.words, self.copies, self.switch):
            layer.build((None, state_shape[-1]))

    def project(self, entities):
        """Returns keys `W_c e` `(B, E, 3 D)` of entities, and the part `b_c . e` `(B, E)` of their logits."""
        kernel, bias = (ops.cast(x, self.compute_dtype) for x in (self.copies.kernel, self.copies.bias))
        return ops.matmul(entities, ops.transpose(kernel)), ops.matmul(entities, bias)

    def call(self, states, keys, added, mask):
        """Returns log probabilities `(B, m, V + E)` of states `(B, m, 3 D)`, float32 or wider."""
        rows = ops.reshape(states, (-1, states.shape[-1]))
        lengths = sizes(states)[:2]
        words, switch = (ops.reshape(layer(rows), (*lengths, layer.units)) for layer in (self.words, self.switch))
        scores = ops.matmul(states, ops.swapaxes(keys, 1, 2)) + added[:, None]
        dtype = keras.backend.result_type(words.dtype, "float32")
        words, scores, switch = (ops.cast(x, dtype) for x in (words, scores, switch))
        scores = ops.where(mask[:, None], scores, ops.cast(FAR, dtype))
        parts = (
            ops.log_sigmoid(switch) + ops.log_softmax(words),
            ops.log_sigmoid(-switch) + ops.log_softmax(scores),
        )
        return ops.concatenate(parts, axis=-1)
