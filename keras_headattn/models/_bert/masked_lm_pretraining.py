from collections.abc import Mapping, Sequence
from typing import Any

from keras.saving import register_keras_serializable

from keras_headattn._private import with_added_losses
from keras_headattn._types import Tensor
from keras_headattn.models._bert.encoder_heads import MaskedLM
from keras_headattn.models._bert.pretraining import Pretraining, as_dictionary, check_head


@register_keras_serializable(package="keras_headattn")
class MaskedLMPretraining(Pretraining):
    """Masked language modelling: masks tokens and trains a `MaskedLM` to fill them in.

    Draws `round(0.15 n)` of `n` tokens at every step, none of them special. Of these, 80 % are masked, 10 % become a
    random token, and 10 % stay. The loss is the mean cross-entropy over the drawn tokens.

    `compile` takes only an optimizer; `fit` takes only texts, and logs `loss` and `masked_accuracy`.

    Source: Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers", section 3.1, without
    next-sentence prediction.

    Args:
        masked_lm: `MaskedLM`, not copied. Its encoder needs no pooler.
        mask_id: id of the mask token.
        special_ids: ids of tokens that are never drawn, such as [CLS] and [SEP], besides padding and `mask_id`.
        drawn_share: share of all tokens, special ones included, to draw.
        masked_share: share of the drawn tokens to mask.
        random_share: share of the drawn tokens to replace by a random one, never a special one.
        replacement: True to allow drawing a token twice, as in ELECTRA's program. Default False.
        loss_chunk_size: number of drawn tokens per chunk of logits, see `ops.linear_crossentropy`; the result then has
            no `"mask_logits"`. Default `None`: all.
        seed: of the masks. `training.Resume` restores its state; replicas draw different masks. Outside training, masks
            come from a fixed seed.

    Call arguments:
        inputs: as in `Bert`, texts of one known length. A dictionary may have masks from `draw_masks`, and counts from
            `with_counts`.

    Returns:
        Dictionary of `"mask_logits"` `(B, K, V)`, in float32, if there is no `loss_chunk_size`; and, all `(B, K)`,
        `"mask_positions"`, `"mask_weights"`, `"mask_labels"`, `"mask_losses"` and `"mask_is_right"`, True where the
        label is the likeliest token.

    >>> from keras_headattn.models import Bert
    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, pooler=False)
    >>> model = MaskedLMPretraining(MaskedLM(encoder), mask_id=4, special_ids=(2, 3))
    >>> model.compile("adam")
    >>> history = model.fit({"token_ids": np.full((8, 12), 7)}, verbose=0)
    >>> sorted(history.history)
    ['loss', 'masked_accuracy']
    """

    layer_arguments = ("masked_lm",)

    def __init__(
        self,
        masked_lm: MaskedLM,
        mask_id: int,
        special_ids: Sequence[int],
        drawn_share: float = 0.15,
        masked_share: float = 0.8,
        random_share: float = 0.1,
        replacement: bool = False,
        loss_chunk_size: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        encoder = check_head("masked_lm", masked_lm, MaskedLM).encoder
        shares = (drawn_share, masked_share, random_share)
        super().__init__(encoder, mask_id, special_ids, *shares, replacement, loss_chunk_size, seed, **kwargs)
        self.masked_lm = masked_lm

    def build(self, input_shape: Any = None) -> None:
        if not self.masked_lm.built:
            self.masked_lm.build()
        self.built = True

    def call(self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        masked = self._mask_tokens(as_dictionary(inputs), self._seeds(training))
        return self._fill_in(self.masked_lm, masked, training)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        loss = self._mean_loss(x, "mean_masks", y_pred["mask_losses"], y_pred["mask_weights"])
        return with_added_losses(self, loss)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        self._update_means({"masked_accuracy": (y_pred["mask_is_right"], y_pred["mask_weights"])})
        return self.get_metrics_result()
