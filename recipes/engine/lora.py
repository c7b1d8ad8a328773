"""Low-rank adaptation of the pre-trained model that a run begins with."""

import math

from keras_headattn.layers import enable_lora, merge_lora
from recipes.engine.config import flag, option, settings


@settings()
class Lora:
    """Low-rank adaptation of a pre-trained model."""

    title = "training"

    lora_rank: int | None = option(
        None,
        "train low-rank updates of the attention's projections, of this rank, and the task's head; the rest of the "
        "pre-trained model is frozen (Hu et al. 2021); none: train all weights",
        at_least=1,
    )
    lora_alpha: float | None = option(None, "factor of the updates, which --lora-rank divides; none: the rank", above=0)

    def check(self):
        if self.lora_rank is None:
            return
        if not self.begins_pretrained:
            raise ValueError(
                f"--lora-rank needs a pre-trained model: {' or '.join(map(flag, self.PRETRAINED))}. "
                f"Received: lora_rank={self.lora_rank} without one"
            )
        for name, moving in {"repulsive": ("svgd", "spos", "sgld"), "attention_regularizer": ("cosine",)}.items():
            if getattr(self, name) in moving:
                raise ValueError(
                    f"{flag(name)} {getattr(self, name)} moves whole kernels, which --lora-rank freezes. "
                    f"Received: lora_rank={self.lora_rank}"
                )

    @property
    def begins_pretrained(self):
        """True if training begins with trained weights."""
        return any(getattr(self, name) for name in self.PRETRAINED)

    def unused(self, given):
        return {} if self.lora_rank else {"lora_alpha": "is for --lora-rank"}


def adapt(part, config):
    """Freezes the pre-trained part of a model, and trains low-rank updates of its attention's projections.

    Without `--lora-rank` it does nothing.
    """
    rank = config.lora_rank
    if rank is None:
        return
    enable_lora(part, rank, config.lora_alpha)
    trained, weights = (sum(math.prod(x.shape) for x in group) for group in (part.trainable_weights, part.weights))
    print(f"LoRA of rank {rank}: {trained:,} of {weights:,} parameters of the pre-trained model are trained")


def merge(model, config):
    """Adds the updates to the kernels of a trained model, if `adapt` made any."""
    if config.lora_rank is not None:
        merge_lora(model)
