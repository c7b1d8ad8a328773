from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import AttentionLike, Tensor
from keras_headattn._validation import check_index, check_positive, check_probability
from keras_headattn.layers._intermediates import is_capturing, with_intermediates
from keras_headattn.layers._template import Template
from keras_headattn.models._graph_writer.copy_decoder import CopyDecoder, CopyOutput
from keras_headattn.models._graph_writer.graph_encoder import GraphEncoder


@register_keras_serializable(package="keras_headattn")
class GraphWriter(Model):
    """Writer of texts about graphs: a graph Transformer over entities and relations, and an LSTM that copies entities.

    The graph is made of triples, see `ops.graph_adjacency`. BiLSTMs read the words of entities and of an optional
    title. In each step the decoder attends to all vertices and to the title, and chooses between a word and an entity.
    Its outputs are log probabilities, in float32 even under mixed precision.

    Token ids of words: 0 padding, 1 unknown, 2 start, 3 end; `vocabulary_size + i` is entity i, which the decoder reads
    as the word of its type. Ids of relations: 0 padding, 1 unknown, 2 the global vertex, and from 3 those of the data;
    each has an inverse too.

    Source: Koncel-Kedziorski et al. 2019, "Text generation from knowledge graphs with graph transformers", and its
    public code, with its settings as defaults, but without its attention to padding, first context of zeros (in
    training only) and dropout in evaluation. An et al. 2020, "Repulsive attention", table 4, drive the heads of the
    graph encoder apart: `Repulsive(optimizer, roles=("encoder",))`.

    Args:
        vocabulary_size, entity_vocabulary_size: numbers of ids of words, V, and of the words of entities.
        num_relations: number of kinds of relations, without unknown ones.
        title_vocabulary_size: number of ids of the words of titles. Default `None`: no titles.
        num_layers, num_encoder_layers: numbers of graph blocks, and of stacked BiLSTMs of titles and of entities.
        hidden_dim: width of vertices, states and embeddings, D.
        intermediate_dim: width of the feed-forward layers. Defaults to `4 * hidden_dim`.
        attention: of the graph blocks: a layer, such as `GraphAttention(4, 125, detach_neighbours=True)`, which every
            block copies; or a class or a name. See `layers.get`.
        num_heads: of the decoder's attentions, and of attention given by a class or a name.
        dropout, seed: rate of dropout in graph blocks, and of the weights of these attentions; seed of all dropouts.
        embedding_dropout: rate of dropout of the embeddings of titles and entities.
        forbidden_ids: word ids that a search never writes.

    Call arguments:
        inputs: dictionary of integer tensors: `"entities"` `(B, E, P)`, the words of each entity, 0 = padding;
            `"types"` `(B, E)`, word ids; `"triples"` `(B, R, 3)`, head, relation and tail; with titles `"title"`
            `(B, n)`; and `"target"` `(B, m)`, shifted to the right.
        return_intermediates: returns `(log probabilities, out)`: a dictionary of attentions, `"block_0/attention"`,
            ..., `"cross_graph"` and `"cross_title"`, to their tensors by name, such as `"weights"` `(B, h, N, N)`, see
            `layers.capture_intermediates`. Vertices are in the order of `ops.graph_adjacency`.

    Returns:
        Log probabilities `(B, m, V + E)`. Train with them as logits of `losses.LabelSmoothedCrossentropy(0.0)`.

    >>> model = GraphWriter(50, 40, num_relations=2, num_layers=1, hidden_dim=16)
    >>> inputs = {
    ...     "entities": np.array([[[5, 6], [7, 0]]]),
    ...     "types": np.array([[8, 9]]),
    ...     "triples": np.array([[[0, 3, 1]]]),
    ...     "target": np.array([[2, 50, 11, 51]]),
    ... }
    >>> log_probabilities, out = model(inputs, return_intermediates=True)
    >>> tuple(log_probabilities.shape), tuple(out["cross_graph"]["weights"].shape)
    ((1, 4, 52), (1, 4, 4, 5))
    """

    # The state moves with its hypothesis, see `reorder_cache`.
    beams_share_rows = False

    def __init__(
        self,
        vocabulary_size: int,
        entity_vocabulary_size: int,
        num_relations: int,
        title_vocabulary_size: int | None = None,
        num_layers: int = 6,
        hidden_dim: int = 500,
        intermediate_dim: int | None = None,
        num_encoder_layers: int = 2,
        attention: AttentionLike = "graph",
        num_heads: int = 4,
        dropout: float = 0.1,
        embedding_dropout: float = 0.0,
        forbidden_ids: Sequence[int] = (0, 1, 2),
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = check_positive("vocabulary_size", vocabulary_size)
        self.entity_vocabulary_size = check_positive("entity_vocabulary_size", entity_vocabulary_size)
        self.num_relations = check_positive("num_relations", num_relations)
        self.title_vocabulary_size = (
            None if title_vocabulary_size is None else check_positive("title_vocabulary_size", title_vocabulary_size)
        )
        self.num_layers = check_positive("num_layers", num_layers)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.intermediate_dim = check_positive(
            "intermediate_dim", 4 * hidden_dim if intermediate_dim is None else intermediate_dim
        )
        self.num_encoder_layers = check_positive("num_encoder_layers", num_encoder_layers)
        self.num_heads = check_positive("num_heads", num_heads)
        if hidden_dim % 2 or hidden_dim % num_heads:
            raise ValueError(
                "`hidden_dim` must be a multiple of 2 and of `num_heads`. "
                f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
            )
        self.dropout = check_probability("dropout", dropout)
        self.embedding_dropout = check_probability("embedding_dropout", embedding_dropout)
        self.forbidden_ids = tuple(check_index("forbidden_ids", token) for token in forbidden_ids)
        self.seed = check_seed("seed", seed)
        self.template = Template.of_attention("attention", attention, num_heads, hidden_dim, dropout=dropout)
        self._make_layers()

    def _make_layers(self):
        width = self.hidden_dim
        self.encoder = GraphEncoder(
            width,
            self.template,
            self.entity_vocabulary_size,
            self.num_relations,
            self.title_vocabulary_size,
            self.num_layers,
            self.intermediate_dim,
            self.num_encoder_layers,
            self.dropout,
            self.embedding_dropout,
            self.seed,
            dtype=self.dtype_policy,
            name="encoder",
        )
        self.word_embedding = layers.Embedding(
            self.vocabulary_size,
            width,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
            dtype=self.dtype_policy,
            name="word_embedding",
        )
        seed = seed_plus(self.seed, 2)
        memories = ["graph", *["title"] * bool(self.title_vocabulary_size)]
        self.decoder = CopyDecoder(
            width, self.num_heads, memories, self.dropout, seed, dtype=self.dtype_policy, name="decoder"
        )
        self.output_layer = CopyOutput(self.vocabulary_size, dtype=self.dtype_policy, name="output")

    def build(self, input_shape: Any = None) -> None:
        width = self.hidden_dim
        self.encoder.build()
        self.word_embedding.build((None, None))
        self.decoder.build()
        self.output_layer.build((None, None, width * (1 + len(self.decoder.attentions))), (None, None, width))
        self.built = True

    def _encode(self, inputs, training):
        names = ["entities", "types", "triples", *["title"] * bool(self.title_vocabulary_size)]
        if not isinstance(inputs, dict) or not {*names} <= set(inputs):
            received = sorted(inputs) if isinstance(inputs, dict) else type(inputs)
            raise ValueError(f"`inputs` must be a dictionary of {', '.join(names)}. Received: inputs={received}")
        return self.encoder(inputs, training=training)

    def call(
        self, inputs: Mapping[str, Tensor], training: bool | None = None, return_intermediates: bool = False
    ) -> Any:
        if return_intermediates:
            parts = (*self.encoder.blocks, *self.decoder.attentions.values())
            return with_intermediates({part.name: part for part in parts}, self.call, inputs, training)
        encoded = self._encode(inputs, training)
        if "target" not in inputs:
            raise ValueError(f'`inputs` must have a "target" to score. Received: inputs={sorted(inputs)}')
        embedded = self._embed(inputs["target"], encoded["types"])
        caches, masks = self.decoder.project(encoded["memories"]), encoded["masks"]
        outputs = self.decoder(embedded, encoded["vertex"], caches, masks, training=training)
        if is_capturing():
            self.decoder.attend(outputs, caches, masks)
        return self.output_layer(outputs, *self.output_layer.project(encoded["entities"]), encoded["entity_mask"])

    def _embed(self, tokens, types):
        """Embeds words; entities as the words of their types."""
        tokens = ops.cast(tokens, "int32")
        entity = ops.clip(tokens - self.vocabulary_size, 0, ops.shape(types)[1] - 1)
        types = ops.take_along_axis(types, entity, axis=1)
        return self.word_embedding(ops.where(tokens < self.vocabulary_size, tokens, types))

    def init_cache(
        self, inputs: Mapping[str, Tensor], max_length: int | None = None, copies: int = 1
    ) -> dict[str, Any]:
        """Returns the initial state for `decode_step`, a dictionary.

        Args:
            inputs: as in a call; `"target"` is not used.
            max_length: ignored, as the state does not grow.
            copies: number of consecutive texts for each graph, which is encoded once.
        """
        if not self.built:
            self.build()
        encoded = self._encode(inputs, False)
        caches = self.decoder.project(encoded.pop("memories"))
        state = self.decoder.start(encoded.pop("vertex"), caches, encoded["masks"])
        entity_mask = encoded.pop("entity_mask")
        words = np.isin(np.arange(self.vocabulary_size), self.forbidden_ids, invert=True)
        words = ops.logical_or(ops.convert_to_tensor(words), ops.zeros_like(entity_mask[:, :1]))  # (B, V)
        same = {"memories": caches, "allowed": ops.concatenate([words, entity_mask], axis=1)}
        same["copies"] = [*self.output_layer.project(encoded.pop("entities")), entity_mask]
        cache = {"state": state, "same": {**same, **encoded}}
        return keras.tree.map_structure(lambda x: ops.repeat(x, copies, axis=0), cache) if copies > 1 else cache

    def decode_step(
        self,
        tokens: Tensor,
        cache: dict[str, Any],
        index: int | Tensor | None = None,
        positions: Tensor | None = None,
        attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes log probabilities of the tokens that follow `tokens`; -inf for what is never written.

        Args:
            tokens: `(B, n)`.
            cache: from `init_cache` or the step before.
            index, positions, attention_mask: ignored; a search passes them.

        Returns:
            `(log probabilities (B, n, V + E), cache)`. Without the forbidden ids, probabilities do not sum to 1.
        """
        state, same = cache["state"], cache["same"]
        embedded, outputs = self._embed(tokens, same["types"]), []
        for i in range(tokens.shape[1]):
            state = self.decoder.step(embedded[:, i], state, same["memories"], same["masks"])
            outputs.append(ops.concatenate([state[0], *state[2:]], axis=-1))
        log_probabilities = self.output_layer(ops.stack(outputs, axis=1), *same["copies"])
        return ops.where(same["allowed"][:, None], log_probabilities, float("-inf")), {**cache, "state": state}

    def reorder_cache(self, cache: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Returns the cache of a batch whose texts are `rows` of this one, hypotheses of the same graphs.

        Args:
            cache: from `init_cache` or `decode_step`.
            rows: integers `(B,)`.
        """
        return {**cache, "state": [ops.take(x, rows, axis=0) for x in cache["state"]]}

    def get_config(self) -> dict[str, Any]:
        config = arguments_of(self, GraphWriter, "attention")
        return {**super().get_config(), **config, "attention": self.template.serialize()}
