"""Base of models that decode tokens step by step."""

from typing import Any

import keras
from keras import layers, ops

from keras_headattn._types import Tensor
from keras_headattn.models._blocks import Stack
from keras_headattn.models._chunked_loss import ChunkedLossModel
from keras_headattn.ops._dense import apply_kernel, sizes


class DecoderModel(ChunkedLossModel):
    """Model with a stack of decoder blocks, and a dense layer or a transposed embedding as its output layer.

    A subclass sets `decoder_stack`, `tie_output`, `output_bias` and, unless it is tied, `output_projection`.
    """

    decoder_stack: Stack
    output_projection: layers.Dense | None = None
    tie_output: bool
    output_bias: bool

    @property
    def output_embedding(self) -> layers.ReversibleEmbedding:
        """Embedding whose transpose is a tied output layer."""
        raise NotImplementedError

    def _make_output_projection(self, size: int, initializer: keras.initializers.Initializer) -> layers.Dense:
        options = dict(use_bias=self.output_bias, kernel_initializer=initializer, dtype=self.dtype_policy)
        return layers.Dense(size, name="output_projection", **options)

    def _build_output(self, shape: tuple[int | None, ...]) -> None:
        if self.output_projection:
            self.output_projection.build(shape)
        elif self.output_bias:
            size = self.output_embedding.input_dim
            self.tied_bias = self.add_weight(name="output_bias", shape=(size,), initializer="zeros")

    def output_weights(self, ids: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Returns the output layer's kernel `(D, V)`, in the dtype of the states, and its bias `(V,)` or `None`.

        Args:
            ids: int `(S,)`, the tokens whose columns are returned, `(D, S)`. Default `None`: all.

        Raises:
            ValueError: if the layer is quantised.
        """
        layer = self.output_projection or self.output_embedding
        if layer.quantization_mode is not None:
            raise ValueError(f"The output layer must not be quantised. Received: {layer.quantization_mode}")
        if self.output_projection:
            kernel, bias = layer.kernel, layer.bias
            kernel = kernel if ids is None else ops.take(kernel, ids, axis=1)
        else:
            rows, bias = layer.embeddings, self.tied_bias if self.output_bias else None
            kernel = ops.transpose(rows if ids is None else ops.take(rows, ids, axis=0))
        bias = bias if ids is None or bias is None else ops.take(bias, ids)
        kernel, bias = (None if x is None else ops.cast(x, self.compute_dtype) for x in (kernel, bias))
        return kernel, bias

    def _logits(self, states: Tensor, weights: dict[str, Tensor] | None = None) -> Tensor:
        """Returns float32 logits of states `(..., D)`, by the weights of `decoding_kernels` if given."""
        if weights is not None:
            logits = apply_kernel(weights, states)
            logits = ops.reshape(logits, (*sizes(states)[:-1], logits.shape[-1]))
        elif self.output_projection:
            logits = self.output_projection(states)
        else:
            logits = self.output_embedding(states, reverse=True)
            if self.output_bias:
                logits = logits + ops.cast(self.tied_bias, logits.dtype)
        logits = ops.cast(logits, "float32")
        cap = self.logits_soft_cap
        return logits if cap is None else cap * ops.tanh(logits / cap)

    def decoding_kernels(self) -> dict[str, Any]:
        """Makes the kernels of decoding from the weights, see `Attention.decoding_kernels`.

        Returns:
            Dictionary of `"blocks"`, a list with the kernels of each decoder block, and `"output"`, the output layer's.
        """
        kernels = {"blocks": self.decoder_stack.decoding_kernels()}
        if self.tie_output and self.output_embedding.quantization_mode is None:
            kernel, bias = self.output_weights()
            kernels["output"] = {"kernel": kernel} | ({} if bias is None else {"bias": bias})
        return kernels

    @property
    def beams_share_rows(self) -> bool:
        """True if hypotheses of a beam may share one cache, in any order."""
        return not any(layer.rows_interact for layer in self._attentions())

    def _attentions(self):
        if not self.built:
            self.build()
        return self.decoder_stack.attentions

    def grow_cache(self, cache: dict[str, Any], max_length: int) -> dict[str, Any]:
        """Returns the cache with room for more tokens.

        Args:
            cache: from `init_cache` or `decode_step`.
            max_length: new number of rows, an integer, at least the present one.
        """
        return {**cache, "blocks": self.decoder_stack.grow_cache(cache["blocks"], max_length)}

    def reorder_cache(self, cache: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Returns the cache of a batch whose sentences are `rows` of this one, hypotheses of the same sources.

        Args:
            cache: from `init_cache` or `decode_step`.
            rows: integers `(B,)`.
        """
        return {**cache, "blocks": self.decoder_stack.reorder_cache(cache["blocks"], rows)}
