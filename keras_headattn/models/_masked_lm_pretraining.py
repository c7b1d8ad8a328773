import itertools

import keras
import numpy as np
from keras import ops
from keras.saving import deserialize_keras_object, register_keras_serializable, serialize_keras_object

from keras_headattn._model import Model
from keras_headattn._validation import natural, number
from keras_headattn.losses import LabelSmoothedCrossentropy
from keras_headattn.models._encoder_heads import MaskedLM
from keras_headattn.models._masking import draw_positions, mask, most_drawn, number_drawn

MASKS = ("masked_ids", "mask_positions", "mask_weights")
COUNTS = ("mean_masks", "mean_tokens")


class _Mean(keras.losses.Loss):
    """The mean of losses that are there already. Keras divides it by the number of replicas, whose sum is taken."""

    def call(self, y_true, y_pred):
        return y_pred


@register_keras_serializable(package="keras_headattn")
class MaskedLMPretraining(Model):
    """Masked language modelling: a `MaskedLM` is trained to fill in tokens, which this model masks by itself.

    Of `n` tokens, special ones too, `round(0.15 n)` are drawn, new ones at every step, none of them special. 80 % of
    these are masked, 10 % become a random token, and 10 % stay. The loss is the mean cross-entropy over what was drawn.

    `compile` takes an optimizer alone; `fit` takes texts alone, and logs `loss` and `masked_accuracy`.

    Source: Devlin et al. 2019, "BERT: Pre-training of deep bidirectional transformers", section 3.1, without the
    prediction of the next sentence.

    Args:
        masked_lm: `MaskedLM`. It is used itself. Its encoder needs no pooler.
        mask_id: id of the token that masks.
        special_ids: ids of tokens that are never drawn, such as [CLS] and [SEP]; nor are padding and `mask_id`.
        drawn_share: share of the tokens that are drawn.
        masked_share: share of these that are masked.
        random_share: share of these that become a random token, which is none of the special ones.
        replacement: whether a token may be drawn more than once, as in ELECTRA's program. Default `False`.
        seed: of the masks. How many were drawn is a state of the model, which `training.Resume` restores, and replicas
            draw other ones. Outside training they are those of a fixed seed.

    Call arguments:
        inputs: as of `Bert`, texts of one known length. A dictionary may have masks, which `draw_masks` makes, and
            counts, which `with_counts` makes of a batch that is to be split over replicas.
        training: whether dropout is active.

    Returns:
        Dictionary of `"mask_logits"` `(B, K, V)`, in float32, and, all `(B, K)`, `"mask_positions"`, `"mask_weights"`,
        `"mask_labels"` and `"mask_losses"`.

    Raises:
        ValueError: naming the argument and what was received.

    >>> from keras_headattn.models import Bert
    >>> encoder = Bert(100, hidden_dim=16, intermediate_dim=32, num_layers=1, num_heads=4, pooler=False)
    >>> model = MaskedLMPretraining(MaskedLM(encoder), mask_id=4, special_ids=(2, 3))
    >>> model.compile("adam")
    >>> history = model.fit({"token_ids": np.full((8, 12), 7)}, verbose=0)
    >>> sorted(history.history)
    ['loss', 'masked_accuracy']
    """

    def __init__(
        self,
        masked_lm,
        mask_id,
        special_ids,
        drawn_share=0.15,
        masked_share=0.8,
        random_share=0.1,
        replacement=False,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.masked_lm = check_head("masked_lm", masked_lm, MaskedLM)
        self.mask_id = natural("mask_id", mask_id)
        self.special_ids = _ids("special_ids", special_ids)
        self.drawn_share = number("drawn_share", drawn_share, above=0, most=1)
        self.masked_share = number("masked_share", masked_share, least=0, most=1)
        self.random_share = number("random_share", random_share, least=0, most=1 - masked_share)
        self.replacement = replacement
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        size, self.pad_id = masked_lm.encoder.vocabulary_size, masked_lm.encoder.pad_id
        self._never_drawn = sorted({self.pad_id, mask_id, *special_ids})
        self._random_tokens = np.setdiff1d(np.arange(size), self._never_drawn).tolist()
        if self._never_drawn[-1] >= size or not self._random_tokens:
            raise ValueError(
                "`mask_id` and `special_ids` must be some ids of the vocabulary. "
                f"Received: mask_id={mask_id}, special_ids={special_ids} and a vocabulary of {size}"
            )
        self.means = {"masked_accuracy": keras.metrics.Mean(name="masked_accuracy")}
        self._mean = _Mean("mean", dtype="float32")
        self._crossentropy = LabelSmoothedCrossentropy(0.0, reduction=None)

    def draw_masks(self, inputs, training=True):
        """Draws the masks of a batch, as a call without masks does by itself. Those of a validation set are drawn once.

        Args:
            inputs: as of a call.
            training: bool; `False`: the numbers are those of a fixed seed.

        Returns:
            `inputs`; `"masked_ids"` `(B, n)`, the text with masks; `"mask_positions"` `(B, K)`; and `"mask_weights"`
            `(B, K)`, 1.0, or 0.0 where fewer are drawn, at position 0. K is `int((drawn_share + 0.005) * n)`, and 1 at
            least.

        Raises:
            ValueError: if the length of the texts is not known when a graph is made.
        """
        return self._draw(_as_dictionary(inputs), self._seeds(training))

    def with_counts(self, inputs):
        """Adds the counts that losses are divided by to a batch that is to be split over replicas.

        Without them each replica divides by the counts of its own rows.

        Args:
            inputs: as of a call, the whole batch.

        Returns:
            `inputs`; and, both `(B,)`, `"mean_masks"` and `"mean_tokens"`: how many tokens of a row are drawn, and how
            many are no padding, on average. All rows have the same number.
        """
        inputs = _as_dictionary(inputs)
        counts = {name: self._count(inputs, name) for name in COUNTS}
        return {**inputs, **{name: ops.full_like(count, ops.mean(count)) for name, count in counts.items()}}

    def _count(self, inputs, name):
        """Of each row `(B,)` the count that the batch brings; or else its tokens that are drawn, or are no padding."""
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
        """Which tokens are no padding, and which of them may be drawn, both `(B, n)`."""
        is_special = ops.stack([ops.equal(ids, each) for each in self._never_drawn])
        return ops.not_equal(ids, self.pad_id), ops.logical_not(ops.any(is_special, axis=0))

    def _seeds(self, training):
        """The seeds of a call; outside training fixed ones: an evaluation can be repeated, and changes nothing."""
        return itertools.repeat(self.seed_generator) if training else itertools.count()

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

    def build(self, input_shape=None):
        if not self.masked_lm.built:
            self.masked_lm.build()
        self.built = True

    def call(self, inputs, training=None):
        return self._fill_in(_as_dictionary(inputs), self._seeds(training), training)

    def _fill_in(self, inputs, seeds, training):
        given = [name for name in MASKS if name in inputs]
        if given and len(given) < len(MASKS):
            raise ValueError(f"Masks are {', '.join(MASKS)}: `draw_masks` makes all of them. Received: {given} alone")
        inputs = inputs if given else self._draw(inputs, seeds)
        positions = ops.cast(inputs["mask_positions"], "int32")
        logits = self.masked_lm(
            {**text_of(inputs, inputs["masked_ids"]), "mask_positions": positions}, training=training
        )
        labels = ops.cast(ops.take_along_axis(inputs["token_ids"], positions, axis=1), "int32")
        return {
            "mask_positions": positions,
            "mask_weights": ops.cast(inputs["mask_weights"], "float32"),
            "mask_labels": labels,
            "mask_logits": logits,
            "mask_losses": self._crossentropy(labels, logits),
        }

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return self._mean_loss(x, "mean_masks", y_pred["mask_losses"], y_pred["mask_weights"])

    def _mean_loss(self, inputs, count, losses, weights):
        """The sum of weighted losses `(B, m)` over a count; on a replica its part, if the batch brings the counts."""
        each = ops.maximum(ops.mean(self._count(_as_dictionary(inputs), count)), 1e-6)
        return self._mean(weights, losses, sample_weight=weights * (losses.shape[1] / each))

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        logits, labels = y_pred["mask_logits"], y_pred["mask_labels"]
        # As `argmax` equals the label, which takes eight times as long on TensorFlow.
        found = ops.equal(ops.take_along_axis(logits, labels[..., None], axis=-1)[..., 0], ops.max(logits, axis=-1))
        self.means["masked_accuracy"].update_state(found, y_pred["mask_weights"])
        return self.get_metrics_result()

    def get_config(self):
        names = ("mask_id", "special_ids", "drawn_share", "masked_share", "random_share", "replacement", "seed")
        own = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **own, "masked_lm": serialize_head(self.masked_lm)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        masked_lm = deserialize_keras_object(config["masked_lm"], custom_objects)
        return super().from_config({**config, "masked_lm": masked_lm}, custom_objects)


def check_head(name, head, kind):
    if not isinstance(head, kind):
        raise ValueError(f"`{name}` must be a keras_headattn.models.{kind.__name__}. Received: {name}={head!r}")
    return head


def serialize_head(head):
    config = serialize_keras_object(head)
    config.pop("build_config", None)  # the model builds it
    return config


def text_of(inputs, ids):
    """Inputs of an encoder, with these token ids."""
    return {**{name: inputs[name] for name in ("segment_ids",) if name in inputs}, "token_ids": ids}


def _as_dictionary(inputs):
    return inputs if isinstance(inputs, dict) else {"token_ids": inputs}


def _ids(name, ids):
    if not isinstance(ids, (list, tuple)):
        raise ValueError(f"`{name}` must be a list of token ids. Received: {name}={ids!r}")
    return [natural(name, each) for each in ids]
