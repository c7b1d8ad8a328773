from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Shape, Tensor
from keras_headattn._validation import check_boolean
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._state import CallState
from keras_headattn.ops._dense import sizes, swap_heads


@register_keras_serializable(package="keras_headattn")
class GraphAttention(Attention):
    """Attention of the vertices of a graph to their neighbours, with concatenated heads.

    Give the adjacency `(B, n, m)` of `ops.graph_adjacency` as `attention_mask`: True where vertex i attends to vertex
    j. For each head, with D the width of all heads together,

        weights = softmax over neighbours of (W_Q v_i) . (W_K v_j) / sqrt(D),    head_i = sum_j weights_ij W_V v_j

    By default there are no biases and no output projection.

    Source: Koncel-Kedziorski et al. 2019, "Text generation from knowledge graphs with graph transformers", section 4.3,
    and its public code.

    Args:
        detach_neighbours: True to stop gradients through keys and values, as in the public code: neighbours then train
            the kernels, but no layer below.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. Defaults that differ:
            `use_bias=False`, a `scale` of `(num_heads * key_dim) ** -0.5`, and outputs `num_heads * value_dim` wide.

    >>> x = keras.random.normal((1, 3, 16))
    >>> adjacency = np.array([[[True, True, False], [False, True, True], [False, False, True]]])
    >>> layer = GraphAttention(num_heads=4, key_dim=4)
    >>> tuple(layer(x, x, attention_mask=adjacency).shape), [v.path.split("/")[1] for v in layer.weights]
    ((1, 3, 16), ['query', 'key', 'value'])
    """

    head_arguments = ()  # outputs are the heads side by side

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        use_bias: bool = False,
        detach_neighbours: bool = False,
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, use_bias=use_bias, **kwargs)
        self.detach_neighbours = check_boolean("detach_neighbours", detach_neighbours)

    @property
    def scale(self) -> float:
        return (self.num_heads * self.key_dim) ** -0.5 if self._scale is None else self._scale

    def make_output_dense(self, query_shape: Shape) -> keras.layers.EinsumDense | None:
        return None if self._output_shape is None else super().make_output_dense(query_shape)

    def project_key_value(self, key: Tensor, value: Tensor, state: CallState) -> dict[str, Tensor]:
        if self.detach_neighbours:
            key, value = ops.stop_gradient(key), ops.stop_gradient(value)
        return super().project_key_value(key, value, state)

    def merge(self, heads: Tensor, state: CallState) -> Tensor:
        if self._output_shape is not None:
            return super().merge(heads, state)
        heads = swap_heads(heads)
        return ops.reshape(heads, (*sizes(heads)[:2], self.merged_heads * self.value_dim))

    def compute_output_shape(self, query_shape: Shape, *shapes: Shape | None, **named_shapes: Shape | None) -> Shape:
        width = query_shape[-1] if self._output_shape else self.merged_heads * self.value_dim
        return super().compute_output_shape((*query_shape[:-1], width), *shapes, **named_shapes)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, GraphAttention)}
