"""Heads of pre-trained encoders: classes and numbers, of texts and tokens; masked tokens, replaced tokens."""

from collections.abc import Mapping
from typing import Any

from keras import layers, ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, check_seed, seed_plus
from keras_headattn._model import Model
from keras_headattn._types import Activation, Tensor
from keras_headattn._validation import check_positive, check_probability
from keras_headattn.layers._feed_forward import get_activation
from keras_headattn.layers._norms import apply_norm
from keras_headattn.models._bert.bert import Bert
from keras_headattn.models._bert.encoder import Encoder
from keras_headattn.models._bert.modern_bert import ModernBert
from keras_headattn.ops._dense import sizes

# Activation of the dense layer before the output, by kind of head; `None` for no such layer.
KINDS = {"bert": "tanh", "roberta": "tanh", "electra": "gelu", "modernbert": "gelu", "linear": None}
POOLINGS = ("first", "mean")


class _Head(Model):
    """An encoder, and what a subclass makes of its outputs."""

    layer_arguments = ("encoder",)
    head_inputs: tuple[str, ...] = ()  # inputs for the head only
    takes_packed = True  # several texts in a row

    def __init__(self, encoder: Bert | ModernBert, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(encoder, Encoder):
            raise ValueError(f"`encoder` must be a `Bert` or a `ModernBert`. Received: encoder={encoder!r}")
        self.encoder = encoder

    def _dense(self, name, width, activation=None, init=None):
        return layers.Dense(
            width,
            get_activation(activation),
            use_bias=self.encoder.use_bias or name != "hidden",
            kernel_initializer=self.encoder.initializer() if init is None else init,
            dtype=self.dtype_policy,
            name=name,
        )

    def _norm(self, epsilon):
        options = dict(epsilon=epsilon, center=self.encoder.use_bias, dtype=self.dtype_policy, name="norm")
        return layers.LayerNormalization(**options)

    def _make_hidden(self):
        """Makes the layers of a head of tokens before its output: for a ModernBERT a dense layer and a norm."""
        self.hidden = self.norm = None
        if isinstance(self.encoder, ModernBert):
            self.hidden = self._dense("hidden", self.encoder.hidden_dim, "gelu")
            self.norm = self._norm(self.encoder.norm_epsilon)

    def _build_hidden(self, width):
        for layer in (self.hidden, self.norm):
            if layer is not None:
                layer.build((None, None, width))

    def _hidden_states(self, outputs):
        states = outputs["sequence_output"]
        return states if self.hidden is None else apply_norm(self.norm, self.hidden(states))

    def build(self, input_shape: Any = None) -> None:
        if not self.encoder.built:
            self.encoder.build()
        self._build_head(self.encoder.hidden_dim)
        self.built = True

    def call(
        self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None, return_intermediates: bool = False
    ) -> Any:
        texts = self._texts(inputs)
        if not return_intermediates:
            return self._head(inputs, self.encoder(texts, training=training), training)
        outputs, out = self.encoder(texts, training=training, return_intermediates=True)
        return self._head(inputs, outputs, training), out

    def _texts(self, inputs):
        """Returns the inputs of the encoder."""
        if not isinstance(inputs, dict):
            return inputs
        if "sequence_ids" in inputs and not self.takes_packed:
            raise ValueError(
                f"`inputs` of this head must have one text a row, not packed ones. Received: inputs={sorted(inputs)}"
            )
        return {name: x for name, x in inputs.items() if name not in self.head_inputs}


@register_keras_serializable(package="keras_headattn")
class EncoderClassifier(_Head):
    """Classifier or regressor of texts and pairs of texts, on the first token of an encoder or the mean of all tokens.

    Outputs are logits or regression values, in float32 even under mixed precision. The `kind` is the checkpoint's:

    - `"bert"`: pooler, dropout, linear. An encoder without pooler gets one here.
    - `"roberta"`: dropout, dense layer with tanh, dropout, linear.
    - `"electra"`: dropout, dense layer with GELU, dropout, linear, as in Hugging Face.
    - `"modernbert"`: dense layer with GELU, norm, dropout, linear, as in Hugging Face.
    - `"linear"`: dropout, linear, with Glorot's initializer, as in ELECTRA's own program, which uses `reduction="sum"`;
      this matters if gradients are clipped.

    Source: Devlin et al. 2019, section 4.1; Liu et al. 2019; Clark et al. 2020; Warner et al. 2024; for `head_dim` Wang
    et al. 2021, "Evolving attention with residual convolutions", appendix A.2.

    Args:
        encoder: `Bert` or `ModernBert`, not copied, with its weights and dtype. It must have no pooler if the head does
            not use it: with a kind other than `"bert"`, a `head_dim`, or the mean of states.
        num_outputs: number of classes; 1 for regression.
        kind: `"bert"`, `"roberta"`, `"electra"`, `"modernbert"` or `"linear"`.
        head_dim: width of the dense layer, which replaces the pooler. Default `None`: that of the encoder. Not for
            `"linear"`.
        pooling: `"first"` (default), the state of the first token, or `"mean"`, the mean of all real tokens, for
            encoders whose first token does not see the whole text, or that were trained this way.
        dropout, seed: rate of the dropouts in the head; their seeds are `seed` and `seed + 1`.

    Call arguments:
        inputs: as in `Bert`, one text or pair a row.
        return_intermediates: returns `(logits, out)`, as `Bert` does.

    Returns:
        `(B, num_outputs)`.

    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4)
    >>> tuple(EncoderClassifier(encoder, 3)(np.ones((2, 5), "int32")).shape)
    (2, 3)
    """

    takes_packed = False

    def __init__(
        self,
        encoder: Bert | ModernBert,
        num_outputs: int,
        kind: str = "bert",
        head_dim: int | None = None,
        pooling: str = "first",
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        for name, value, allowed in (("kind", kind, KINDS), ("pooling", pooling, POOLINGS)):
            if value not in allowed:
                raise ValueError(f"`{name}` must be one of {', '.join(allowed)}. Received: {name}={value!r}")
        self.num_outputs = check_positive("num_outputs", num_outputs)
        self.kind = kind
        self.pooling = pooling
        self.head_dim = None if head_dim is None else check_positive("head_dim", head_dim)
        self.dropout = check_probability("dropout", dropout)
        self.seed = check_seed("seed", seed)
        has_pooler = encoder.pooler is not None
        if has_pooler and (kind != "bert" or head_dim is not None or pooling != "first"):
            raise ValueError(
                "`encoder` must have no pooler if the head does not use it: make it with `pooler=False`. "
                f"Received: a pooler, kind={kind!r}, head_dim={head_dim}, pooling={pooling!r}"
            )
        if KINDS[kind] is None and head_dim is not None:
            raise ValueError(
                f"`head_dim` needs a head with a dense layer. Received: head_dim={head_dim}, kind={kind!r}"
            )
        self.dropouts = [layers.Dropout(dropout, seed=seed_plus(seed, i), dtype=self.dtype_policy) for i in range(2)]
        width = self.head_dim or encoder.hidden_dim
        self.hidden = None if has_pooler or KINDS[kind] is None else self._dense("hidden", width, KINDS[kind])
        self.norm = self._norm(encoder.norm_epsilon) if kind == "modernbert" else None
        init = None if KINDS[kind] else "glorot_uniform"
        self.output_projection = self._dense("output_projection", self.num_outputs, init=init)

    def _build_head(self, width):
        if self.hidden is not None:
            self.hidden.build((None, width))
            width = self.hidden.units
        if self.norm is not None:
            self.norm.build((None, width))
        self.output_projection.build((None, width))

    def _head(self, inputs, outputs, training):
        x = outputs["pooled_output"] if self.encoder.pooler is not None else self._pool(inputs, outputs)
        if self.hidden is not None:
            x = self.hidden(x if self.kind in ("bert", "modernbert") else self.dropouts[0](x, training=training))
            x = x if self.norm is None else apply_norm(self.norm, x)
        return ops.cast(self.output_projection(self.dropouts[1](x, training=training)), "float32")

    def _pool(self, inputs, outputs):
        states = outputs["sequence_output"]
        if self.pooling == "first":
            return states[:, 0]
        ids = inputs["token_ids"] if isinstance(inputs, dict) else inputs
        is_real = ops.cast(ops.not_equal(ids, self.encoder.pad_id), "float32")[..., None]
        total = ops.sum(ops.cast(states, "float32") * is_real, axis=1)
        return ops.cast(total / ops.maximum(ops.sum(is_real, axis=1), 1.0), states.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, EncoderClassifier, "encoder")}


@register_keras_serializable(package="keras_headattn")
class TokenClassifier(_Head):
    """Classifier of each token, on the states of an encoder: names in a text, parts of speech.

    It has dropout and a linear layer, after a dense layer with GELU and a norm for a `ModernBert`, as in Hugging Face.
    Logits are float32 even under mixed precision, with a Keras mask, so that the losses of `fit` leave padding out.
    `serving.Tagger` makes entities of them.

    Source: Devlin et al. 2019, section 5.3; Warner et al. 2024.

    Args:
        encoder: `Bert` or `ModernBert`, not copied, with its weights and dtype. It needs no pooler.
        num_outputs: number of classes.
        dropout, seed: rate of the dropout in the head, and its seed.

    Call arguments:
        inputs, return_intermediates: as in `EncoderClassifier`.

    Returns:
        `(B, n, num_outputs)`.

    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, pooler=False)
    >>> tuple(TokenClassifier(encoder, 3)(np.ones((2, 5), "int32")).shape)
    (2, 5, 3)
    """

    def __init__(
        self,
        encoder: Bert | ModernBert,
        num_outputs: int,
        dropout: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        self._make_hidden()
        self.num_outputs = check_positive("num_outputs", num_outputs)
        self.dropout = check_probability("dropout", dropout)
        self.seed = check_seed("seed", seed)
        self.output_dropout = layers.Dropout(dropout, seed=self.seed, dtype=self.dtype_policy)
        self.output_projection = self._dense("output_projection", self.num_outputs)
        self.supports_masking = True

    def compute_mask(self, inputs: Tensor | Mapping[str, Tensor], previous_mask: Tensor | None = None) -> Tensor:
        return self.encoder.compute_mask(self._texts(inputs))["sequence_output"]

    def _build_head(self, width):
        self._build_hidden(width)
        self.output_projection.build((None, None, width))

    def _head(self, inputs, outputs, training):
        states = self.output_dropout(self._hidden_states(outputs), training=training)
        return ops.cast(self.output_projection(states), "float32")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, TokenClassifier, "encoder")}


@register_keras_serializable(package="keras_headattn")
class MaskedLM(_Head):
    """Head that predicts masked tokens from the states of an encoder, as BERT, RoBERTa and ELECTRA's generator have it.

    It has a dense layer with activation, a norm, and the transposed token embedding with a bias. Logits are float32
    even under mixed precision. An encoder used only with this head needs no pooler.

    Source: Devlin et al. 2019, section 3.1.

    Args:
        encoder: `Bert` or `ModernBert`, not copied, with its weights and dtype.
        activation, norm_epsilon: of the dense layer and the norm. Default `None`: those of the encoder.

    Call arguments:
        inputs: as in `Bert`. A dictionary may also have `"mask_positions"`, integers `(B, K)`: the tokens to compute
            logits for. Default: all.
        return_intermediates: returns `(logits, out)`, as `Bert` does.

    Returns:
        `(B, K, vocabulary_size)`; or `(B, n, vocabulary_size)` without positions.

    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, pooler=False)
    >>> inputs = {"token_ids": np.ones((2, 5), "int32"), "mask_positions": np.array([[1, 2], [3, 0]])}
    >>> tuple(MaskedLM(encoder)(inputs).shape)
    (2, 2, 100)
    """

    head_inputs = ("mask_positions",)

    def __init__(
        self,
        encoder: Bert | ModernBert,
        activation: Activation | None = None,
        norm_epsilon: float | None = None,
        **kwargs: Any,
    ):
        super().__init__(encoder, **kwargs)
        self.activation = activation
        self.norm_epsilon = norm_epsilon
        self.hidden = self._dense("hidden", encoder.embedding_dim, activation or encoder.activation)
        self.norm = self._norm(encoder.norm_epsilon if norm_epsilon is None else norm_epsilon)

    def _build_head(self, width):
        self.hidden.build((None, width))
        self.norm.build((None, self.encoder.embedding_dim))
        # Added in float32.
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.encoder.vocabulary_size,), initializer="zeros", autocast=False
        )

    def _head(self, inputs, outputs, training):
        rows, shape = self._rows(inputs, outputs)
        logits = ops.cast(self.encoder.token_embedding(rows, reverse=True), "float32") + self.output_bias
        return ops.reshape(logits, (*shape, self.encoder.vocabulary_size))

    def _rows(self, inputs, outputs):
        """Returns the inputs of the output layer, a row for each token, and the shape `(B, K)` of the tokens."""
        x = outputs["sequence_output"]
        if isinstance(inputs, dict) and "mask_positions" in inputs:
            x = ops.take_along_axis(x, inputs["mask_positions"][:, :, None], axis=1)
        rows = self.hidden(ops.reshape(x, (-1, x.shape[-1])))
        return apply_norm(self.norm, rows), sizes(x)[:-1]

    def states(self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        """Computes the inputs of the output layer, `(B, K, E)`.

        Args:
            inputs: as in a call.
            training: True to apply dropout.
        """
        rows, shape = self._rows(inputs, self.encoder(self._texts(inputs), training=training))
        return ops.reshape(rows, (*shape, rows.shape[-1]))

    def output_weights(self) -> tuple[Tensor, Tensor]:
        """Returns the kernel of the output layer, `(E, V)` in the dtype of the states, and its bias `(V,)`."""
        kernel = ops.transpose(self.encoder.token_embedding.embeddings)
        return ops.cast(kernel, self.compute_dtype), ops.convert_to_tensor(self.output_bias)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, MaskedLM, "encoder")}


@register_keras_serializable(package="keras_headattn")
class ReplacedTokenDetector(_Head):
    """Head that detects tokens replaced by a generator, from the states of an encoder: ELECTRA's discriminator.

    Source: Clark et al. 2020, "ELECTRA: Pre-training text encoders as discriminators rather than generators".

    Args:
        encoder: `Bert` or `ModernBert`, not copied, with its weights and dtype.

    Call arguments:
        inputs, return_intermediates: as in `EncoderClassifier`.

    Returns:
        Logits `(B, n)`, in float32; above 0 for a replaced token.

    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, pooler=False)
    >>> tuple(ReplacedTokenDetector(encoder)(np.ones((2, 5), "int32")).shape)
    (2, 5)
    """

    def __init__(self, encoder: Bert | ModernBert, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        self.hidden = self._dense("hidden", encoder.hidden_dim, encoder.activation)
        self.output_projection = self._dense("output_projection", 1, init="glorot_uniform")

    def _build_head(self, width):
        for layer in (self.hidden, self.output_projection):
            layer.build((None, None, width))

    def _head(self, inputs, outputs, training):
        logits = self.output_projection(self.hidden(outputs["sequence_output"]))
        return ops.cast(ops.squeeze(logits, axis=-1), "float32")
