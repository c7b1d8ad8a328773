"""What a layer says about the attention heads in its weights."""

import dataclasses


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


def mark_heads(variable, axis, kind, role=None):
    """Marks a weight as one with a part for each attention head.

    Args:
        variable: `keras.Variable`.
        axis, kind, role: see `Heads`.
    """
    variable.heads = Heads(axis, kind, role)
