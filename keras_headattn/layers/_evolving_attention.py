from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._validation import chains, positive
from keras_headattn.layers._attention import Attention, _clone
from keras_headattn.ops import convolve_maps

ROLES = ("encoder", "decoder", "cross")


@register_keras_serializable(package="keras_headattn")
class EvolvingAttention(Attention):
    """Attention whose maps evolve from block to block by residual convolutions.

    With L the logits of this layer, P the map of the layer before it, and a convolution over the map as an image
    whose channels are the heads, followed by ReLU:

        input = alpha * P + (1 - alpha) * L
        map = beta * convolution(input) + (1 - beta) * input
        weights = softmax(map)

    A layer without a previous map, the first of a chain, passes its logits on as they are. So does one whose
    previous map has another number of heads or another size, where a chain ends and the next one begins. With
    `alpha=0` there is no chain, and every layer convolves.

    Step-by-step decoding must go on from the row before: a cache holds only the last rows of the map.

    In an encoder, padded queries must be masked as well, by `query_mask`: they are rows of the image. A position
    that the mask forbids is 0 in it.

    Source: Wang et al. 2021, "Evolving attention with residual convolutions", eq. 4 and section 3.5. (The
    public code has alpha and beta the other way round.)

    Args:
        num_heads: number of heads `h`.
        key_dim: width of a query and of a key of one head.
        role: `"encoder"`; `"decoder"` for causal self-attention, or `"cross"` for attention of a decoder to
            an encoder: their convolution reads no later row of the map. See `keras_headattn.ops.convolve_maps`.
            `None` is what `EncoderBlock` and `DecoderBlock` make of it, and `"encoder"` outside of them.
        alpha: share of the previous map, from 0 to 1.
        beta: share of the convolution, from 0 to 1.
        kernel_size: of the convolution, odd.
        convolve_first: whether a layer without a previous map convolves too.
        **kwargs: see `Attention`, also for call arguments, results and errors. The weights of the convolution
            are `map_kernel` `(kernel_size, kernel_size, h, h)` and `map_bias` `(h,)`; a layer that does not
            convolve has none.

    >>> x = keras.random.normal((2, 5, 16))
    >>> first, second = (EvolvingAttention(num_heads=4, key_dim=4) for _ in range(2))
    >>> y, map = first(x, x, return_map=True)
    >>> y, map = second(y, y, previous_map=map, return_map=True)
    >>> tuple(y.shape), tuple(map.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """

    carries_map = True

    def __init__(
        self,
        num_heads,
        key_dim,
        *args,
        role=None,
        alpha=0.5,
        beta=0.1,
        kernel_size=3,
        convolve_first=False,
        **kwargs,
    ):
        super().__init__(num_heads, key_dim, *args, **kwargs)
        if role not in (None, *ROLES):
            raise ValueError(f"`role` must be 'encoder', 'decoder', 'cross' or None. Received: role={role!r}")
        for name, value in (("alpha", alpha), ("beta", beta)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise ValueError(f"`{name}` must be a number from 0 to 1. Received: {name}={value}")
        if positive("kernel_size", kernel_size) % 2 == 0:
            raise ValueError(f"`kernel_size` must be odd. Received: kernel_size={kernel_size}")
        self.role = role
        self.alpha = alpha
        self.beta = beta
        self.kernel_size = kernel_size
        self.convolve_first = convolve_first

    @property
    def rows_interact(self):
        return self.beta > 0 and self.kernel_size > 1

    def build(self, query_shape, value_shape=None, key_shape=None, previous_map_shape=None):
        super().build(query_shape, value_shape, key_shape)
        own = self.compute_map_shape(query_shape, value_shape)
        self.map_kernel = self.map_bias = None
        if self._convolves(chains(previous_map_shape, own)):
            size, heads = self.kernel_size, self.num_heads
            self.map_kernel = self.add_weight(
                name="map_kernel",
                shape=(size, size, heads, heads),
                initializer=_clone(self.kernel_initializer),
                regularizer=self.kernel_regularizer,
                constraint=self.kernel_constraint,
            )
            self.map_bias = self.add_weight(
                name="map_bias",
                shape=(heads,),
                initializer=_clone(self.bias_initializer),
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def _convolves(self, chained):
        return self.beta > 0 and (self.alpha == 0 or chained or self.convolve_first)

    def evolve(self, logits, mask, previous_map, cache, query_positions):
        chained = previous_map is not None and chains(previous_map.shape, logits.shape)
        if chained and self.alpha > 0:
            logits = self.alpha * ops.cast(previous_map, logits.dtype) + (1 - self.alpha) * logits
        if not self._convolves(chained):
            return logits, logits, cache
        if self.map_kernel is None:
            raise ValueError(
                "This layer was built without a previous map and has no weights to convolve one: build it with "
                f"`previous_map_shape`. Received: previous_map of shape {tuple(previous_map.shape)}"
            )
        image = logits if mask is None else ops.where(mask, logits, ops.zeros((), logits.dtype))
        earlier = None
        if cache is not None and "map" in cache:
            earlier = cache["map"]
            rows = ops.concatenate([earlier, image], axis=2)
            cache = {**cache, "map": rows[:, :, ops.shape(image)[2] :]}
        convolved = convolve_maps(
            image, self.map_kernel, self.map_bias, self.role or "encoder", earlier, query_positions
        )
        evolved = self.beta * convolved + (1 - self.beta) * image
        return evolved, evolved, cache

    def init_cache(self, batch_size, max_length):
        return self._with_rows(super().init_cache(batch_size, max_length))

    def project_cache(self, value, key=None):
        return self._with_rows(super().project_cache(value, key))

    def _with_rows(self, cache):
        """The cache with the last rows of the map, those that the convolution of the next row reads."""
        if not self.rows_interact:
            return cache
        if self.role in (None, "encoder"):
            raise ValueError(
                "A layer that reads later rows of the map cannot decode step by step: it needs the role 'decoder' or "
                f"'cross'. Received: role={self.role!r}"
            )
        batch, _, length, _ = ops.shape(cache["value"])
        rows = ops.zeros((batch, self.num_heads, self.kernel_size - 1, length), self.compute_dtype)
        return {**cache, "map": rows}

    def get_config(self):
        return {
            **super().get_config(),
            "role": self.role,
            "alpha": self.alpha,
            "beta": self.beta,
            "kernel_size": self.kernel_size,
            "convolve_first": self.convolve_first,
        }
