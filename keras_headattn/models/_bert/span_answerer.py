from typing import Any

from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn.models._bert.bert import Bert
from keras_headattn.models._bert.encoder_heads import _Head
from keras_headattn.models._bert.modern_bert import ModernBert

MASKED = -1e9


@register_keras_serializable(package="keras_headattn")
class SpanAnswerer(_Head):
    """Head that finds the answer to a question in a text: logits of its first and its last token.

    A row has the question and the text, as a tokenizer joins them. Both logits are of one linear layer on the states of
    an encoder, after a dense layer with GELU and a norm for a `ModernBert`. They are float32 even under mixed
    precision. The first token stands for "no answer". Padding has logits of -1e9.

    Source: Devlin et al. 2019, sections 4.2 and 4.3; Warner et al. 2024.

    Args:
        encoder: `Bert` or `ModernBert`, not copied, with its weights and dtype. It needs no pooler.

    Call arguments:
        inputs: as in `Bert`, one question a row. A dictionary may also have `"answer_mask"`, `(B, n)`: nonzero for
            tokens that an answer may begin or end with, such as those of the text and the first one. The others have
            logits of -1e9. Default: all.
        return_intermediates: returns `(logits, out)`, as `Bert` does.

    Returns:
        `(B, 2, n)`, logits of the first and of the last token. Labels `(B, 2)` and
        `SparseCategoricalCrossentropy(from_logits=True)` train it.

    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, pooler=False)
    >>> inputs = {"token_ids": np.ones((2, 5), "int32"), "answer_mask": np.array([[1, 0, 0, 1, 1]] * 2)}
    >>> tuple(SpanAnswerer(encoder)(inputs).shape)
    (2, 2, 5)
    """

    head_inputs = ("answer_mask",)
    takes_packed = False

    def __init__(self, encoder: Bert | ModernBert, **kwargs: Any):
        super().__init__(encoder, **kwargs)
        self._make_hidden()
        self.output_projection = self._dense("output_projection", 2)

    def _build_head(self, width):
        self._build_hidden(width)
        self.output_projection.build((None, None, width))

    def _head(self, inputs, outputs, training):
        logits = ops.cast(self.output_projection(self._hidden_states(outputs)), "float32")
        ids = inputs["token_ids"] if isinstance(inputs, dict) else inputs
        allowed = ops.not_equal(ids, self.encoder.pad_id)
        if isinstance(inputs, dict) and "answer_mask" in inputs:
            allowed = ops.logical_and(allowed, ops.cast(inputs["answer_mask"], "bool"))
        return ops.where(allowed[:, None], ops.transpose(logits, (0, 2, 1)), MASKED)
