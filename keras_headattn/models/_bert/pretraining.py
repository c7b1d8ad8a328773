"""Base of models that mask tokens, with the means of losses over them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_headattn._identifiers import arguments_of, check_seed
from keras_headattn._model import Model
from keras_headattn._random import sample
from keras_headattn._types import Tensor
from keras_headattn._validation import check_boolean, check_index, check_number, check_positive
from keras_headattn.losses import MeanOfLosses
from keras_headattn.models._bert.encoder import Encoder
from keras_headattn.models._bert.masking import draw_positions, mask, most_drawn, number_drawn
from keras_headattn.ops._linear_crossentropy import is_likeliest, map_logits, smoothed_crossentropy

MASKS = ("masked_ids", "mask_positions", "mask_weights")
COUNTS = ("mean_masks", "mean_tokens")


class Pretraining(Model):
    """Base of `MaskedLMPretraining` and `ElectraPretraining`, which document its arguments.

    Args:
        encoder: the one that sets vocabulary and padding.
    """

    def __init__(
        self,
        encoder: Encoder,
        mask_id: int,
        special_ids: Sequence[int],
        drawn_share: float,
        masked_share: float,
        random_share: float,
        replacement: bool = False,
        loss_chunk_size: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.mask_id = check_index("mask_id", mask_id)
        self.special_ids = _ids("special_ids", special_ids)
        self.drawn_share = check_number("drawn_share", drawn_share, above=0, most=1)
        self.masked_share = check_number("masked_share", masked_share, least=0, most=1)
        self.random_share = check_number("random_share", random_share, least=0, most=1 - masked_share)
        self.replacement = check_boolean("replacement", replacement)
        self.loss_chunk_size = None if loss_chunk_size is None else check_positive("loss_chunk_size", loss_chunk_size)
        self.seed = check_seed("seed", seed)
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.pad_id = encoder.pad_id
        self._never_drawn = sorted({self.pad_id, mask_id, *special_ids})
        self._random_tokens = np.setdiff1d(np.arange(encoder.vocabulary_size), self._never_drawn).tolist()
        if self._never_drawn[-1] >= encoder.vocabulary_size or not self._random_tokens:
            raise ValueError(
                "`mask_id` and `special_ids` must be ids of the vocabulary, not all of them. "
                f"Received: mask_id={mask_id}, special_ids={special_ids} and a vocabulary of {encoder.vocabulary_size}"
            )
        self.means = {"masked_accuracy": keras.metrics.Mean(name="masked_accuracy")}
        self._mean = MeanOfLosses()

    def draw_masks(self, inputs: Tensor | Mapping[str, Tensor], training: bool = True) -> dict[str, Tensor]:
        """Draws the masks of a batch, such as once for a validation set; a call without masks draws its own.

        Args:
            inputs: as in a call.
            training: False to draw from a fixed seed.

        Returns:
            `inputs`; `"masked_ids"` `(B, n)`, the text with masks; `"mask_positions"` `(B, K)`; and `"mask_weights"`
            `(B, K)`, 1.0, or 0.0 (at position 0) where fewer are drawn. K is `int((drawn_share + 0.005) * n)`, at least
            1.
        """
        return self._draw(as_dictionary(inputs), self._seeds(training))

    def with_counts(self, inputs: Tensor | Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Adds the counts that losses are divided by to a batch that replicas will share.

        Without them each replica divides by the counts of its own rows.

        Args:
            inputs: as in a call, the whole batch.

        Returns:
            `inputs`; and `"mean_masks"` and `"mean_tokens"`, both `(B,)`: drawn tokens and real tokens per row,
            averaged over the batch.
        """
        inputs = as_dictionary(inputs)
        counts = {name: self._count(inputs, name) for name in COUNTS}
        return {**inputs, **{name: ops.full_like(count, ops.mean(count)) for name, count in counts.items()}}

    def _count(self, inputs, name):
        """Returns the batch's own counts `(B,)`, or counts the drawn or real tokens of each row."""
        if name in inputs:
            return inputs[name]
        is_real, is_free = self._places(inputs["token_ids"])
        if name == "mean_tokens":
            count = ops.sum(ops.cast(is_real, "int32"), axis=1)
        elif "mask_weights" in inputs:
            count = ops.sum(inputs["mask_weights"], axis=1)
        else:
            count = number_drawn(is_real, is_free, self.drawn_share, self.replacement)
        return ops.cast(count, "float32")

    def _places(self, ids):
        """Returns the real tokens, and those that may be drawn: both boolean `(B, n)`."""
        is_special = ops.stack([ops.equal(ids, special_id) for special_id in self._never_drawn])
        return ops.not_equal(ids, self.pad_id), ops.logical_not(ops.any(is_special, axis=0))

    def _seeds(self, training):
        """Yields the seeds of a call; those of an evaluation are fixed, so that it can be repeated."""
        return itertools.repeat(self.seed_generator) if training else itertools.count()

    def _mask_tokens(self, inputs, seeds):
        """Returns the inputs with their own masks, or new ones."""
        present = [name for name in MASKS if name in inputs]
        if present and len(present) < len(MASKS):
            raise ValueError(f"`inputs` must have all of {', '.join(MASKS)}, as from `draw_masks`. Received: {present}")
        return inputs if present else self._draw(inputs, seeds)

    def _draw(self, inputs, seeds):
        ids = inputs["token_ids"]
        if ids.shape[1] is None:
            raise ValueError(f"The length of texts must be known. Received: token_ids of shape {tuple(ids.shape)}")
        is_real, is_free = self._places(ids)
        positions = draw_positions(is_free, most_drawn(self.drawn_share, ids.shape[1]), next(seeds), self.replacement)
        drawn = number_drawn(is_real, is_free, self.drawn_share, self.replacement)
        chosen = ops.less(np.arange(positions.shape[1], dtype="int32"), drawn[:, None])
        positions = ops.where(chosen, positions, 0)
        shares = self.masked_share, self.random_share
        masked = mask(ids, positions, chosen, self.mask_id, self._random_tokens, *shares, seeds)
        return {**inputs, **dict(zip(MASKS, (masked, positions, ops.cast(chosen, "float32")), strict=True))}

    def _fill_in(self, head, inputs, training, seed=None):
        """Computes losses of masked tokens by a `MaskedLM`, and samples tokens with a seed: dictionary, see
        `ElectraPretraining`.
        """
        positions = ops.cast(inputs["mask_positions"], "int32")
        texts = {**text_of(inputs, inputs["masked_ids"]), "mask_positions": positions}
        labels = ops.cast(ops.take_along_axis(inputs["token_ids"], positions, axis=1), "int32")
        rows = (
            [labels] if seed is None else [labels, keras.random.uniform(ops.shape(labels), dtype="float32", seed=seed)]
        )
        outputs = {
            "mask_positions": positions,
            "mask_weights": ops.cast(inputs["mask_weights"], "float32"),
            "mask_labels": labels,
        }
        if self.loss_chunk_size is None:
            outputs["mask_logits"] = head(texts, training=training)
            measured = _measure(outputs["mask_logits"], *rows)
        else:
            states = head.states(texts, training)
            measured = map_logits(_measure, states, *head.output_weights(), rows, self.loss_chunk_size)
        losses, is_right, *sampled = measured
        outputs |= {"mask_losses": losses, "mask_is_right": ops.cast(is_right, "bool")}
        return outputs | ({"sampled_ids": ops.cast(sampled[0], "int32")} if sampled else {})

    def _mean_loss(self, inputs, count, losses, weights):
        """Divides the sum of weighted losses `(B, m)` by a count, so that replicas add up to the batch's mean."""
        mean_count = ops.maximum(ops.mean(self._count(as_dictionary(inputs), count)), 1e-6)
        return self._mean(weights, losses, sample_weight=weights * (losses.shape[1] / mean_count))

    def _update_means(self, measured):
        """Updates metrics by name from pairs of values and weights."""
        for name, (values, weights) in measured.items():
            self.means[name].update_state(values, weights)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, Pretraining, "encoder")}


def _measure(logits, labels, *shares):
    """Returns losses, which labels are the likeliest tokens, and tokens sampled with random shares."""
    sampled = [sample(logits, share) for share in shares]
    return [smoothed_crossentropy(labels, logits, 0.0), is_likeliest(labels, logits), *sampled]


def check_head(name, head, kind):
    if not isinstance(head, kind):
        raise ValueError(f"`{name}` must be a keras_headattn.models.{kind.__name__}. Received: {name}={head!r}")
    return head


def text_of(inputs, ids):
    """Returns inputs of an encoder with these token ids."""
    return {**{name: inputs[name] for name in ("segment_ids", "sequence_ids") if name in inputs}, "token_ids": ids}


def as_dictionary(inputs):
    return inputs if isinstance(inputs, dict) else {"token_ids": inputs}


def _ids(name, ids):
    if not isinstance(ids, (list, tuple)):
        raise ValueError(f"`{name}` must be a list of token ids. Received: {name}={ids!r}")
    return [check_index(name, token_id) for token_id in ids]
