from typing import Any

from keras import initializers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, initializer
from keras_headattn._types import Initializer, Shape, Tensor
from keras_headattn._validation import chains, check_boolean, check_number, check_positive
from keras_headattn.layers._attention import Attention
from keras_headattn.layers._cache import rows_of_logits
from keras_headattn.layers._intermediates import record
from keras_headattn.layers._state import State
from keras_headattn.ops import convolve_maps
from keras_headattn.ops._masks import where_allowed


@register_keras_serializable(package="keras_headattn")
class EvolvingAttention(Attention):
    """Attention that refines the scores of the previous block by a residual convolution.

    With L the logits of this layer, P the map of the layer before it, and a convolution with ReLU over the map as an
    image whose channels are the heads:

        input = alpha * P + (1 - alpha) * L
        map = beta * convolution(input) + (1 - beta) * input
        weights = softmax(map)

    Further intermediates: `"self_attention"`, the input of the convolution, and `"convolution"`, its output.

    The first layer of a chain, which has no previous map, passes its logits on. So does a layer whose previous map has
    another shape: it begins a new chain. With `alpha=0` there is no chain, and every layer convolves.

    In an encoder, mask padded queries as well, with `query_mask`: they are rows of the image, in which masked positions
    are 0. Decode step by step without gaps: a cache holds only the last rows of the map.

    Source: Wang et al. 2021, "Evolving attention with residual convolutions", eq. 4 and section 3.5. (The public code
    swaps alpha and beta.)

    Args:
        alpha, beta: shares of the previous map and of the convolution, from 0 to 1.
        kernel_size: of the convolution, odd.
        convolve_first: if True, a layer without a previous map convolves too.
        map_initializer: of the convolution's kernel. `"identity"`: the identity matrix where an entry meets itself (the
            centre, for an encoder), and 0 elsewhere. Positive logits then pass unchanged, which suits pre-trained
            models.
        num_heads, key_dim, value_dim, **kwargs: see `Attention`, also for calls and errors. With the `role` `"decoder"`
            or `"cross"` the convolution reads no later row, see `ops.convolve_maps`; `None` counts as `"encoder"`. The
            convolution's weights, if the layer convolves, are `map_kernel` `(kernel_size, kernel_size, h, h)` and
            `map_bias` `(h,)`.

    >>> x = keras.random.normal((2, 5, 16))
    >>> first, second = (EvolvingAttention(num_heads=4, key_dim=4) for _ in range(2))
    >>> y, map = first(x, x, return_logits=True)
    >>> y, map = second(y, y, previous_logits=map, return_logits=True)
    >>> tuple(y.shape), tuple(map.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """

    carries_logits = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        alpha: float = 0.5,
        beta: float = 0.1,
        kernel_size: int = 3,
        convolve_first: bool = False,
        map_initializer: Initializer = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.kernel_size = check_positive("kernel_size", kernel_size)
        if self.kernel_size % 2 == 0:
            raise ValueError(f"`kernel_size` must be odd. Received: kernel_size={kernel_size}")
        self.alpha = check_number("alpha", alpha, least=0, most=1)
        self.beta = check_number("beta", beta, least=0, most=1)
        self.convolve_first = check_boolean("convolve_first", convolve_first)
        self.map_initializer = initializer("map_initializer", map_initializer)

    @property
    def reads_logits(self) -> bool:
        return self.alpha > 0

    @property
    def looks_ahead(self) -> bool:
        return self.rows_interact and self.role in (None, "encoder")

    @property
    def score_rows(self) -> int:
        return self.kernel_size - 1 if self.beta > 0 else 0

    def build_heads(self, query_shape: Shape, value_shape: Shape, previous_logits_shape: Shape | None) -> None:
        logits_shape = self.compute_logits_shape(query_shape, value_shape)
        self.map_kernel = self.map_bias = None
        if self._convolves(chains(previous_logits_shape, logits_shape)):
            size, heads = self.kernel_size, self.num_heads
            self.map_kernel = self.add_kernel("map_kernel", (size, size, heads, heads), self._kernel_initializer())
            self.map_bias = self._add_bias("map_bias", (heads,))

    def _kernel_initializer(self):
        if not isinstance(self.map_initializer, initializers.Identity):
            return self.map_initializer
        # Where an entry meets itself, see `convolve_maps`.
        last, centre = self.kernel_size - 1, self.kernel_size // 2
        position = {"decoder": (last, last), "cross": (last, centre)}.get(self.role, (centre, centre))
        return _AtOnePlace(self.map_initializer, position)

    def _convolves(self, chained):
        return self.beta > 0 and (self.alpha == 0 or chained or self.convolve_first)

    def evolve(self, logits: Tensor, state: State) -> tuple[Tensor, Tensor | None, Any]:
        previous, cache = state.previous_logits, state.cache
        chained = previous is not None and chains(previous.shape, logits.shape)
        if chained and self.alpha > 0:
            logits = self.alpha * ops.cast(previous, logits.dtype) + (1 - self.alpha) * logits
        if not self._convolves(chained):
            return logits, logits, cache
        if self.map_kernel is None:
            raise ValueError(
                "This layer was built without a previous map and has no weights to convolve one: build it with "
                f"`previous_logits_shape`. Received: previous_logits of shape {tuple(previous.shape)}"
            )
        image = where_allowed(logits, state.mask)
        earlier = None
        if cache is not None and "logits" in cache:
            earlier = rows_of_logits(cache, self.score_rows)
            rows = ops.concatenate([earlier, image], axis=2)
            cache = {**cache, "logits": rows[:, :, ops.shape(image)[2] :]}
        convolved = convolve_maps(
            image, self.map_kernel, self.map_bias, self.role or "encoder", earlier, state.query_positions
        )
        record(self, self_attention=image, convolution=convolved)
        evolved = self.beta * convolved + (1 - self.beta) * image
        return evolved, evolved, cache

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, EvolvingAttention)}


class _AtOnePlace(initializers.Initializer):
    """Initializer of kernels `(k, k, h, h)` that are 0 except for the matrix at one place."""

    def __init__(self, initializer, position):
        self.initializer = initializer
        self.position = position

    def __call__(self, shape, dtype=None):
        before_and_after = [(index, size - 1 - index) for index, size in zip(self.position, shape[:2], strict=True)]
        return ops.pad(self.initializer(shape[2:], dtype)[None, None], (*before_and_after, (0, 0), (0, 0)))

    def clone(self):
        return self
