"""Marks of the attention heads in the weights of a layer."""

import dataclasses

import keras

ROLES = ("encoder", "decoder", "cross")


@dataclasses.dataclass(frozen=True)
class Heads:
    """Where the heads of a weight lie.

    Args:
        axis: of the heads.
        kind: `"query"`, `"key"`, `"value"`, `"attention_output"`, or a name of the layer's own.
        role: of the layer: `"encoder"`, `"decoder"`, `"cross"`, or `None` where it does not say.
    """

    axis: int
    kind: str
    role: str | None = None


def mark_heads(variable: keras.Variable, axis: int, kind: str, role: str | None = None) -> None:
    """Marks a weight as one with a part for each attention head.

    A layer calls it in `build`. `Repulsive` and `training.HeadNorms` then use the mark. They do not look at the path or
    the shape of the weight, and at no other weight of the layer that has no mark.

    Args:
        variable: `keras.Variable`.
        axis: int, of the heads.
        kind: `"query"`, `"key"`, `"value"`, `"attention_output"`, or a name of the layer's own.
        role: of the layer: `"encoder"`, `"decoder"` or `"cross"`. Default `None`: its path says so.

    Raises:
        ValueError: naming the argument and what was received.

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
