"""Marks of attention heads in weights."""

import dataclasses

import keras

ROLES = ("encoder", "decoder", "cross")


@dataclasses.dataclass(frozen=True)
class Heads:
    """Position of the heads in a weight, see `mark_heads`."""

    axis: int
    kind: str
    role: str | None = None


def mark_heads(variable: keras.Variable, axis: int, kind: str, role: str | None = None) -> None:
    """Marks a weight as having a part for each attention head, for `Repulsive` and `training.HeadStatistics`.

    A layer calls it in `build`. Its unmarked weights then count as having no heads.

    Args:
        variable: `keras.Variable`.
        axis: axis of the heads.
        kind: `"query"`, `"key"`, `"value"`, `"attention_output"`, or another name.
        role: `"encoder"`, `"decoder"` or `"cross"`. Default `None`: by the layer's path.

    >>> layer = keras.layers.Dense(8)
    >>> layer.build((None, 4))
    >>> mark_heads(layer.kernel, axis=1, kind="scores")
    >>> layer.kernel.heads
    Heads(axis=1, kind='scores', role=None)
    """
    rank = len(variable.shape)
    if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
        raise ValueError(
            f"`axis` must be an axis of the weight, whose shape is {tuple(variable.shape)}. Received: axis={axis!r}"
        )
    if not isinstance(kind, str) or not kind:
        raise ValueError(f"`kind` must be a name. Received: kind={kind!r}")
    if role not in (None, *ROLES):
        raise ValueError(f"`role` must be 'encoder', 'decoder', 'cross' or None. Received: role={role!r}")
    variable.heads = Heads(axis % rank, kind, role)
