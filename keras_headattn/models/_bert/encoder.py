from collections.abc import Mapping
from typing import Any, Self

import keras
from keras import layers, ops

from keras_headattn._identifiers import check_seed, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import Activation, AttentionLike, Tensor
from keras_headattn._validation import check_boolean, check_index, check_number, check_positive, check_probability
from keras_headattn.layers import EncoderBlock, FeedForward
from keras_headattn.layers._intermediates import with_intermediates
from keras_headattn.layers._norms import apply_norm
from keras_headattn.layers._template import Template
from keras_headattn.models._sizes import arguments_of_size


class Encoder(Model):
    """Base of `Bert` and `ModernBert`, which document its arguments: they make embeddings and a `stack` of `blocks`."""

    sizes: Mapping[str, Mapping[str, Any]] = {}  # arguments by name
    takes_segments = True

    def __init__(
        self, vocabulary_size: int, hidden_dim: int, intermediate_dim: int, num_layers: int, num_heads: int,
        attention: AttentionLike, pad_id: int, activation: Activation, norm_epsilon: float, dropout: float,
        attention_dropout: float, initializer_range: float, recompute: bool, seed: int | None, use_bias: bool = True,
        **kwargs: Any,
    ):  # fmt: skip
        super().__init__(**kwargs)
        self.supports_masking = True
        # Not of the class: on PyTorch those would hide layers of these names.
        self.pooler: Any = None
        self.final_norm: Any = None
        self.vocabulary_size = check_positive("vocabulary_size", vocabulary_size)
        self.hidden_dim = check_positive("hidden_dim", hidden_dim)
        self.embedding_dim = self.hidden_dim
        self.intermediate_dim = check_positive("intermediate_dim", intermediate_dim)
        self.num_layers = check_positive("num_layers", num_layers)
        self.num_heads = check_positive("num_heads", num_heads)
        self.pad_id = check_index("pad_id", pad_id)
        if pad_id >= vocabulary_size:
            raise ValueError(f"`pad_id` must be less than `vocabulary_size`. Received: {pad_id} of {vocabulary_size}")
        self.activation = activation
        self.norm_epsilon = norm_epsilon
        self.dropout = check_probability("dropout", dropout)
        self.attention_dropout = check_probability("attention_dropout", attention_dropout)
        self.initializer_range = check_number("initializer_range", initializer_range, above=0)
        self.recompute = check_boolean("recompute", recompute)
        self.seed = check_seed("seed", seed)
        self.use_bias = check_boolean("use_bias", use_bias)
        options = dict(dropout=attention_dropout, kernel_initializer=self.initializer())
        options |= {} if use_bias else {"use_bias": False}
        self.template = Template.of_attention("attention", attention, num_heads, hidden_dim, **options)

    @classmethod
    def from_size(cls, size: str, **kwargs: Any) -> Self:
        """Makes an encoder of a named size, with random weights.

        Args:
            size: one of `keras_headattn.models.BERT_SIZES`, such as "bert_base", "roberta_large" or "electra_small";
                for a `ModernBert` one of `MODERNBERT_SIZES`, such as "modernbert_base".
            **kwargs: arguments of the class, which override the size's.

        >>> from keras_headattn.models import Bert
        >>> model = Bert.from_size("bert_tiny", attention="real_former")
        >>> model.hidden_dim, model.num_layers
        (128, 2)
        """
        return cls(**arguments_of_size(cls.sizes, size, **kwargs))

    def initializer(self) -> keras.initializers.Initializer:
        """Returns a new initializer of kernels and embeddings, see `initializer_range`."""
        return keras.initializers.TruncatedNormal(stddev=self.initializer_range)

    def _make_token_embedding(self):
        return layers.ReversibleEmbedding(
            self.vocabulary_size,
            self.embedding_dim,
            embeddings_initializer=self.initializer(),
            dtype=self.dtype_policy,
            name="token_embedding",
        )

    def _norm(self, name=None):
        return layers.LayerNormalization(
            epsilon=self.norm_epsilon, center=self.use_bias, dtype=self.dtype_policy, name=name
        )

    def _make_block(self, index, attention, gated=False, normalization="post"):
        init = self.initializer()
        return EncoderBlock(
            attention,
            feed_forward=FeedForward(
                self.intermediate_dim, self.activation, gated=gated, use_bias=self.use_bias, kernel_initializer=init
            ),
            dropout=self.dropout,
            recompute=self.recompute,
            normalization=normalization,
            norm=self._norm(),
            depth=index,
            seed=seed_plus(self.seed, 10 * (index + 1)),
            dtype=self.dtype_policy,
            name=f"block_{index}",
        )

    def embed(self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        """Returns embeddings as the first block receives them, `(B, n, D)`.

        Args:
            inputs: as in a call.
            training: True to apply dropout.
        """
        raise NotImplementedError

    def call(
        self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None, return_intermediates: bool = False
    ) -> Any:
        if return_intermediates:
            return with_intermediates({block.name: block for block in self.blocks}, self.call, inputs, training)
        texts = self._read(inputs)
        is_real = ops.not_equal(texts["token_ids"], self.pad_id)
        x = self.embed(texts, training)
        x = self.stack(x, is_real, segment_ids=texts.get("sequence_ids"), training=training)
        x = x if self.final_norm is None else apply_norm(self.final_norm, x)
        return {"sequence_output": x} | ({} if self.pooler is None else {"pooled_output": self.pooler(x[:, 0])})

    def compute_mask(self, inputs: Tensor | Mapping[str, Tensor], previous_mask: Tensor | None = None) -> Tensor:
        mask = ops.not_equal(self._read(inputs)["token_ids"], self.pad_id)
        return {"sequence_output": mask} | ({} if self.pooler is None else {"pooled_output": None})

    def _read(self, inputs):
        """Returns the inputs as a dictionary."""
        inputs = inputs if isinstance(inputs, dict) else {"token_ids": inputs}
        names = {"token_ids", "sequence_ids"} | ({"segment_ids"} if self.takes_segments else set())
        if "token_ids" not in inputs or not set(inputs) <= names:
            raise ValueError(
                '`inputs` must be token ids, or a dictionary of "token_ids", "sequence_ids" of packed texts and, for a '
                f'model with segments, "segment_ids". Received: inputs={sorted(inputs)} of {self.name}'
            )
        return inputs

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "attention": self.template.serialize()}
