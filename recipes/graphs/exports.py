"""A writer of the texts of graphs as a SavedModel: from JSON to text."""

import json

import tensorflow as tf

from keras_headattn.serving._versions import save_signatures
from keras_headattn.serving._warmup import BATCH_SIZES, batches
from keras_headattn.text import split_words
from recipes.graphs.graph_json import check, parse_graphs
from recipes.graphs.vocabulary import RELATIONS, SPECIAL


def export_describer(describer, folder, run=None, warmup_batch_sizes=BATCH_SIZES):
    """Writes a SavedModel that writes the texts of graphs, with the vocabulary inside.

    It runs wherever TensorFlow does; neither this library nor another package is needed there. Signatures:

    - `serving_default`: strings `graphs` `(B,)`, each a JSON object, to the best `texts` `(B,)`, strings, and their
      `scores` `(B,)`, float32;
    - `n_best`: the same of the whole beam, `(B, beam_size)`, best first. Where there are fewer hypotheses the rest are
      empty strings with a score of -1e9.

    An object has `"entities"`, names, and `"triples"`, lists of head, relation and tail, where an entity is its name or
    its number from 0; and it may have `"types"` and `"title"`. Without `"entities"` they are those of the triples.
    Whole numbers are the only ones, and other keys may hold strings, lists and objects alone.

    Where the vocabulary has `max_words`, both also return boolean `is_cut` `(B,)`: true where a name has more words, so
    that its end was not read. It is copied in full all the same.

    A request fails with a message if one of its objects is not such a graph: if a triple names an entity that is not
    there, an entity has no words, or there are more than `max_entities` of the describer.

    Args:
        describer: `Describer`.
        folder: str or path, where the next version is written: `folder/1`, `folder/2`, ... It appears only when
            complete, and older versions stay as they are.
        run: str, the name of what the model is of. A folder with the model of another run is refused. Default `None`:
            it has no name.
        warmup_batch_sizes: ints, batch sizes for which requests are written that a server runs before others. Default
            (1, 8); none are written for an empty tuple.

    Returns:
        `pathlib.Path` of the new version.

    Raises:
        ValueError: if the folder has the model of another run.
        OSError: if it cannot be written.

    Example:

    ```python
    path = export_describer(Describer(model, vocabulary), "saved_models/graphs")
    call = tf.saved_model.load(path).signatures["serving_default"]
    call(graphs=tf.constant(['{"triples": [["Anna Lee", "lives in", "Oslo"]]}']))["texts"]
    ```
    """
    searcher, encode = describer.searcher, GraphEncoder(describer.vocabulary, describer.max_entities)

    def n_best(graphs):
        inputs, names, cut = encode(graphs)
        found = searcher.search(inputs)
        return {"texts": encode.texts(found["tokens"], names), "scores": found["scores"]} | cut

    def best(graphs):
        found = n_best(graphs)
        return found | {name: found[name][:, 0] for name in ("texts", "scores")}

    signatures = {name: (function, [tf.TensorSpec((None,), tf.string, name="graphs")]) for name, function in
                  {"serving_default": best, "n_best": n_best}.items()}  # fmt: skip
    sample = {"entities": ["a", "a a"], "types": (describer.vocabulary.types * 2)[:2], "triples": [[0, "a", 1]]}
    requests = batches("graphs", [json.dumps(sample)], warmup_batch_sizes)
    return save_signatures(signatures, folder, [encode], run, dict.fromkeys(signatures, requests))


class GraphEncoder(tf.Module):
    """Turns JSON into the inputs of `models.GraphWriter` and its ids into texts, by TensorFlow's own operations.

    Args:
        vocabulary: `GraphVocabulary`.
        max_entities: int, most entities of a graph.
    """

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

    def __call__(self, graphs):
        """Reads JSON `(B,)`.

        Returns:
            Inputs of the model, a dictionary of int32 tensors; the names of the entities, strings `(B, E)`; and the
            output `is_cut` of a vocabulary that reads only some words of a name.
        """
        found, tables = parse_graphs(graphs), self.tables
        names, most = found["entities"], tf.reduce_max(tf.concat([found["entities"].row_lengths(), [0]], axis=0))
        message = f"A graph may have {self.max_entities} entities at most. Received: "
        with tf.control_dependencies([check(most <= self.max_entities, message, tf.strings.as_string(most))]):
            words = self._ids("entities", names.flat_values)
        cut = {}
        if self.max_words is not None:
            is_long = names.with_flat_values(words.row_lengths() > self.max_words)
            cut = {"is_cut": tf.reduce_any(is_long, axis=1)}
        words = names.with_flat_values(words[:, : self.max_words])
        relations = found["relations"].with_flat_values(tables["relations"].lookup(found["relations"].flat_values))
        relations, ends = relations.to_tensor(), found["ends"].to_tensor()
        triples = tf.stack([ends[..., 0], relations, ends[..., 1]], axis=-1)
        types = found["types"].with_flat_values(tables["types"].lookup(found["types"].flat_values))
        inputs = {"entities": words.to_tensor(), "types": types.to_tensor(), "triples": triples}
        if "title" in tables:
            inputs["title"] = self._ids("title", found["title"]).to_tensor()
        return {name: _not_empty(ids) for name, ids in inputs.items()}, _not_empty(names.to_tensor()), cut

    def _ids(self, name, strings):
        if self.split == "signs":
            words = split_words(strings)
        else:
            words = tf.strings.split(tf.strings.lower(strings, encoding="utf-8"))
        return words.with_flat_values(self.tables[name].lookup(words.flat_values))

    def texts(self, tokens, names):
        """Texts `(B, K)` of tokens `(B, K, m)`, with names `(B, E)` in the place of entities."""
        entity = tf.clip_by_value(tokens - self.size, 0, tf.shape(names)[1] - 1)
        copied = tf.gather(names, entity, batch_dims=1)
        words = tf.where(tokens < self.size, tf.gather(self.tokens, tf.minimum(tokens, self.size - 1)), copied)
        kept = tf.ragged.boolean_mask(words, tokens > SPECIAL.index("<end>"))
        return tf.strings.reduce_join(kept, axis=-1, separator=" ").to_tensor("", shape=(None, tokens.shape[1]))


def _not_empty(rows):
    """Pads every axis but the first to at least one: graphs may have no triples, and a batch no graphs."""
    return tf.pad(rows, [[0, 0], *([0, tf.maximum(0, 1 - size)] for size in tf.unstack(tf.shape(rows))[1:])])


def _table(words, first):
    """Ids of words from `first` on; 1 for others."""
    ids = tf.range(first, first + len(words), dtype=tf.int32)
    words = tf.lookup.KeyValueTensorInitializer(tf.constant(words, tf.string), ids)
    return tf.lookup.StaticHashTable(words, default_value=1)
