from collections.abc import Mapping
from typing import Any

from keras import layers
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of
from keras_headattn._types import Activation, AttentionLike, Tensor
from keras_headattn._validation import check_positive
from keras_headattn.layers._norms import apply_norm
from keras_headattn.models._bert.encoder import Encoder
from keras_headattn.models._bert.sizes import MODERNBERT_SIZES
from keras_headattn.models._blocks import Stack
from keras_headattn.positions import RotaryPositions


@register_keras_serializable(package="keras_headattn")
class ModernBert(Encoder):
    """Encoder of ModernBERT with any attention layer whose scores are products of queries and keys.

    Pre-norm blocks with GeGLU feed-forward layers, rotary positions, and sliding windows in two of three blocks. The
    first block has no norm before its attention, as the embeddings have theirs, and a norm follows the last one.

    Source: Warner et al. 2024, "Smarter, better, faster, longer", section 2.1.

    Args:
        vocabulary_size, hidden_dim, intermediate_dim, num_layers, num_heads, attention: as in `Bert`.
        sliding_window: a query attends only to keys less than this many positions away, except in every
            `global_every`-th block, from the first. `None` for no window, or that of `attention`.
        global_every: distance of the blocks without a sliding window.
        max_wavelength, local_max_wavelength: of the rotary positions of blocks without and with a sliding window, see
            `positions.RotaryPositions`.
        use_bias: True for biases in dense layers and norms. A head's output layer always has one.
        pad_id, activation, norm_epsilon, dropout, attention_dropout, initializer_range, recompute, seed: as in `Bert`.

    Call arguments:
        inputs, return_intermediates: as in `Bert`. `"segment_ids"` are ignored, as the model has no segments.

    Returns:
        Dictionary of `"sequence_output"` `(B, n, hidden_dim)`.

    >>> model = ModernBert(100, hidden_dim=16, intermediate_dim=24, num_layers=3, num_heads=4)
    >>> tuple(model(np.ones((2, 5), "int32"))["sequence_output"].shape)
    (2, 5, 16)
    """

    sizes = MODERNBERT_SIZES

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int = 768,
        intermediate_dim: int = 1152,
        num_layers: int = 22,
        num_heads: int = 12,
        attention: AttentionLike = "multi_head",
        sliding_window: int | None = 65,
        global_every: int = 3,
        max_wavelength: float = 160_000.0,
        local_max_wavelength: float = 10_000.0,
        use_bias: bool = False,
        pad_id: int = 0,
        activation: Activation = "gelu",
        norm_epsilon: float = 1e-5,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        initializer_range: float = 0.02,
        recompute: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(
            vocabulary_size, hidden_dim, intermediate_dim, num_layers, num_heads, attention, pad_id, activation,
            norm_epsilon, dropout, attention_dropout, initializer_range, recompute, seed, use_bias, **kwargs,
        )  # fmt: skip
        self.sliding_window = None if sliding_window is None else check_positive("sliding_window", sliding_window)
        self.global_every = check_positive("global_every", global_every)
        self.max_wavelength = max_wavelength
        self.local_max_wavelength = local_max_wavelength
        self.token_embedding = self._make_token_embedding()
        self.embedding_norm = self._norm("embedding_norm")
        self.embedding_dropout = layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)
        pre_norm = dict(gated=True, normalization="pre")
        self.blocks = [self._make_block(i, self._attention(i), **pre_norm) for i in range(num_layers)]
        self.blocks[0].takes_normalized = True
        self.stack = Stack(self.blocks)
        self.final_norm = self._norm("final_norm")

    def _attention(self, index):
        is_local = self.sliding_window is not None and index % self.global_every > 0
        positions = RotaryPositions(self.local_max_wavelength if is_local else self.max_wavelength)
        window = {"sliding_window": self.sliding_window} if is_local else {}
        return self.template.make(relative_positions=positions, **window)

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.hidden_dim)
        self.token_embedding.build((None, None))
        self.embedding_norm.build(shape)
        self.stack.build(shape)
        self.final_norm.build(shape)
        self.built = True

    def embed(self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        x = apply_norm(self.embedding_norm, self.token_embedding(self._read(inputs)["token_ids"]))
        return self.embedding_dropout(x, training=training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, ModernBert, "attention")}
