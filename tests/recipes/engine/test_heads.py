"""What keeps heads apart, as the translation recipe sets it up."""

import dataclasses

import pytest

from keras_headattn.optimizers import Repulsive
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius
from recipes.configs import repulsive_iwslt14
from recipes.translation.modelling import make_attentions, make_optimizer, make_transformer
from recipes.translation.settings import TranslateConfig


def test_nothing_by_default():
    config = TranslateConfig(embedded=True)
    assert not isinstance(make_optimizer(config), Repulsive)
    assert make_attentions(config)["attention"].head_regularizer is None


def test_repulsive_with_its_selection():
    config = dataclasses.replace(
        repulsive_iwslt14.CONFIG,
        repulsive_projections=("value",),
        repulsive_roles=("cross",),
        repulsive_layers="first",
        prior_deviation=2.0,
        repulsive_kernel="cosine",
        repulsive_smoothing=False,
        accumulation=2,
        seed=3,
    )
    optimizer = make_optimizer(config)
    settings = optimizer.get_config()
    assert settings["inner_optimizer"]["config"]["gradient_accumulation_steps"] == 2
    for name, value in {
        "method": "svgd",
        "step_size": 0.1,
        "repulsive_weight": 0.01,
        "prior_deviation": 2.0,
        "kernel": "cosine",
        "smoothing": False,
        "projections": ("value",),
        "roles": ("cross",),
        "layers": "first",
        "seed": 3,
    }.items():
        assert settings[name] == value, name


def test_every_setting_of_table_10_finds_its_heads(capsys):
    config = TranslateConfig(embedded=True, attention="multi_head", size="tiny", num_layers=2, repulsive="svgd")
    transformer = make_transformer(config, 20, 20)
    transformer.build()
    settings = [dict(repulsive_projections=(one,)) for one in ("query", "key", "value")]
    settings += [dict(repulsive_roles=(one,)) for one in ("encoder", "decoder", "cross")]
    settings += [dict(repulsive_layers=one) for one in ("first", "last", "all")]
    for one in settings:
        make_optimizer(dataclasses.replace(config, **one)).build(transformer.trainable_variables)
    counts = [int(line.split()[4]) for line in capsys.readouterr().out.splitlines()]
    assert counts == [6, 6, 6, 6, 6, 6, 9, 9, 18]


@pytest.mark.parametrize(
    "name, cls", [("frobenius", Frobenius), ("disagreement", Disagreement), ("cosine", CosineSimilarity)]
)
@pytest.mark.parametrize("attention", ["multi_head", "evolving", "synthesizer"])
def test_regularizer_of_every_attention(name, cls, attention):
    config = TranslateConfig(
        embedded=True, attention=attention, attention_regularizer=name, regularizer_weight=0.5, num_heads=4
    )
    for template in make_attentions(config).values():
        assert isinstance(template.head_regularizer, cls) and template.head_regularizer.weight == 0.5
