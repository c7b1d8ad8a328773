"""Wrong switches and seeds of models are errors, at once, that name the argument."""

import inspect

import pytest

from keras_headattn import models, optimizers
from tests.layers.test_wrong_arguments import wrong_values
from tests.refusals import refused

BERT = dict(vocabulary_size=20, num_layers=1, hidden_dim=8, intermediate_dim=8, num_heads=2, max_length=8)
MASKS = dict(mask_id=4, special_ids=(2, 3))
SWITCHES = ("tie_output", "output_bias", "force_end", "gated", "skip_padding", "pooler")
SWITCHES += ("replacement", "smoothing", "decay_in_warmup")


def head(cls, *arguments, **given):
    return lambda **more: cls(models.Bert(**BERT), *arguments, **given, **more)


MAKERS = {
    models.Transformer: lambda **given: models.Transformer(9, **given),
    models.T5: lambda **given: models.T5(9, **given),
    models.CausalLM: lambda **given: models.CausalLM(9, **given),
    models.Bert: lambda **given: models.Bert(**{**BERT, **given}),
    models.EncoderClassifier: head(models.EncoderClassifier, 2),
    models.TokenClassifier: head(models.TokenClassifier, 2),
    models.MaskedLMPretraining: lambda **given: models.MaskedLMPretraining(
        models.MaskedLM(models.Bert(**BERT)), **MASKS, **given
    ),
    models.RationaleClassifier: head(models.RationaleClassifier, 2),
    models.TransformerEncoder: lambda **given: models.TransformerEncoder(9, **given),
    models.DCTransformer: lambda **given: models.DCTransformer(2, 9, **given),
    models.BiLSTMEncoder: lambda **given: models.BiLSTMEncoder(9, **given),
    models.SentenceClassifier: lambda **given: models.SentenceClassifier(models.TransformerEncoder(9), 2, **given),
    models.ViT: lambda **given: models.ViT(**given),
    models.GraphWriter: lambda **given: models.GraphWriter(9, 9, 2, **given),
    optimizers.Repulsive: lambda **given: optimizers.Repulsive("adam", **given),
    optimizers.LinearDecay: lambda **given: optimizers.LinearDecay(1e-3, 2, 9, **given),
}
CASES = [
    pytest.param(make, name, id=f"{cls.__name__}-{name}")
    for cls, make in MAKERS.items()
    for name in inspect.signature(cls.__init__).parameters
    if name in (*SWITCHES, "seed")
]


@pytest.mark.parametrize("make, name", CASES)
def test_wrong_switches_and_seeds(make, name):
    for value in wrong_values("seed" if name == "seed" else "use_bias"):
        with refused(f"`{name}`", f"{name}="):
            make(**{name: value})
