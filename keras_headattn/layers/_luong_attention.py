from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn.layers._attention import Attention, _clone


@register_keras_serializable(package="keras_headattn")
class LuongAttention(Attention):
    """Attention with one head and one of Luong's three scores.

    For a projected query `m` and a projected key `x`, both `key_dim` wide:

    - `score="dot"`: m . x, not scaled;
    - `score="general"`: m . W x, with `score_kernel` W of shape `(key_dim, key_dim)`;
    - `score="concat"`: v . tanh(W [m; x]), with `score_kernel` W of shape `(2 * key_dim, key_dim)` and
      `score_vector` v of shape `(key_dim,)`.

    Source: Luong et al. 2015, "Effective approaches to attention-based neural machine translation"; Zhang
    et al. 2022, "Interacting-head attention", eqs. 1 and 2 (which print `concat` without v).

    Args:
        key_dim: width of projected queries and keys.
        score: `"dot"`, `"general"` or `"concat"`.
        **kwargs: see `Attention`, also for call arguments, results and errors.

    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(LuongAttention(key_dim=16, score="concat")(x, x).shape)
    (2, 5, 16)
    """

    def __init__(self, key_dim, *args, score="dot", **kwargs):
        num_heads = kwargs.pop("num_heads", 1)
        if num_heads != 1:
            raise ValueError(f"LuongAttention has one head. Received: num_heads={num_heads}")
        super().__init__(1, key_dim, *args, **kwargs)
        if score not in ("dot", "general", "concat"):
            raise ValueError(f"`score` must be 'dot', 'general' or 'concat'. Received: score={score!r}")
        self.score_mode = score

    scale = 1.0  # of the query before relative positions: the scores are not scaled

    def build(self, query_shape, value_shape=None, key_shape=None, previous_map_shape=None):
        super().build(query_shape, value_shape, key_shape)
        if self.score_mode != "dot":
            rows = self.key_dim * (2 if self.score_mode == "concat" else 1)
            self.score_kernel = self._score_weight("score_kernel", (rows, self.key_dim))
        if self.score_mode == "concat":
            self.score_vector = self._score_weight("score_vector", (self.key_dim,))

    def _score_weight(self, name, shape):
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=_clone(self.kernel_initializer),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def score(self, query, key, query_positions, key_positions):
        if self.score_mode == "dot":
            return ops.matmul(query, ops.swapaxes(key, -1, -2))
        if self.score_mode == "general":
            return ops.matmul(query, ops.matmul(self.score_kernel, ops.swapaxes(key, -1, -2)))
        of_query, of_key = ops.split(ops.convert_to_tensor(self.score_kernel), 2, axis=0)
        hidden = ops.tanh(ops.matmul(query, of_query)[..., :, None, :] + ops.matmul(key, of_key)[..., None, :, :])
        return ops.sum(hidden * self.score_vector, axis=-1)

    def get_config(self):
        config = {**super().get_config(), "score": self.score_mode}
        del config["num_heads"]
        return config
