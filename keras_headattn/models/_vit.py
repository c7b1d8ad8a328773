from collections.abc import Sequence
from typing import Any, Self

import keras
from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, regularizer, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import Activation, AttentionLike, Regularizer, Tensor
from keras_headattn._validation import as_python, check_index, check_positive, check_probability
from keras_headattn.layers import EncoderBlock, FeedForward
from keras_headattn.layers._norms import apply_norm
from keras_headattn.layers._template import Template
from keras_headattn.models._blocks import Stack
from keras_headattn.models._sizes import VIT_SIZES, arguments_of_size
from keras_headattn.positions import LearnedPositions


def _initializer():
    return keras.initializers.TruncatedNormal(stddev=0.02)


@register_keras_serializable(package="keras_headattn")
class ViT(Model):
    """Vision Transformer with any attention layer of this library.

    An image is cut into square patches, which a dense layer makes tokens of. Learned positions are added, and pre-norm
    blocks follow. Score maps, as in `EvolvingAttention`, are passed from block to block. Its attentions are
    `model.blocks[0].attention` and so on; tokens after the class token are the patches, row by row.

    Source: Dosovitskiy et al. 2021, "An image is worth 16x16 words"; sizes and initialisation of Touvron et al. 2021,
    "Training data-efficient image transformers". Stochastic depth: Huang et al. 2016.

    Args:
        input_shape: `(height, width, channels)` of the images; height and width are multiples of `patch_size`.
        patch_size: pixels of a side of a patch.
        hidden_dim, intermediate_dim: width of the tokens and of the feed-forward layers.
        num_layers: number of blocks.
        num_heads: for attention given by a class or a name.
        attention: as in `Bert`: a layer to copy, a class, a name or a function.
        classes: number of classes; 0 for the pooled features alone.
        classifier_activation: of the classifier, in float32 even under mixed precision; `None` for logits.
        pooling: `"token"` classifies by a class token before the patches, `"avg"` by the mean of the patches.
        activation: of the feed-forward layers.
        dropout: rate of dropout of embeddings and sublayers.
        attention_dropout: rate of dropout of attention weights, for attention given by a class or a name.
        stochastic_depth: probability with which an example skips a sublayer of the last block in training. It grows
            evenly from 0 in the first block.
        kernel_regularizer: of all kernels, unless `attention` has its own.
        seed: of all dropouts.

    Call arguments:
        inputs: images `(B, height, width, channels)`.

    Returns:
        `(B, classes)`; without classes `(B, hidden_dim)`.

    >>> size = dict(hidden_dim=16, intermediate_dim=32, num_layers=2, num_heads=2)
    >>> model = ViT((32, 32, 3), patch_size=8, classes=10, **size)
    >>> tuple(model(np.zeros((4, 32, 32, 3))).shape)
    (4, 10)
    """

    inputs_dtype = "float32"

    def __init__(
        self,
        input_shape: Sequence[int] = (224, 224, 3),
        patch_size: int = 16,
        hidden_dim: int = 768,
        intermediate_dim: int = 3072,
        num_layers: int = 12,
        num_heads: int = 12,
        attention: AttentionLike = "multi_head",
        classes: int = 1000,
        classifier_activation: Activation | None = "softmax",
        pooling: str = "token",
        activation: Activation = "gelu",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        stochastic_depth: float = 0.0,
        kernel_regularizer: Regularizer | None = None,
        seed: int | None = None,
        name: str = "vit",
        **kwargs: Any,
    ):
        super().__init__(name=name, **kwargs)
        self.patch_size = check_positive("patch_size", patch_size)
        self.image_shape = _checked_shape(input_shape, self.patch_size)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.intermediate_dim = check_positive("intermediate_dim", intermediate_dim)
        self.num_layers = check_positive("num_layers", num_layers)
        self.num_heads = check_positive("num_heads", num_heads)
        self.classes = check_index("classes", classes)
        if pooling not in ("token", "avg"):
            raise ValueError(f"`pooling` must be 'token' or 'avg'. Received: pooling={pooling!r}")
        self.pooling = pooling
        self.activation, self.classifier_activation = activation, classifier_activation
        self.dropout = check_probability("dropout", dropout)
        self.attention_dropout = check_probability("attention_dropout", attention_dropout)
        self.stochastic_depth = check_probability("stochastic_depth", stochastic_depth)
        self.kernel_regularizer = regularizer("kernel_regularizer", kernel_regularizer)
        self.seed = check_seed("seed", seed)
        arguments = dict(dropout=attention_dropout, kernel_initializer=_initializer())
        self.template = Template.of_attention("attention", attention, num_heads, hidden_dim, **arguments)
        self._make_layers()

    @classmethod
    def from_size(cls, size: str, **kwargs: Any) -> Self:
        """Makes a `ViT` of a named size, with random weights.

        Args:
            size: one of `keras_headattn.models.VIT_SIZES`: "vit_tiny", "vit_small" or "vit_base", with 5.7, 22.1 and
                86.6 million parameters for images of 224 pixels and 1,000 classes.
            **kwargs: arguments of `ViT`, which override the size's.

        >>> ViT.from_size("vit_tiny", attention="talking_heads").num_heads
        3
        """
        return cls(**arguments_of_size(VIT_SIZES, size, **kwargs))

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width, _ = self.image_shape
        return height // self.patch_size, width // self.patch_size

    def _make_layers(self):
        rows, columns = self.grid
        self.embedding = self._dense("embedding", self.hidden_dim)
        self.positions = LearnedPositions(
            rows * columns + (self.pooling == "token"), _initializer(), dtype=self.dtype_policy, name="positions"
        )
        self.embedding_dropout = layers.Dropout(self.dropout, seed=self.seed, dtype=self.dtype_policy)
        self.blocks = [self._make_block(index) for index in range(self.num_layers)]
        self.stack = Stack(self.blocks)
        self.norm = layers.LayerNormalization(epsilon=1e-6, dtype=self.dtype_policy, name="norm")
        self.predictions = None
        if self.classes:  # float32 under mixed precision
            dtype = self.variable_dtype
            self.predictions = self._dense("predictions", self.classes, self.classifier_activation, dtype)

    def _dense(self, name, units, activation=None, dtype=None):
        return layers.Dense(
            units,
            activation,
            kernel_initializer=_initializer(),
            kernel_regularizer=self.kernel_regularizer,
            dtype=dtype or self.dtype_policy,
            name=name,
        )

    def _make_block(self, index):
        common = dict(kernel_initializer=_initializer(), kernel_regularizer=self.kernel_regularizer)
        return EncoderBlock(
            self.template.make({"kernel_regularizer": self.kernel_regularizer}),
            feed_forward=FeedForward(self.intermediate_dim, self.activation, **common),
            dropout=self.dropout,
            normalization="pre",
            depth=index,
            seed=seed_plus(self.seed, 10 * (index + 1)),
            stochastic_depth=self.stochastic_depth * index / max(1, self.num_layers - 1),
            dtype=self.dtype_policy,
            name=f"block_{index}",
        )

    def build(self, input_shape: Any = None) -> None:
        rows, columns = self.grid
        shape = (None, rows * columns + (self.pooling == "token"), self.hidden_dim)
        self.embedding.build((None, rows * columns, self.patch_size**2 * self.image_shape[2]))
        if self.pooling == "token":
            self.class_token = self.add_weight(
                shape=(1, 1, self.hidden_dim), initializer=_initializer(), name="class_token"
            )
        self.positions.build(shape)
        self.stack.build(shape)
        self.norm.build(shape)
        if self.predictions is not None:
            self.predictions.build((None, self.hidden_dim))
        self.built = True

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        x = self.embedding(self._patches(inputs))
        if self.pooling == "token":
            token = ops.broadcast_to(ops.cast(self.class_token, x.dtype), (ops.shape(x)[0], 1, self.hidden_dim))
            x = ops.concatenate([token, x], axis=1)
        x = self.embedding_dropout(self.positions(x), training=training)
        x = apply_norm(self.norm, self.stack(x, training=training))
        x = x[:, 0] if self.pooling == "token" else ops.mean(x, axis=1)
        return x if self.predictions is None else self.predictions(x)

    def _patches(self, images):
        """Returns the pixels of each patch, `(B, n, patch_size * patch_size * channels)`."""
        if tuple(images.shape[1:]) != self.image_shape:
            raise ValueError(f"`inputs` must be images {self.image_shape}. Received: shape {tuple(images.shape)}")
        (rows, columns), side, channels = self.grid, self.patch_size, self.image_shape[2]
        x = ops.reshape(images, (-1, rows, side, columns, side, channels))
        return ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, rows * columns, side * side * channels))

    def get_config(self) -> dict[str, Any]:
        config = arguments_of(self, ViT, "input_shape", "attention")
        hidden = {"input_shape": list(self.image_shape), "attention": self.template.serialize()}
        return {**super().get_config(), **config, **hidden}


def _checked_shape(shape, patch_size):
    """Returns `(height, width, channels)`, whose sides are multiples of the patches'."""
    if len(shape) != 3 or any(side % patch_size or side < patch_size for side in shape[:2]):
        raise ValueError(
            "`input_shape` must be (height, width, channels), with height and width multiples of `patch_size`, "
            f"{patch_size}. Received: input_shape={shape}"
        )
    return tuple(map(as_python, shape))
