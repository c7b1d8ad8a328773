"""The caches of attention layers, for decoding step by step."""

from keras import ops

from keras_headattn.ops import write_rows


class CachedDecoding:
    """The part of `Attention` that makes caches of keys and values, and writes to them."""

    @property
    def keeps_positions(self):
        """Whether a cache says which position each of its rows has."""
        return self.sliding_window is not None or self._relative_positions is not None

    def init_cache(self, batch_size, max_length):
        """An empty cache for self-attention over at most `max_length` positions.

        Decode with `output, cache = layer(x, x, cache=cache, index=i, use_causal_mask=True)`, where the
        rows of `x` are positions `i, i + 1, ...`: the same outputs as for the whole sequence at once. With
        an `attention_mask` of shape `(B, n, max_length)` instead, a query may attend to any rows written.

        Args:
            batch_size: number of sequences `B`; an integer or a scalar tensor.
            max_length: number of rows, positions of all steps together.

        Returns:
            Dictionary of zeros: `"key"` `(B, h, key_dim, max_length)`, as the product with queries reads them, and
            `"value"` `(B, h, max_length, value_dim)`; with anything relative to positions also `"positions"`
            `(max_length,)`.
        """
        cache = {
            "key": ops.zeros((batch_size, self.key_heads, self.key_dim, max_length), self.compute_dtype),
            "value": ops.zeros((batch_size, self.value_heads, max_length, self.value_dim), self.compute_dtype),
        }
        if self.keeps_positions:
            cache["positions"] = ops.zeros((max_length,), "int32")
        return cache

    def project_cache(self, value, key=None):
        """A cache with all of `value`, for cross-attention: `layer(x, cache=cache, key_mask=...)`.

        Args:
            value: `(B, m, D_v)`.
            key: `(B, m, D_k)`. Defaults to `value`.

        Returns:
            Dictionary of `"key"` `(B, h, key_dim, m)` and `"value"` `(B, h, m, value_dim)`.

        Raises:
            ValueError: if the layer is not built.
        """
        if not self.built:
            raise ValueError(
                "`project_cache` needs the layer's weights: call the layer, or `build` it, first. "
                f"Received: a layer {self.name!r} that is not built"
            )
        keys, values = self.project_key_value(value if key is None else key, value)
        return {"key": ops.swapaxes(keys, 2, 3), "value": values}

    def _extend_cache(self, cache, key, value, index, positions):
        keys, values = self.project_key_value(key, value)
        extended = {
            **cache,
            "key": write_rows(cache["key"], ops.swapaxes(keys, 2, 3), index, axis=3),
            "value": write_rows(cache["value"], values, index),
        }
        if "positions" in cache:
            as_row = (1, 1, -1, 1)
            stored, new = ops.reshape(cache["positions"], as_row), ops.reshape(positions, as_row)
            extended["positions"] = ops.reshape(write_rows(stored, new, index), (-1,))
        return extended
