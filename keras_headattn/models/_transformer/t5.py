from collections.abc import Sequence
from typing import Any, Self

from keras import layers
from keras.saving import register_keras_serializable

from keras_headattn._types import Activation, AttentionLike
from keras_headattn._validation import as_python, check_boolean
from keras_headattn.layers import EvolvingAttention, FeedForward
from keras_headattn.layers._template import Template
from keras_headattn.models._sizes import arguments_of_size, sized
from keras_headattn.models._transformer.encoder_decoder import EncoderDecoder
from keras_headattn.positions import BucketPositions

SAME = "same"
ATTENTIONS = ("attention", "decoder_attention", "cross_attention")

NEWER = dict(activation="gelu_tanh", gated=True, tie_output=False)
T5_SIZES: dict[str, dict[str, Any]] = {
    "t5_small": sized(6, 512, 2048, 8, key_dim=64),
    "t5_base": sized(12, 768, 3072, 12, key_dim=64),
    "t5_large": sized(24, 1024, 4096, 16, key_dim=64),
    "t5_3b": sized(24, 1024, 16384, 32, key_dim=128),
    "t5_11b": sized(24, 1024, 65536, 128, key_dim=128),
    "t5_v1_1_small": sized(8, 512, 1024, 6, key_dim=64, **NEWER),
    "t5_v1_1_base": sized(12, 768, 2048, 12, key_dim=64, **NEWER),
    "t5_v1_1_large": sized(24, 1024, 2816, 16, key_dim=64, **NEWER),
    "t5_v1_1_xl": sized(24, 2048, 5120, 32, key_dim=64, **NEWER),
    "t5_v1_1_xxl": sized(24, 4096, 10240, 64, key_dim=64, **NEWER),
}


@register_keras_serializable(package="keras_headattn")
class T5(EncoderDecoder):
    """T5 1.0 and 1.1: an encoder-decoder Transformer with any attention layer of this library.

    Unlike `Transformer`, it has pre-norm blocks with RMS norm, no biases, unscaled embeddings and attention logits, and
    no positions but one table of bucketed distances for each stack. T5 1.0 ties its output layer to the embedding and
    multiplies its input by `hidden_dim ** -0.5`; T5 1.1 has its own output layer and gated feed-forward layers. Token
    id 0 is padding, and the first token of a target.

    Any attention is used without biases, with the model's dropout, and with `scale=1` unless it sets its own.

    Source: Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text transformer", and
    its public code. With `EvolvingAttention` in the encoder: Wang et al. 2021, "Evolving attention with residual
    convolutions"; the table is part of the logits that evolve.

    Args:
        vocabulary_size: number of token ids of source and target.
        hidden_dim, intermediate_dim: width of the model and of its feed-forward layers.
        num_layers, num_decoder_layers: number of encoder blocks, and of decoder blocks, by default the same.
        num_heads, key_dim: for attention given by a class or a name. `num_heads * key_dim` need not be `hidden_dim`.
        attention: of the encoder, as in `Transformer`.
        decoder_attention: decoder's self-attention. Default `"same"`: `attention`, with `alpha=0` for
            `EvolvingAttention`. `None` is T5's own.
        cross_attention: attention to the encoder. Default `"same"`: `decoder_attention` without sliding window. `None`
            is T5's own.
        activation, gated: of the feed-forward layers: `"relu"`; in 1.1 `"gelu_tanh"` with a gate.
        tie_output: True for the transposed embedding as output layer; 1.1 has its own.
        num_buckets, max_distance: of the distances, see `BucketPositions`.
        norm_epsilon: of the RMS norms.
        dropout, seed: of all dropouts, including those of attention weights.
        suppress, force_end, recompute, loss_chunk_size: as in `Transformer`.

    Call arguments, results and errors: as in `Transformer`. A target begins with id 0. Search with
    `Searcher(model, start_id=0, end_id=1)`.

    >>> model = T5(100, 16, 32, num_layers=2, num_heads=4, key_dim=6, attention="evolving")
    >>> inputs = {"source": np.array([[5, 6, 1, 0]]), "target": np.array([[0, 7, 8]])}
    >>> tuple(model(inputs).shape)
    (1, 3, 100)
    """

    def __init__(
        self,
        vocabulary_size: int = 32128,
        hidden_dim: int = 512,
        intermediate_dim: int = 2048,
        num_layers: int = 6,
        num_decoder_layers: int | None = None,
        num_heads: int = 8,
        key_dim: int = 64,
        attention: AttentionLike = "multi_head",
        decoder_attention: AttentionLike | None = SAME,
        cross_attention: AttentionLike | None = SAME,
        activation: Activation = "relu",
        gated: bool = False,
        tie_output: bool = True,
        num_buckets: int = 32,
        max_distance: int = 128,
        norm_epsilon: float = 1e-6,
        dropout: float = 0.1,
        suppress: Sequence[int] = (),
        force_end: bool = False,
        recompute: bool = False,
        loss_chunk_size: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        feed_forward = FeedForward(
            intermediate_dim, activation, dropout, gated, use_bias=False, kernel_initializer="lecun_normal"
        )
        templates = {
            **_attention_templates(attention, decoder_attention, cross_attention, num_heads, key_dim, dropout),
            "norm": Template.of_norm(layers.RMSNormalization(epsilon=norm_epsilon)),
            "feed_forward": Template("feed_forward", feed_forward),
            "positions": Template("positions", None),
            "relative_positions": Template("relative_positions", BucketPositions(num_buckets, max_distance)),
        }
        super().__init__(
            vocabulary_size,
            None,
            num_layers,
            num_decoder_layers,
            hidden_dim,
            intermediate_dim,
            num_heads,
            templates=templates,
            dropout=dropout,
            normalization="pre",
            tie_output=tie_output,
            output_bias=False,
            suppress=suppress,
            force_end=force_end,
            recompute=recompute,
            loss_chunk_size=loss_chunk_size,
            seed=seed,
            embedding_deviation=1.0,
            output_scale=hidden_dim**-0.5 if tie_output else None,
            output_dropout=True,
            padding_begins=True,
            **kwargs,
        )
        self.activation = activation
        self.vocabulary_size = as_python(vocabulary_size)
        self.key_dim = as_python(key_dim)
        self.gated = check_boolean("gated", gated)
        self.num_buckets = as_python(num_buckets)
        self.max_distance = as_python(max_distance)
        self.norm_epsilon = as_python(norm_epsilon)

    @classmethod
    def from_size(cls, size: str, **kwargs: Any) -> Self:
        """Makes a `T5` of a published size, with random weights.

        Args:
            size: one of `keras_headattn.models.T5_SIZES`: "t5_small" to "t5_11b", or "t5_v1_1_small" to "t5_v1_1_xxl".
            **kwargs: arguments of `T5`, which override the size's.

        >>> model = T5.from_size("t5_v1_1_small", num_layers=2)
        >>> model.hidden_dim, model.num_layers, model.gated
        (512, 2, True)
        """
        return cls(**arguments_of_size(T5_SIZES, size, **kwargs))

    def get_config(self) -> dict[str, Any]:
        return self._config_of(T5, ATTENTIONS)


def _attention_templates(attention, decoder_attention, cross_attention, num_heads, key_dim, dropout):
    """Returns templates of the three attentions in the form of T5."""

    def template(name, identifier, **overrides):
        identifier = "multi_head" if identifier is None else identifier
        made = Template.of_attention(name, identifier, num_heads, num_heads * key_dim)
        return Template(name, made.make({"scale": 1.0}, use_bias=False, dropout=dropout, **overrides))

    encoder = template("attention", attention)
    if decoder_attention != SAME:
        decoder = template("decoder_attention", decoder_attention)
    else:
        evolves = isinstance(encoder.layer, EvolvingAttention)
        decoder = template("decoder_attention", encoder, **({"alpha": 0.0} if evolves else {}))
    cross = decoder.across() if cross_attention == SAME else template("cross_attention", cross_attention)
    return dict(zip(ATTENTIONS, (encoder, decoder, cross), strict=True))
