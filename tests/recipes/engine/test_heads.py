"""What keeps heads apart, as the translation recipe sets it up."""

import dataclasses

import numpy as np
import pytest

from keras_headattn import layers
from keras_headattn.optimizers import Repulsive
from keras_headattn.regularizers import CosineSimilarity, Disagreement, Frobenius
from recipes.engine.modelling import make_attention
from recipes.engine.settings import Heads
from recipes.translate.configs import repulsive_iwslt14
from recipes.translate.modelling import make_attentions, make_transformer
from recipes.translate.settings import TranslateConfig
from recipes.translate.train import adam


def test_nothing_by_default():
    config = TranslateConfig(built_in=True)
    assert not isinstance(adam(config, 1), Repulsive)
    assert make_attentions(config)["attention"].head_regularizer is None


def test_repulsive_with_its_selection():
    config = dataclasses.replace(
        repulsive_iwslt14.CONFIG,
        repulsive_arguments=dict(
            projections=("value",),
            roles=("cross",),
            layers="first",
            prior_deviation=2.0,
            kernel="cosine",
            smoothing=False,
        ),
        optimizer_arguments=dict(gradient_accumulation_steps=2),
        seed=3,
    )
    optimizer = adam(config, 1)
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
    config = TranslateConfig(
        built_in=True, attention="multi_head", size="tiny", model_arguments=dict(num_layers=2), repulsive="svgd"
    )
    transformer = make_transformer(config, 20, 20)
    transformer.build()
    settings = [dict(projections=(one,)) for one in ("query", "key", "value")]
    settings += [dict(roles=(one,)) for one in ("encoder", "decoder", "cross")]
    settings += [dict(layers=one) for one in ("first", "last", "all")]
    for one in settings:
        adam(dataclasses.replace(config, repulsive_arguments=one), 1).build(transformer.trainable_variables)
    counts = [int(line.split()[4]) for line in capsys.readouterr().out.splitlines()]
    assert counts == [6, 6, 6, 6, 6, 6, 9, 9, 18]


@pytest.mark.parametrize("name", layers.ATTENTIONS)
def test_every_attention_by_its_name(name):
    """In every role, cached decoding included: a model of it is made and called."""
    config = TranslateConfig(
        built_in=True,
        attention=name,
        **dict.fromkeys(("decoder_attention", "cross_attention"), "multi_head" if name == "re_attention" else None),
        size="tiny",
        model_arguments=dict(num_layers=2, hidden_dim=16),
        max_length=20,
    )
    model = make_transformer(config, 20, 20)
    attention = model.templates["attention"].layer
    assert type(attention) is layers.ATTENTIONS[name]
    assert attention.num_heads == (1 if name == "luong" else 4)
    ids = np.ones((1, 4), "int32")
    assert model({"source": ids, "target": ids}).shape == (1, 4, 20)


def test_arguments_of_the_constructor():
    evolving = dict(alpha=0.2, beta=0.3, kernel_size=5)
    config = TranslateConfig(
        attention="evolving",
        attention_arguments=evolving | {"sliding_window": 7},
        decoder_attention_arguments=dict(alpha=0.0),
        cross_attention="talking_heads",
        cross_attention_arguments=dict(key_heads=2),
        num_heads=4,
    )
    made = make_attentions(config)
    found = made["attention"]
    assert (found.alpha, found.beta, found.kernel_size, found.sliding_window) == (0.2, 0.3, 5, 7)
    assert (made["decoder_attention"].alpha, made["decoder_attention"].beta) == (0.0, 0.3)
    assert type(made["cross_attention"]).__name__ == "TalkingHeadsAttention"
    assert made["cross_attention"].sliding_window is None


def test_numbers_and_widths_of_heads():
    for arguments, sizes in (({"key_dim": 5}, (3, 5, 2)), ({"num_heads": 4}, (4, 2, 2))):
        layer = make_attention(Heads(num_heads=3, attention_arguments=arguments), 8, 2)
        assert (layer.num_heads, layer.key_dim, layer.value_dim) == sizes
    assert make_attention(Heads(attention="luong"), 8, 2).key_dim == 8


@pytest.mark.parametrize(
    "name, cls", [("frobenius", Frobenius), ("disagreement", Disagreement), ("cosine", CosineSimilarity)]
)
@pytest.mark.parametrize("attention", ["multi_head", "evolving", "synthesizer"])
def test_regularizer_of_every_attention(name, cls, attention):
    config = TranslateConfig(
        built_in=True,
        attention=attention,
        attention_regularizer=name,
        num_heads=4,
        attention_regularizer_arguments=dict(weight=0.5),
    )
    for template in make_attentions(config).values():
        assert isinstance(template.head_regularizer, cls) and template.head_regularizer.weight == 0.5
