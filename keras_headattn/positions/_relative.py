"""Logits that depend on where a key stands seen from its query."""

import keras
from keras import initializers, ops
from keras.saving import deserialize_keras_object, register_keras_serializable, serialize_keras_object

from keras_headattn._validation import positive


@register_keras_serializable(package="keras_headattn")
class RelativePositions(keras.layers.Layer):
    """A learned vector for each distance between query and key, the same for all heads.

    Any attention layer takes one as `relative_positions` and adds its logits to those of the keys. Distances
    beyond `max_distance` count as that.

    Source: Shaw et al. 2018, "Self-attention with relative position representations"; Wang et al. 2021,
    "Evolving attention with residual convolutions", eq. 2, with the scaled query as in all public code.

    Args:
        max_distance: the largest distance that has a vector of its own.
        embeddings_initializer: of the vectors. Defaults to a normal distribution of deviation `key_dim ** -0.5`.

    Call arguments:
        query: scaled queries `(B, h, n, key_dim)`.
        query_positions: integers `(n,)`.
        key_positions: integers `(m,)`.

    Returns:
        Logits `(B, h, n, m)`.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(num_heads=4, key_dim=4, relative_positions=RelativePositions(max_distance=16))
    >>> x = keras.random.normal((2, 5, 16))
    >>> tuple(layer(x, x).shape)
    (2, 5, 16)
    """

    def __init__(self, max_distance, embeddings_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.max_distance = positive("max_distance", max_distance)
        self.embeddings_initializer = initializers.get(embeddings_initializer)

    def build(self, query_shape, *_):
        self.embeddings = _add_embeddings(self, "embeddings", self.max_distance, query_shape[-1])

    def call(self, query, query_positions, key_positions):
        distances = ops.expand_dims(key_positions, 0) - ops.expand_dims(query_positions, 1)
        farthest = self.max_distance
        # (n, m, d), and a product for each query position: no index as large as the logits.
        vectors = ops.take(self.embeddings, ops.clip(distances, -farthest, farthest) + farthest, axis=0)
        batch, heads, n, width = ops.shape(query)
        rows = ops.reshape(ops.transpose(query, (2, 0, 1, 3)), (n, batch * heads, width))
        logits = ops.matmul(rows, ops.swapaxes(vectors, 1, 2))
        return ops.transpose(ops.reshape(logits, (n, batch, heads, ops.shape(key_positions)[0])), (1, 2, 0, 3))

    def compute_output_spec(self, *args, **kwargs):
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "max_distance": self.max_distance,
            "embeddings_initializer": initializers.serialize(self.embeddings_initializer),
        }


@register_keras_serializable(package="keras_headattn")
class RelativePositions2D(keras.layers.Layer):
    """Learned vectors for the vertical and the horizontal distance of two pixels, the same for all heads.

    Any attention layer over the pixels of an image, row after row, takes one as `relative_positions`: inputs
    `(B, height * width, D)`, or `(B, height, width, D)`.

    Source: Bello et al. 2019, "Attention augmented convolutional networks"; Wang et al. 2021, "Evolving
    attention with residual convolutions", eq. 3, with the scaled query as in all public code.

    Args:
        height, width: pixels of the image.
        embeddings_initializer: of the vectors. Defaults to a normal distribution of deviation `key_dim ** -0.5`.

    Call arguments:
        query: scaled queries `(B, h, height * width, key_dim)`. Several images may follow each other on axis 2.
        query_positions: not used: pixels are where they are.
        key_positions: `(height * width,)`; only their number matters.

    Returns:
        Logits `(B, h, height * width, height * width)`.

    Raises:
        ValueError: if the queries are not those of whole images.

    >>> from keras_headattn.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(num_heads=4, key_dim=4, relative_positions=RelativePositions2D(3, 5))
    >>> image = keras.random.normal((2, 3, 5, 16))
    >>> tuple(layer(image, image).shape)
    (2, 3, 5, 16)
    """

    def __init__(self, height, width, embeddings_initializer=None, **kwargs):
        super().__init__(**kwargs)
        self.height = positive("height", height)
        self.width = positive("width", width)
        self.embeddings_initializer = initializers.get(embeddings_initializer)

    def build(self, query_shape, *_):
        self.height_embeddings = _add_embeddings(self, "height_embeddings", self.height - 1, query_shape[-1])
        self.width_embeddings = _add_embeddings(self, "width_embeddings", self.width - 1, query_shape[-1])

    def call(self, query, query_positions=None, key_positions=None):
        batch, heads, n, depth = ops.shape(query)
        height, width = self.height, self.width
        m = height * width if key_positions is None else key_positions.shape[0]
        if isinstance(n, int) and n % (height * width) or m not in (None, height * width):
            raise ValueError(
                f"RelativePositions2D({height}, {width}) needs the {height * width} pixels of an image as queries and "
                f"as keys. Received: {n} queries, {m} keys"
            )
        pixels = ops.reshape(query, (-1, height, width, depth))
        vertical = ops.einsum("byxd,ykd->byxk", pixels, _by_distance(self.height_embeddings, height))
        horizontal = ops.einsum("byxd,xkd->byxk", pixels, _by_distance(self.width_embeddings, width))
        logits = vertical[..., :, None] + horizontal[..., None, :]
        return ops.reshape(logits, (batch, heads, n, height * width))

    def compute_output_spec(self, *args, **kwargs):
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "height": self.height,
            "width": self.width,
            "embeddings_initializer": initializers.serialize(self.embeddings_initializer),
        }


def as_template(layer):
    """The configuration of a layer of relative positions, or `None`."""
    if layer is None or isinstance(layer, dict):
        return layer
    if not isinstance(layer, (RelativePositions, RelativePositions2D)):
        raise ValueError(
            "`relative_positions` must be a layer such as keras_headattn.positions.RelativePositions(16), whose "
            f"configuration is copied. Received: {layer!r}"
        )
    return serialize_keras_object(type(layer).from_config(layer.get_config()))


def make_relative_positions(template, dtype):
    """A layer of the configuration that `as_template` returned."""
    layer = deserialize_keras_object(template)
    return type(layer).from_config({**layer.get_config(), "dtype": dtype, "name": "relative_positions"})


def _add_embeddings(layer, name, farthest, width):
    initializer = layer.embeddings_initializer or initializers.RandomNormal(stddev=width**-0.5)
    # One without a seed gives the same numbers each time it is used.
    initializer = initializer.__class__.from_config(initializer.get_config())
    return layer.add_weight(name=name, shape=(2 * farthest + 1, width), initializer=initializer)


def _by_distance(embeddings, length):
    """`(length, length, d)`: the vector of each pair of places, from query to key."""
    places = ops.arange(length, dtype="int32")
    return ops.take(embeddings, places[None, :] - places[:, None] + length - 1, axis=0)
