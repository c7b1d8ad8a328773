"""The size of a model beside that of its training data."""

from recipes.engine.config import flag

MANY = 10_000  # parameters for a training example; above, a smaller model is proposed


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
        value = config.model_argument(argument) if argument else getattr(config, setting)
        sizes[f"{flag(setting)} {argument}".strip()] = value
    options = ", ".join(f"{name} (now {value})" if value is not None else name for name, value in sizes.items())
    remark = (
        f"{parameters:,} parameters are many for {examples:,} training examples. A smaller model trains faster, and "
        f"may do better: {options}."
    )
    if config.PRETRAINED:
        remark += f" Or begin with trained weights: {', '.join(map(flag, config.PRETRAINED))}."
    return remark
