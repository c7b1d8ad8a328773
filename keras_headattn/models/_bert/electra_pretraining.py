from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
from keras import ops
from keras.saving import register_keras_serializable

from keras_headattn._identifiers import arguments_of, deserialize_layers, seed_plus
from keras_headattn._private import with_added_losses
from keras_headattn._types import AttentionLike, Tensor
from keras_headattn._validation import check_number
from keras_headattn.models._bert.bert import EMBEDDINGS, Bert
from keras_headattn.models._bert.encoder_heads import MaskedLM, ReplacedTokenDetector
from keras_headattn.models._bert.masking import replace_at
from keras_headattn.models._bert.pretraining import Pretraining, as_dictionary, check_head, text_of
from keras_headattn.models._bert.sizes import BERT_SIZES
from keras_headattn.models._sizes import arguments_of_size

# Width of the generator as a share of the discriminator's (Clark et al. 2020, table 6).
GENERATOR_SHARES = {
    "electra_small": dict(generator_share=1 / 4),
    "electra_base": dict(generator_share=1 / 3),
    "electra_large": dict(generator_share=1 / 4),
}
# Arguments of the class that `from_size` takes besides those of `Bert`.
_OWN = ("discriminator_weight", "drawn_share", "masked_share", "random_share", "replacement", "loss_chunk_size", "name")


@register_keras_serializable(package="keras_headattn")
class ElectraPretraining(Pretraining):
    """ELECTRA: a generator fills in masked tokens, and a discriminator learns which tokens were replaced.

    Draws `round(0.15 n)` of `n` tokens at every step, none of them special, and masks 85 % of these. Tokens sampled
    from the generator's softmax, without a gradient, replace all drawn tokens in the discriminator's text; it learns
    which ones differ from the original. The loss is the generator's mean cross-entropy over drawn tokens, plus 50 times
    the discriminator's mean sigmoid cross-entropy over real tokens.

    `compile` takes only an optimizer, `fit` only texts. It logs the losses, the generator's accuracy for its likeliest
    and for its sampled tokens, the share of replaced tokens, and the discriminator's accuracy, precision, recall and
    AUC.

    The encoders share embeddings and their norm: make the generator's encoder with `embeddings=discriminator.encoder`.

    Source: Clark et al. 2020, "ELECTRA: Pre-training text encoders as discriminators rather than generators"; and its
    program, google-research/electra, which draws with `replacement=True`: a token drawn twice becomes the one whose id
    is the mean of the two sampled ids, rounded down.

    Args:
        generator: `MaskedLM`, not copied.
        discriminator: `ReplacedTokenDetector`, not copied. Its encoder is the one to fine-tune.
        mask_id, special_ids, masked_share, random_share: as in `MaskedLMPretraining`.
        discriminator_weight: of the discriminator's loss. Default 50.
        drawn_share, replacement, loss_chunk_size, seed: as in `MaskedLMPretraining`.

    Call arguments:
        inputs: as in `MaskedLMPretraining`.

    Returns:
        As `MaskedLMPretraining`, with `"sampled_ids"` `(B, K)`, and, all `(B, n)`, `"replaced_ids"` (the
        discriminator's text), `"replaced_labels"`, `"replaced_logits"` and `"replaced_losses"`.

    >>> sizes = dict(vocabulary_size=100, num_layers=1, hidden_dim=32, intermediate_dim=32, embedding_dim=16)
    >>> model = ElectraPretraining.from_size("electra_small", mask_id=4, special_ids=(2, 3), **sizes)
    >>> model.compile("adam")
    >>> history = model.fit({"token_ids": np.full((8, 12), 7)}, verbose=0)
    >>> "discriminator_loss" in history.history, "detection_auc" in history.history
    (True, True)
    """

    layer_arguments = ("generator", "discriminator")

    def __init__(
        self,
        generator: MaskedLM,
        discriminator: ReplacedTokenDetector,
        mask_id: int,
        special_ids: Sequence[int],
        discriminator_weight: float = 50.0,
        masked_share: float = 0.85,
        random_share: float = 0.0,
        drawn_share: float = 0.15,
        replacement: bool = False,
        loss_chunk_size: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ):
        check_head("generator", generator, MaskedLM)
        check_head("discriminator", discriminator, ReplacedTokenDetector)
        generator_encoder, discriminator_encoder = generator.encoder, discriminator.encoder
        if any(
            getattr(generator_encoder, name, None) is not getattr(discriminator_encoder, name, None)
            for name in EMBEDDINGS
        ):
            raise ValueError(
                "`generator` must have the discriminator's embeddings: make its Bert with "
                f"`embeddings=discriminator.encoder`. Received: {generator_encoder.name} and "
                f"{discriminator_encoder.name}, each with its own"
            )
        shares = (drawn_share, masked_share, random_share)
        super().__init__(generator_encoder, mask_id, special_ids, *shares, replacement, loss_chunk_size, seed, **kwargs)
        self.generator = generator
        self.discriminator = discriminator
        self.discriminator_weight = check_number("discriminator_weight", discriminator_weight, least=0)
        names = ("generator_loss", "discriminator_loss", "sampled_accuracy", "replaced_share", "detection_accuracy")
        self.means.update({name: keras.metrics.Mean(name=name) for name in names})
        kinds = {"precision": keras.metrics.Precision, "recall": keras.metrics.Recall, "auc": keras.metrics.AUC}
        self.detection = [kind(name=f"detection_{name}") for name, kind in kinds.items()]

    @classmethod
    def from_size(
        cls,
        size: str,
        mask_id: int,
        special_ids: Sequence[int],
        generator_share: float | None = None,
        generator_attention: AttentionLike = "multi_head",
        seed: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Makes a model of a named size, with random weights.

        The generator has as many blocks as the discriminator, feed-forward layers four times its own width, and heads
        of 64 units, at least one.

        Args:
            size: "electra_small", "electra_base" or "electra_large".
            mask_id, special_ids: see the class. In BERT's vocabulary they are 103 and (101, 102).
            generator_share: width of the generator, as a share of the discriminator's. Default `None`: 1/4, or 1/3 for
                "electra_base", as in the paper. The published small weights use 1.
            generator_attention: the generator's attention: a class, a name or a function.
            seed: of the masks and the dropouts.
            **kwargs: arguments of the class; or of `Bert`, such as `vocabulary_size`, for both encoders (but
                `attention` only for the discriminator's).

        >>> model = ElectraPretraining.from_size("electra_small", 103, (101, 102), vocabulary_size=1000)
        >>> model.generator.encoder.hidden_dim, model.generator.encoder.num_heads
        (64, 1)
        """
        overrides = {} if generator_share is None else {"generator_share": generator_share}
        share = arguments_of_size(GENERATOR_SHARES, size, **overrides)["generator_share"]
        arguments = {name: kwargs.pop(name) for name in _OWN if name in kwargs}
        encoder = Bert(**{**BERT_SIZES[size], **kwargs}, seed=seed, name="encoder")
        width = round(encoder.hidden_dim * check_number("generator_share", share, above=0))
        sizes = dict(hidden_dim=width, intermediate_dim=4 * width, num_heads=max(1, width // 64))
        sizes |= dict(attention=generator_attention, embedding_dim=encoder.embedding_dim, embeddings=encoder)
        seed_there = seed_plus(seed, 10 * (encoder.num_layers + 1))
        theirs = Bert(**{**BERT_SIZES[size], **kwargs, **sizes}, seed=seed_there, name="encoder")
        generator = MaskedLM(theirs, name="generator", dtype=encoder.dtype_policy)
        discriminator = ReplacedTokenDetector(encoder, name="discriminator", dtype=encoder.dtype_policy)
        return cls(generator, discriminator, mask_id, special_ids, seed=seed, **arguments)

    def build(self, input_shape: Any = None) -> None:
        for head in (self.discriminator, self.generator):  # the embeddings are weights of the first
            if not head.built:
                head.build()
        self.built = True

    def call(self, inputs: Tensor | Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        seeds = self._seeds(training)
        inputs = self._mask_tokens(as_dictionary(inputs), seeds)
        outputs = self._fill_in(self.generator, inputs, training, next(seeds))
        ids = ops.cast(inputs["token_ids"], "int32")
        text = replace_at(ids, outputs["mask_positions"], outputs["sampled_ids"], outputs["mask_weights"] > 0)
        labels = ops.cast(ops.not_equal(text, ids), "float32")
        logits = self.discriminator(text_of(inputs, text), training=training)
        return outputs | {
            "replaced_ids": text,
            "replaced_labels": labels,
            "replaced_logits": logits,
            "replaced_losses": ops.binary_crossentropy(labels, logits, from_logits=True),
        }

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        masked = self._mean_loss(x, "mean_masks", y_pred["mask_losses"], y_pred["mask_weights"])
        replaced = self._mean_loss(x, "mean_tokens", y_pred["replaced_losses"], self._is_real(x))
        return with_added_losses(self, masked + self.discriminator_weight * replaced)

    def _is_real(self, inputs):
        return ops.cast(ops.not_equal(as_dictionary(inputs)["token_ids"], self.pad_id), "float32")

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        is_real, labels, logits = self._is_real(x), y_pred["replaced_labels"], y_pred["replaced_logits"]
        measured = {
            "masked_accuracy": (y_pred["mask_is_right"], y_pred["mask_weights"]),
            "generator_loss": (y_pred["mask_losses"], y_pred["mask_weights"]),
            "sampled_accuracy": (ops.equal(y_pred["sampled_ids"], y_pred["mask_labels"]), y_pred["mask_weights"]),
            "discriminator_loss": (y_pred["replaced_losses"], is_real),
            "replaced_share": (labels, is_real),
            "detection_accuracy": (ops.equal(logits > 0, labels > 0), is_real),
        }
        self._update_means(measured)
        for metric in self.detection:
            metric.update_state(labels, ops.sigmoid(logits), is_real)
        return self.get_metrics_result()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, ElectraPretraining, *self.layer_arguments)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> Self:
        config = deserialize_layers(config, ["discriminator"], custom_objects)
        generator = config["generator"]
        encoder = generator["config"]["encoder"]
        encoder = {**encoder, "config": {**encoder["config"], "embeddings": config["discriminator"].encoder}}
        generator = {**generator, "config": {**generator["config"], "encoder": encoder}}
        return super().from_config({**config, "generator": generator}, custom_objects)
