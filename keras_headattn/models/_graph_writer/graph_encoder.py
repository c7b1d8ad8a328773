"""Encoder of a graph, its entities' words, and a title."""

from keras import layers, ops

from keras_headattn._identifiers import seed_plus
from keras_headattn.layers import GraphBlock
from keras_headattn.models._blocks import Stack
from keras_headattn.models._sentences.encoders import BiLSTMEncoder
from keras_headattn.ops import graph_adjacency

GLOBAL, FIRST_RELATION = 2, 3  # ids of relations, after padding and unknown ones


class GraphEncoder(layers.Layer):
    """BiLSTMs over the words of entities and of the title, and graph blocks over entities and relations."""

    def __init__(
        self,
        width,
        attention,
        entity_vocabulary_size,
        num_relations,
        title_vocabulary_size,
        num_layers,
        intermediate_dim,
        num_encoder_layers,
        dropout,
        embedding_dropout,
        seed,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.width = width
        self.num_relations = num_relations
        sizes = {"entities": entity_vocabulary_size, "title": title_vocabulary_size}
        self.word_encoders = {
            name: BiLSTMEncoder(
                size,
                width,
                width // 2,
                num_encoder_layers,
                dropout=embedding_dropout,
                seed=seed_plus(seed, index),
                embeddings_initializer="glorot_normal",
                dtype=self.dtype_policy,
                name=name,
            )
            for index, (name, size) in enumerate(sizes.items())
            if size
        }
        self.relation_embedding = layers.Embedding(
            FIRST_RELATION + 2 * num_relations,
            width,
            embeddings_initializer="glorot_normal",
            dtype=self.dtype_policy,
            name="relations",
        )
        self.blocks = [
            GraphBlock(
                attention.make(),
                intermediate_dim,
                dropout,
                depth=index,
                seed=seed_plus(seed, 10 * (index + 1)),
                dtype=self.dtype_policy,
                name=f"block_{index}",
            )
            for index in range(num_layers)
        ]
        self.stack = Stack(self.blocks, carries_logits=False)

    def build(self, *_):
        for encoder in self.word_encoders.values():
            encoder.build()
        self.relation_embedding.build((None, None))
        self.stack.build((None, None, self.width))
        self.built = True

    def call(self, inputs, training=None):
        """Reads graphs: memories and masks to attend to, and entities to copy.

        `"memories"` are `"graph"` `(B, N, D)` and, with titles, `"title"` `(B, n, D)`; `"masks"` have the same names.
        The rest are `"entities"` `(B, E, D)`, `"entity_mask"` and `"types"` `(B, E)`, and the global `"vertex"`
        `(B, D)`.
        """
        words = ops.convert_to_tensor(inputs["entities"])
        entity_mask = ops.any(ops.not_equal(words, 0), axis=-1)
        entities = self._encode_entities(words, entity_mask, training)
        vertices, vertex_mask = self._encode_graph(entities, entity_mask, inputs["triples"], training)
        memories, masks = {"graph": vertices}, {"graph": vertex_mask}
        if "title" in self.word_encoders:
            title = ops.convert_to_tensor(inputs["title"])
            memories["title"] = self.word_encoders["title"](_begun(title), training=training)
            masks["title"] = ops.not_equal(title, 0)
        return {
            "memories": memories,
            "masks": masks,
            "entities": entities,
            "entity_mask": entity_mask,
            "types": ops.cast(inputs["types"], "int32"),
            "vertex": vertices[:, ops.shape(entity_mask)[1]],
        }

    def _encode_entities(self, words, mask, training):
        """Returns the last states of both directions, `(B, E, D)`; 0 for padding."""
        batch, entities, length = ops.shape(words)
        rows = _begun(ops.reshape(words, (-1, length)))
        states = self.word_encoders["entities"](rows, training=training)  # (B * E, P, D)
        half = self.width // 2
        last = ops.sum(ops.cast(ops.not_equal(rows, 0), "int32"), axis=-1, keepdims=True) - 1
        is_last = ops.equal(ops.arange(length, dtype="int32"), last)[:, :, None]
        forward = ops.sum(ops.where(is_last, states[:, :, :half], ops.zeros((), states.dtype)), axis=1)
        encoded = ops.concatenate([forward, states[:, 0, half:]], axis=-1)
        encoded = ops.reshape(encoded, (batch, entities, self.width))
        return ops.where(mask[:, :, None], encoded, ops.zeros((), encoded.dtype))

    def _encode_graph(self, entities, mask, triples, training):
        """Returns vertices `(B, N, D)`, and their mask `(B, N)`."""
        triples = ops.cast(triples, "int32")
        adjacency, vertex_mask = graph_adjacency(triples, mask)
        relations = triples[:, :, 1]
        inverses = ops.where(relations < FIRST_RELATION, relations, relations + self.num_relations)
        whole = ops.full((ops.shape(relations)[0], 1), GLOBAL, "int32")
        rows = ops.concatenate([whole, relations, inverses], axis=1)
        x = ops.concatenate([entities, self.relation_embedding(rows)], axis=1)
        return self.stack(x, adjacency, training=training), vertex_mask


def _begun(ids):
    """Puts 1 in place of a leading padding id in `(B, n)`: cuDNN's LSTM needs a token in each row."""
    first = ops.equal(ops.arange(ops.shape(ids)[1]), 0)
    return ops.where(ops.logical_and(first, ops.equal(ids, 0)), ops.ones((), ids.dtype), ids)
