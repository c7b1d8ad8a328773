"""Hyperparameters of google-research/electra, a JSON object as its `--hparams` takes it, as settings."""


def settings_of(hparams, names):
    """Returns settings for `override`; `names` maps to them, or to their keys: `model_arguments.dropout`."""
    if unknown := [f"{name}={value!r}" for name, value in hparams.items() if name not in names]:
        raise ValueError(
            "no setting of this recipe stands for some hyperparameters of ELECTRA's program. "
            f"Received: {', '.join(unknown)}"
        )
    result = {}
    for name, value in hparams.items():
        setting, _, key = names[name].partition(".")
        result[setting] = result.get(setting, {}) | {key: value} if key else value
    return result
