"""The state of a call of attention, and what `attend` makes of it."""

import dataclasses
from typing import Any

from keras_headattn._types import Tensor


@dataclasses.dataclass(frozen=True)
class Attended:
    """Result of `attend`.

    Args:
        heads: `(B, h, n, value_dim)`.
        weights: `(B, h, n, m)`, or `None` where nothing reads them.
        logits: those that the next block's layer gets, or `None`.
        cache: as in the call of `Attention`.
    """

    heads: Any
    weights: Any
    logits: Any
    cache: Any


@dataclasses.dataclass(frozen=True)
class State:
    """State of the queries that attend, all of a call or a chunk of them, passed to the stages of `attend`.

    Args:
        query: `(B, n, D)`, `None` while a cache is made.
        bias: added to the logits, broadcasts to `(B, h, n, m)`; or `None`.
        query_positions: integers `(n,)`.
        key_positions: integers `(m,)`, of all attended keys; in `project_key_value`, of the keys it projects. In a
            cache they are its row numbers, unless the layer `keeps_positions`.
        previous_logits, cache, training: as in the call of `Attention`.
        needs_weights: True if the caller, the head regularizer or `capture_intermediates` reads the weights.
        kept: factors that replace dropout of the weights, broadcast to `(B, h, n, m)`; or `None`.
        kernels: as in the call, or empty.
        rows: further tensors by name, with the queries on axis 2, from `before_attend`.
        masks: parts of the mask.
        seed: of the dropout of a chunk, or `None`.
    """

    query: Any = None
    bias: Any = None
    query_positions: Any = None
    key_positions: Any = None
    previous_logits: Any = None
    cache: Any = None
    training: bool | None = None
    needs_weights: bool = False
    kept: Any = None
    kernels: Any = dataclasses.field(default_factory=dict)
    rows: Any = dataclasses.field(default_factory=dict)
    masks: Any = None
    seed: Any = None

    @property
    def mask(self) -> Tensor | None:
        """Boolean mask that broadcasts to `(B, h, n, m)`, True = may attend; or `None`."""
        return None if self.masks is None else self.masks.combined


@dataclasses.dataclass(frozen=True)
class CallState(State):
    """State of a call, passed to the stages before and after `attend`.

    Args:
        key, value: inputs of the layer, `(B, m, D_k)` and `(B, m, D_v)`; `None` if only a cache is attended to.
        index: as in the call of `Attention`.
        projected: projections that are already computed, `(B, heads, n, width)`, by name.
        chunk_size: number of queries in a chunk, or `None`.
        own_values: values of the call's own tokens, `(B, h, n, value_dim)`, for layers that are `exclusive`.
        first_values: those of the first block, of the same shape, for layers with `value_residual`.
    """

    key: Any = None
    value: Any = None
    index: Any = None
    projected: Any = dataclasses.field(default_factory=dict)
    chunk_size: Any = None
    own_values: Any = None
    first_values: Any = None

    def of_chunk(self, **parts: Any) -> State:
        """Returns the state of a chunk of the queries.

        Args:
            **parts: tensors of the chunk, by field.
        """
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(State)}
        return State(**{**fields, **parts})
