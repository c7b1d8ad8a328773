from collections.abc import Sequence
from typing import Any, Self

import keras
from keras.saving import register_keras_serializable

from keras_headattn._types import Activation, AttentionLike
from keras_headattn._validation import check_positive, check_probability
from keras_headattn.layers import FeedForward
from keras_headattn.layers._template import Template
from keras_headattn.models._sizes import SIZES, arguments_of_size
from keras_headattn.models._transformer.encoder_decoder import EncoderDecoder
from keras_headattn.positions import Positions, SinusoidalPositions


@register_keras_serializable(package="keras_headattn")
class Transformer(EncoderDecoder):
    """Encoder-decoder Transformer with any attention layer of this library.

    Token id 0 is padding. Outputs are logits, in float32 even under mixed precision.

    Source: Vaswani et al. 2017, "Attention is all you need".

    Args:
        source_vocabulary_size, target_vocabulary_size: numbers of token ids. Without the latter, both languages share a
            vocabulary and an embedding.
        num_layers, num_decoder_layers: number of encoder blocks, and of decoder blocks, by default the same.
        hidden_dim, intermediate_dim: width of the model and of its feed-forward layers.
        attention: a layer, such as `InteractingHeadAttention(8, 64)`, which every block copies; or a class or a name,
            such as `"talking_heads"`, made with `num_heads` heads, together as wide as the model; or the stock Keras
            layer. See `layers.get`.
        decoder_attention, cross_attention: decoder's self-attention and attention to the encoder. Default to
            `attention`, the latter without relative positions and sliding window.
        num_heads: for attention given by a class or a name. Default 8.
        dropout, seed: rate of dropout of embeddings and sublayers (`attention` sets its own), and seed of all.
        activation, activation_dropout: activation and dropout rate inside the feed-forward layers.
        normalization: `"post"`, `"pre"`, `"parallel"`, `"sandwich"` or `"output"`, see `layers.EncoderBlock`. All but
            `"post"` have a norm after the last block of each stack.
        norm: layer to copy, such as `keras.layers.RMSNormalization()`. Defaults to
            `keras.layers.LayerNormalization(epsilon=1e-6)`.
        feed_forward: layer to copy, such as `FeedForward(32, "gelu", gated=True)`, in place of `intermediate_dim`,
            `activation` and `activation_dropout`.
        positions: layer to copy that adds positions to the embeddings, such as `LearnedPositions(128)`. Default
            `"sinusoidal"`: `SinusoidalPositions()`. `None` for none.
        relative_positions: one of `keras_headattn.positions` to copy, such as `BucketPositions()`: the self-attentions
            of the encoder share one, and those of the decoder another.
        tie_output, output_bias: True for the transposed target embedding as output layer, and for its bias.
        suppress: list of token ids that a `decoding.Searcher` never produces. Default `()`.
        force_end: True for a `decoding.Searcher` that ends each result within its `max_length`. Default False.
        recompute: True to keep only each block's inputs for the backward pass and compute the rest again: less memory,
            but a third more time.
        loss_chunk_size: number of target tokens per chunk of logits in `fit` and `evaluate`, which then log `accuracy`;
            `compile` takes only a `LabelSmoothedCrossentropy`, see `ChunkedLossModel`. Default `None`: all.

    Call arguments:
        inputs: dictionary of integer tensors `"source"` `(B, n)` and `"target"` `(B, m)`, the target shifted to the
            right.
        return_intermediates: returns `(logits, out)`: a dictionary of attentions, such as `"encoder_0/attention"` and
            `"decoder_0/cross_attention"`, to their tensors by name, such as `"weights"` `(B, h, n, m)`, see
            `layers.capture_intermediates`.

    Returns:
        Logits `(B, m, target_vocabulary_size)`.

    >>> model = Transformer(100, num_layers=1, hidden_dim=16, intermediate_dim=32, attention="talking_heads")
    >>> inputs = {"source": np.ones((2, 5), "int32"), "target": np.ones((2, 7), "int32")}
    >>> logits, out = model(inputs, return_intermediates=True)
    >>> tuple(logits.shape), tuple(out["decoder_0/cross_attention"]["weights"].shape)
    ((2, 7, 100), (2, 8, 7, 5))
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int | None = None,
        num_layers: int = 6,
        num_decoder_layers: int | None = None,
        hidden_dim: int = 512,
        intermediate_dim: int = 2048,
        attention: AttentionLike = "multi_head",
        decoder_attention: AttentionLike | None = None,
        cross_attention: AttentionLike | None = None,
        num_heads: int = 8,
        dropout: float = 0.1,
        activation_dropout: float = 0.0,
        activation: Activation = "relu",
        normalization: str = "post",
        norm: keras.layers.Layer | None = None,
        feed_forward: keras.layers.Layer | None = None,
        positions: str | keras.layers.Layer | None = "sinusoidal",
        relative_positions: Positions | None = None,
        tie_output: bool = True,
        output_bias: bool = False,
        suppress: Sequence[int] = (),
        force_end: bool = False,
        recompute: bool = False,
        loss_chunk_size: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        heads = dict(num_heads=check_positive("num_heads", num_heads), width=check_positive("hidden_dim", hidden_dim))
        hidden_dim, intermediate_dim = heads["width"], check_positive("intermediate_dim", intermediate_dim)
        activation_dropout = check_probability("activation_dropout", activation_dropout)
        templates = {
            **_attention_templates(attention, decoder_attention, cross_attention, heads),
            "norm": Template.of_norm(norm),
            "feed_forward": Template(
                "feed_forward", feed_forward or FeedForward(intermediate_dim, activation, activation_dropout)
            ),
            "positions": Template("positions", SinusoidalPositions() if positions == "sinusoidal" else positions),
            "relative_positions": Template("relative_positions", relative_positions),
        }
        super().__init__(
            source_vocabulary_size,
            target_vocabulary_size,
            num_layers,
            num_decoder_layers,
            hidden_dim,
            intermediate_dim,
            num_heads,
            templates=templates,
            dropout=dropout,
            normalization=normalization,
            tie_output=tie_output,
            output_bias=output_bias,
            suppress=suppress,
            force_end=force_end,
            recompute=recompute,
            loss_chunk_size=loss_chunk_size,
            seed=seed,
            embedding_deviation=hidden_dim**-0.5,
            embedding_scale=hidden_dim**0.5,
            **kwargs,
        )
        self.activation_dropout = activation_dropout
        self.activation = activation

    @classmethod
    def from_size(cls, size: str, *args: Any, num_heads: int | None = None, **kwargs: Any) -> Self:
        """Makes a `Transformer` of a named size.

        Args:
            size: one of `keras_headattn.models.SIZES`: "tiny", "small", "base", "big", "lite", "interacting".
            num_heads: overrides the size's; must divide the width.
            *args, **kwargs: arguments of `Transformer`, which override the size's.

        >>> model = Transformer.from_size("tiny", 100, attention="real_former", num_heads=8)
        >>> model.hidden_dim, model.num_layers
        (128, 4)
        """
        heads = {} if num_heads is None else {"num_heads": num_heads}
        return cls(*args, **arguments_of_size(SIZES, size, **kwargs, **heads))

    def get_config(self) -> dict[str, Any]:
        return self._config_of(Transformer, self.templates)


def _attention_templates(attention, decoder_attention, cross_attention, heads):
    template = Template.of_attention("attention", attention, **heads)
    templates = {"attention": template, "decoder_attention": template, "cross_attention": template.across()}
    for name, identifier in (("decoder_attention", decoder_attention), ("cross_attention", cross_attention)):
        if identifier is not None:
            templates[name] = Template.of_attention(name, identifier, **heads)
    return templates
