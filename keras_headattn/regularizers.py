"""Penalties that keep the heads of attention apart.

An attention layer takes one as `head_regularizer` and adds its loss. Its attribute `of` names the tensor it gets:

| `of` | what | shape |
|---|---|---|
| `"weights"` | attention weights | `(B, h, n, m)`, of `SelfAttentivePooling` `(B, h, n)` |
| `"outputs"` | head outputs before they are merged | `(B, h, n, d)`, of `SelfAttentivePooling` `(B, h, d)` |
| `"values"` | projected values | `(B, h, m, d)` |
| `"kernels"` | each projection of query, key and value | `(D, h, d)`, V of the pooling `(hidden_dim, h)` |

The first three come with a boolean mask `(B, n)`, `(B, m)` or `(B,)`, True = counts. Losses are scalars, means over the
batch, in float32 (float64 of float64). Wrong arguments raise a ValueError that names them.
"""

from typing import Any

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._types import Tensor
from keras_headattn._validation import check_number

__all__ = ["CosineSimilarity", "Disagreement", "Frobenius"]

KINDS = {"outputs": "outputs", "subspaces": "values", "positions": "weights"}


@register_keras_serializable(package="keras_headattn")
class Frobenius(keras.regularizers.Regularizer):
    """Distance of the heads' attention weights from distinct one-hot weights.

    With the weights A `(h, m)` of one query: the squared Frobenius norm of A A^T - I, averaged over queries.

    Source: Lin et al. 2017, "A structured self-attentive sentence embedding", eq. 8.

    Args:
        weight: factor of the loss.

    Call arguments:
        x: attention weights `(B, h, n, m)` or `(B, h, m)`.
        mask: boolean `(B, n)` or `(B,)`, True = counts.

    >>> float(Frobenius()(np.eye(3)[None]))
    0.0
    """

    of = "weights"

    def __init__(self, weight: float = 1.0):
        self.weight = check_number("weight", weight, least=0)

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x, mask = _prepare(x, mask)
        maps = ops.swapaxes(x, 1, 2)
        overlaps = ops.matmul(maps, ops.swapaxes(maps, -1, -2))
        distances = ops.square(overlaps - ops.eye(x.shape[1], dtype=x.dtype))
        return self.weight * _batch_mean(_position_mean(ops.sum(distances, axis=(-2, -1)), mask))

    def get_config(self) -> dict[str, Any]:
        return {"weight": self.weight}


@register_keras_serializable(package="keras_headattn")
class Disagreement(keras.regularizers.Regularizer):
    """Agreement of heads: minus the disagreement of Li et al., which they maximise.

    The mean over all ordered pairs of heads, including a head with itself, of

    - `"outputs"`: the cosine of their outputs;
    - `"subspaces"`: the cosine of their projected values;
    - `"positions"`: the sum of the products of their attention weights.

    Source: Li et al. 2018, "Multi-head attention with disagreement regularization", section 3.

    Args:
        kind: `"outputs"`, `"subspaces"` or `"positions"`.
        weight: factor of the loss.
        per: `"sentence"`, as in the equations, to compare one vector for a whole sentence; or `"token"` to compare
            tokens and average over them.

    Call arguments:
        x: `(B, h, n, d)` or `(B, h, d)`.
        mask: boolean `(B, n)` or `(B,)`, True = counts.

    >>> heads = np.eye(4)[None, :, None]
    >>> float(Disagreement("outputs")(heads))
    0.25
    """

    def __init__(self, kind: str = "outputs", weight: float = 1.0, per: str = "sentence"):
        if kind not in KINDS:
            raise ValueError(f"`kind` must be 'outputs', 'subspaces' or 'positions'. Received: kind={kind!r}")
        if per not in ("sentence", "token"):
            raise ValueError(f"`per` must be 'sentence' or 'token'. Received: per={per!r}")
        self.kind = kind
        self.weight = check_number("weight", weight, least=0)
        self.per = per

    @property
    def of(self) -> str:
        return KINDS[self.kind]

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x, mask = _prepare(x, mask)
        if self.kind != "positions":
            x = _normalize(x, axis=-1 if self.per == "token" else (-2, -1))
        # The mean of the products of all pairs is the square of the mean.
        agreement = ops.sum(ops.square(ops.mean(x, axis=1)), axis=-1)
        of_items = _position_mean(agreement, mask) if self.per == "token" else ops.sum(agreement, axis=1)
        return self.weight * _batch_mean(of_items)

    def get_config(self) -> dict[str, Any]:
        return {"kind": self.kind, "weight": self.weight, "per": self.per}


@register_keras_serializable(package="keras_headattn")
class CosineSimilarity(keras.regularizers.Regularizer):
    """Cosine similarity of the heads' parameters; also a `kernel_regularizer` of any layer with an axis of heads.

    A head's gradient is that of its mean cosine with all heads. A step against it drives the heads apart; the update
    printed in the paper is a step along it.

    Source: An et al. 2020, "Repulsive attention", section C.6.

    Args:
        weight: factor of the loss.
        head_axis: axis of the heads.
        as_printed: True for the opposite sign, which gives the printed update.

    Call arguments:
        x: kernel, such as `(D, h, d)`.

    >>> float(CosineSimilarity()(np.eye(4)))
    0.5
    """

    of = "kernels"

    def __init__(self, weight: float = 1.0, head_axis: int = 1, as_printed: bool = False):
        self.weight = check_number("weight", weight, least=0)
        if isinstance(head_axis, bool) or not isinstance(head_axis, int):
            raise ValueError(f"`head_axis` must be an integer. Received: head_axis={head_axis!r}")
        self.head_axis = head_axis
        self.as_printed = as_printed

    def __call__(self, x: Tensor) -> Tensor:
        heads = ops.moveaxis(_widen(x), self.head_axis, 0)
        heads = _normalize(heads, axis=tuple(range(1, len(heads.shape))))
        # The mean of the products of all pairs is the square of the mean; each pair is there twice.
        loss = heads.shape[0] / 2 * ops.sum(ops.square(ops.mean(heads, axis=0)))
        return (-self.weight if self.as_printed else self.weight) * loss

    def get_config(self) -> dict[str, Any]:
        return {"weight": self.weight, "head_axis": self.head_axis, "as_printed": self.as_printed}


def _widen(x):
    x = ops.convert_to_tensor(x)
    return x if keras.backend.standardize_dtype(x.dtype) == "float64" else ops.cast(x, "float32")


def _prepare(x, mask):
    """Returns `x` as `(B, h, n, d)`, 0 where masked, and the mask as `(B, n)`."""
    x = _widen(x)
    if len(x.shape) == 3:
        x, mask = x[:, :, None], None if mask is None else mask[:, None]
    shape = ops.shape(x)[0], ops.shape(x)[2]
    if mask is None:
        return x, ops.ones(shape, "bool")
    mask = ops.broadcast_to(mask, shape)
    return ops.where(mask[:, None, :, None], x, ops.zeros((), x.dtype)), mask


def _normalize(x, axis):
    """Scales vectors to length 1; zeros stay zeros, with a finite gradient."""
    squares = ops.sum(ops.square(x), axis=axis, keepdims=True)
    return x / ops.sqrt(ops.where(squares > 0, squares, ops.ones((), x.dtype)))


def _position_mean(x, mask):
    """Averages `(B, n)` to `(B,)` over unmasked positions."""
    mask = ops.cast(mask, x.dtype)
    return ops.divide_no_nan(ops.sum(x * mask, axis=1), ops.sum(mask, axis=1))


def _batch_mean(x):
    """Averages over the batch; 0 for an empty one."""
    return ops.divide_no_nan(ops.sum(x), ops.cast(ops.shape(x)[0], x.dtype))
