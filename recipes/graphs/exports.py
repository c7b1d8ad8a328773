"""SavedModels that write the texts of graphs."""

import numpy as np
import tensorflow as tf

from keras_headattn._tensorflow import lower
from keras_headattn.serving import save_signatures
from keras_headattn.text import split_words
from recipes.graphs.corpus import Graph, graph_tensors
from recipes.graphs.vocabulary import RELATIONS, SPECIAL

INPUTS = {
    "entities": tf.string,
    "types": tf.string,
    "heads": tf.int32,
    "relations": tf.string,
    "tails": tf.int32,
    "title": tf.string,
}


def export_graph_to_text(graph_to_text, folder, run=None, warmup_batch_sizes=(1, 8)):
    """Writes a SavedModel that writes the texts of graphs, with the vocabulary inside; returns its path.

    It runs wherever TensorFlow does; neither this library nor another package is needed there. Inputs, which
    `graph_tensors` makes of graphs:

    - `entities` and `types`, strings `(B, E)`, names and their types;
    - `heads` and `tails`, int32 `(B, T)`, indices of entities from 0, and `relations`, strings `(B, T)`, of triples;
    - `title`, strings `(B,)`, `""` for none.

    Rows of several graphs are padded at the end: `""` is no entity and no triple. Signatures:

    - `serving_default` returns the best `texts` `(B,)`, strings, and their `scores` `(B,)`, float32;
    - `n_best` the same of the whole beam, `(B, beam_size)`, best first. Where there are fewer hypotheses the rest are
      empty strings with a score of -1e9.

    Where the vocabulary has `max_words`, both also return boolean `is_cut` `(B,)`: true where a name has more words, so
    that its end was not read. It is copied in full all the same.

    A request fails with a message if one of its rows is no graph: if it has no entities or more than `max_entities`, an
    entity has no name or no type, or a triple has an entity that is not there.

    Args:
        graph_to_text: `GraphToText`.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only when
            complete, and older versions stay as they are.
        run: str, the name of what the model is of. A folder with the model of another run is refused. Default `None`:
            it has no name.
        warmup_batch_sizes: ints, batch sizes of requests that a server runs first. Default (1, 8); () for none.

    Example:

    ```python
    path = export_graph_to_text(GraphToText(model, vocabulary), "saved_models/graphs")
    write = tf.saved_model.load(path).signatures["serving_default"]
    tensors = graph_tensors([Graph(("Anna Lee", "Oslo"), ("person", "town"), ((0, "lives in", 1),))])
    write(**{name: tf.constant(values) for name, values in tensors.items()})["texts"]
    ```
    """
    vocabulary, searcher = graph_to_text.vocabulary, graph_to_text.searcher
    encode = GraphEncoder(vocabulary, graph_to_text.max_entities)

    def n_best(entities, types, heads, relations, tails, title):
        inputs, cut = encode(entities, types, heads, relations, tails, title)
        outputs = searcher.search(inputs)
        return {"texts": encode.texts(outputs["tokens"], entities), "scores": outputs["scores"]} | cut

    def best(*graphs):
        outputs = n_best(*graphs)
        return outputs | {name: outputs[name][:, 0] for name in ("texts", "scores")}

    specs = [tf.TensorSpec((None,) if name == "title" else (None, None), dtype, name) for name, dtype in INPUTS.items()]
    signatures = {"serving_default": (best, specs), "n_best": (n_best, specs)}
    sample = graph_tensors([Graph(("a", "a a"), (vocabulary.types * 2)[:2], ((0, "a", 1),))])
    requests = [
        {name: np.repeat(np.array(value, INPUTS[name].as_numpy_dtype), size, axis=0) for name, value in sample.items()}
        for size in warmup_batch_sizes
    ]
    return save_signatures(signatures, folder, [encode], run, dict.fromkeys(signatures, requests))


class GraphEncoder(tf.Module):
    """Graphs as inputs of `models.GraphWriter`, and its ids as texts, by TensorFlow's own operations."""

    def __init__(self, vocabulary, max_entities):
        super().__init__()
        self.max_entities, self.max_words = max_entities, vocabulary.max_words
        self.split = vocabulary.split
        self.size = vocabulary.vocabulary_size
        self.tokens = tf.constant(vocabulary.tokens)
        self.tables = {
            "entities": _table(vocabulary.entity_words, 2),
            "types": _table(vocabulary.types, len(SPECIAL)),
            "relations": _table(vocabulary.relations, len(RELATIONS)),
        }
        if vocabulary.title_words:
            self.tables["title"] = _table(vocabulary.title_words, 2)

    def __call__(self, entities, types, heads, relations, tails, title):
        """Encodes the inputs of a signature.

        Returns the int32 inputs of the model, and the output `is_cut` of a vocabulary that reads only some words of a
        name.
        """
        with tf.control_dependencies(self._checks(entities, types, heads, relations, tails, title)):
            words = self._ids("entities", tf.reshape(entities, [-1]))  # (B * E, ragged)
            ids = tf.stack([heads, self.tables["relations"].lookup(relations), tails], axis=-1)
        cut = {}
        if self.max_words is not None:
            is_long = tf.reshape(words.row_lengths() > self.max_words, tf.shape(entities))
            cut = {"is_cut": tf.reduce_any(is_long, axis=1)}
        words = words[:, : self.max_words].to_tensor()
        inputs = {
            "entities": tf.reshape(words, [*tf.unstack(tf.shape(entities)), tf.shape(words)[1]]),
            "types": tf.where(tf.equal(types, ""), 0, self.tables["types"].lookup(types)),
            "triples": tf.where(tf.equal(relations, "")[..., None], 0, ids),
        }
        if "title" in self.tables:
            inputs["title"] = self._ids("title", title).to_tensor()
        return {name: _not_empty(ids) for name, ids in inputs.items()}, cut

    def _checks(self, entities, types, heads, relations, tails, title):
        """Returns assertions that each row is a graph."""
        of_entities = tf.stack([tf.shape(entities), tf.shape(types)])
        of_triples = tf.stack([tf.shape(heads), tf.shape(relations), tf.shape(tails)])
        rows = tf.concat([of_entities[:, 0], of_triples[:, 0], [tf.size(title)]], axis=0)
        shapes = [
            _check(rows == rows[0], "All inputs must have a row for each graph. Received rows", rows),
            _check(
                of_entities == of_entities[0], "An entity must have a name and a type. Received shapes", of_entities
            ),
            _check(
                of_triples == of_triples[0], "A triple must have head, relation and tail. Received shapes", of_triples
            ),
        ]
        with tf.control_dependencies(shapes):
            is_entity = tf.not_equal(tf.strings.strip(entities), "")
            ends = tf.stack([heads, tails], axis=-1)
        counts = tf.reduce_sum(tf.cast(is_entity, tf.int32), axis=1)
        are_right = (is_entity == tf.sequence_mask(counts, of_entities[0, 1])) & (is_entity == tf.not_equal(types, ""))
        named = tf.boolean_mask(tf.stack([entities, types], axis=-1), ~are_right)
        is_there = tf.equal(relations, "")[..., None] | ((ends >= 0) & (ends < counts[:, None, None]))
        most = f"A graph may have {self.max_entities} entities at most. Received"
        return [
            _check(counts > 0, "A graph must have entities. Received numbers", counts),
            _check(are_right, "An entity must have a name and a type, and padding must be last. Received", named),
            _check(counts <= self.max_entities, most, counts),
            _check(
                is_there,
                "A triple has an entity that is not there, counted from 0. Received",
                tf.boolean_mask(ends, ~is_there),
            ),
        ]

    def _ids(self, name, strings):
        if self.split == "signs":
            words = split_words(strings)
        else:
            words = tf.strings.split(lower(strings))
        return words.with_flat_values(self.tables[name].lookup(words.flat_values))

    def texts(self, tokens, names):
        """Texts `(B, K)` of tokens `(B, K, m)`, with names `(B, E)` in the place of entities."""
        entity = tf.clip_by_value(tokens - self.size, 0, tf.shape(names)[1] - 1)
        copied = tf.gather(names, entity, batch_dims=1)
        words = tf.where(tokens < self.size, tf.gather(self.tokens, tf.minimum(tokens, self.size - 1)), copied)
        kept = tf.ragged.boolean_mask(words, tokens > SPECIAL.index("<end>"))
        return tf.strings.reduce_join(kept, axis=-1, separator=" ").to_tensor("", shape=(None, tokens.shape[1]))


def _check(are_right, message, values):
    """Asserts with a message that ends with the first values of a tensor."""
    shown = tf.strings.regex_replace(tf.strings.format("{}", values, summarize=3), "\n", ",")
    return tf.debugging.Assert(tf.reduce_all(are_right), [tf.strings.join([message, ": ", shown])])


def _not_empty(rows):
    """Pads every axis but the first to at least one: graphs may have no triples, and a batch no graphs."""
    return tf.pad(rows, [[0, 0], *([0, tf.maximum(0, 1 - size)] for size in tf.unstack(tf.shape(rows))[1:])])


def _table(words, first):
    """Returns the ids of words from `first` on; 1 for others."""
    ids = tf.range(first, first + len(words), dtype=tf.int32)
    words = tf.lookup.KeyValueTensorInitializer(tf.constant(words, tf.string), ids)
    return tf.lookup.StaticHashTable(words, default_value=1)
