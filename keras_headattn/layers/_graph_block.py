from typing import Any

import keras
from keras import initializers, layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus
from keras_headattn._saved_quantization import SavedQuantization
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_index, check_number, check_positive, check_probability
from keras_headattn.layers._attention_inputs import check_residual
from keras_headattn.layers._norms import apply_norm
from keras_headattn.layers._rematerialized import Rematerialized
from keras_headattn.layers._template import Template
from keras_headattn.ops._dense import sizes


@register_keras_serializable(package="keras_headattn")
class GraphBlock(Rematerialized, SavedQuantization):
    """Block of the graph Transformer: attention of vertices to their neighbours, and a feed-forward layer.

    With one layer normalisation LN, used twice,

        t = LN(v + attention(v)),    v' = LN(t + W_2 PReLU(W_1 t + b_1) + b_2)

    PReLU has a slope for each unit, initially 0.25.

    Source: Koncel-Kedziorski et al. 2019, "Text generation from knowledge graphs with graph transformers", section 4.3,
    and its public code, which shares the layer normalisation.

    Args:
        attention: layer to copy, such as `GraphAttention(4, 125)`, with outputs as wide as the vertices.
        intermediate_dim: width of the feed-forward layer.
        dropout, seed: rate and seed of the dropout after W_2. (`attention` sets its own rate.)
        epsilon: of the layer normalisation.
        depth: number of blocks below this one.

    Call arguments:
        vertices: `(B, N, D)`, also the shape of the result.
        adjacency: boolean `(B, N, N)`, True where the row's vertex attends to the column's.

    >>> from keras_headattn.layers import GraphAttention
    >>> vertices, adjacency = keras.random.normal((1, 3, 16)), np.eye(3, dtype=bool)[None]
    >>> tuple(GraphBlock(GraphAttention(4, 4), 32)(vertices, adjacency).shape)
    (1, 3, 16)
    """

    compute_output_spec = keras.Operation.compute_output_spec

    def compute_output_shape(self, vertices_shape: Shape, adjacency_shape: Shape | None = None) -> Shape:
        return tuple(vertices_shape)

    def __init__(
        self,
        attention: keras.layers.Layer,
        intermediate_dim: int,
        dropout: float = 0.1,
        epsilon: float = 1e-5,
        depth: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.template = Template.of_attention("attention", attention)
        self.intermediate_dim = check_positive("intermediate_dim", intermediate_dim)
        self.dropout = check_probability("dropout", dropout)
        self.epsilon = check_number("epsilon", epsilon, least=0)
        self.depth = None if depth is None else check_index("depth", depth)
        self.seed = check_seed("seed", seed)

    def build(self, vertices_shape: Shape, adjacency_shape: Shape | None = None) -> None:
        width, common = vertices_shape[-1], {"dtype": self.dtype_policy}
        seed = {} if self.seed is None else {"seed": self.seed}
        self.attention = self.template.make(
            {"role": "encoder", "depth": self.depth}, name="attention", **seed, **common
        )
        check_residual("attention", self.attention, vertices_shape)
        self.attention.build(vertices_shape, vertices_shape)
        self.norm = layers.LayerNormalization(epsilon=self.epsilon, name="norm", **common)
        self.norm.build(vertices_shape)
        self.inner = layers.Dense(self.intermediate_dim, name="inner", **common)
        self.inner.build((None, width))
        self.activation = layers.PReLU(initializers.Constant(0.25), name="activation", **common)
        self.activation.build((None, self.intermediate_dim))
        self.outer = layers.Dense(width, name="outer", **common)
        self.outer.build((None, self.intermediate_dim))
        self.dropout_layer = layers.Dropout(self.dropout, seed=seed_plus(self.seed, 1), **common)

    def call(self, vertices: Tensor, adjacency: Tensor, training: bool | None = None) -> Tensor:
        attended = self.attention(vertices, vertices, attention_mask=adjacency, training=training)
        x = apply_norm(self.norm, vertices + attended)
        rows = ops.reshape(x, (-1, x.shape[-1]))  # as a product of two matrices
        y = ops.reshape(self.outer(self.activation(self.inner(rows))), sizes(x))
        return apply_norm(self.norm, x + self.dropout_layer(y, training=training))

    def get_config(self) -> dict[str, Any]:
        config = arguments_of(self, GraphBlock, "attention")
        return {**super().get_config(), **config, "attention": self.template.serialize()}
