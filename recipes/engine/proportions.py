"""Defaults that fit the size of the training data, and remarks on settings that do not."""

from dataclasses import fields

from recipes.engine.config import flag

MANY = 10_000  # parameters for a training example; above, a smaller model is proposed
BATCHES = 100  # of an epoch, below which batches become smaller


def fitting_warmup(warmup, most, steps):
    """Returns the steps of warm-up: `warmup` if it is given, else `most`, but at most a tenth of all steps."""
    return max(1, min(most, steps // 10)) if warmup is None else warmup


def fitting_batch(tokens, most, least):
    """Returns the tokens of a batch, at most `most`: fewer if an epoch of so many would have few batches."""
    return max(least, min(most, tokens // BATCHES))


def remark_on_warmup(config, warmup, steps):
    """Says that warm-up takes more than a third of all steps; `None` if it does not.

    >>> from recipes.translate.settings import TranslateConfig
    >>> remark_on_warmup(TranslateConfig(), 200, 532)[:41]
    'Warm-up takes 200 of the 532 steps: until'
    """
    if 3 * warmup <= steps:
        return None
    option = flag(next(field.name for field in fields(config) if field.name.startswith("warmup_")))
    return (
        f"Warm-up takes {warmup:,} of the {steps:,} steps: until then the learning rate is lower than "
        f"--learning-rate {config.learning_rate:g}. Give a smaller {option}, or more --epochs."
    )


def remark_on_size(config, parameters, examples):
    """Says how to make a model smaller that has more than `MANY` parameters for each training example.

    `None` for a model that is not too large, or begins with trained weights, or if the number of examples is not known.
    """
    begins_trained = any(getattr(config, name) for name in config.PRETRAINED)
    if not examples or parameters <= MANY * examples or begins_trained or not config.SIZE_OPTIONS:
        return None
    sizes = {}
    for name in config.SIZE_OPTIONS:
        setting, _, argument = name.partition(".")
        if argument and argument not in {**config.model_defaults, **config.model_arguments}:  # of another model
            continue
        named = config.model_arguments.get(argument) or config.shape.get(argument)
        value = (named or config.model_argument(argument)) if argument else getattr(config, setting)
        sizes[f"{flag(setting)} {argument}".strip()] = value
    options = ", ".join(f"{name} (now {value})" if value is not None else name for name, value in sizes.items())
    remark = (
        f"{parameters:,} parameters are many for {examples:,} training examples. A smaller model trains faster, and "
        f"may do better: {options}."
    )
    if config.PRETRAINED:
        remark += f" Or begin with trained weights: {', '.join(map(flag, config.PRETRAINED))}."
    return remark
