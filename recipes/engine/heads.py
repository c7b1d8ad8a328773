"""Means to keep heads apart in training: repulsive attention, or a regularizer it is compared with."""

from keras_headattn.optimizers import Repulsive
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius

REGULARIZERS = {"frobenius": Frobenius, "disagreement": Disagreement, "cosine": CosineSimilarity}


def make_head_regularizer(config):
    """The regularizer a configuration names in `attention_regularizer`; `None` for none."""
    if config.attention_regularizer == "none":
        return None
    return REGULARIZERS[config.attention_regularizer](weight=config.regularizer_weight)


def repel(config, optimizer, **selection):
    """The optimizer, or around it the `Repulsive` that a configuration names.

    Args:
        config: with `repulsive`, `step_size`, `repulsive_weight`, `inverse_temperature`, `prior_deviation`,
            `repulsive_kernel`, `repulsive_smoothing`, `seed`.
        optimizer: the inner optimizer.
        **selection: which heads, as `Repulsive` takes it.
    """
    if config.repulsive == "none":
        return optimizer
    return Repulsive(
        optimizer,
        method=config.repulsive,
        step_size=config.step_size,
        repulsive_weight=config.repulsive_weight,
        inverse_temperature=config.inverse_temperature,
        prior_deviation=config.prior_deviation,
        kernel=config.repulsive_kernel,
        smoothing=config.repulsive_smoothing,
        seed=config.seed,
        **selection,
    )
