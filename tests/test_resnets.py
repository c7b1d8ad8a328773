"""Table 1 of Wang et al. 2021: benchmarks/results/resnets.md is what benchmarks/resnets.py counts, and the paper's."""

import re

import pytest

from benchmarks.resnets import PAPER, network, operations, parameters, row
from benchmarks.timing import RESULTS
from keras_headattn import models
from keras_headattn.models._resnet import sizes as resnets
from tests.refusals import refused

ROWS = {
    line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[1:-1]]
    for line in (RESULTS / "resnets.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| \w*ResNet", line)
}
each_form = pytest.mark.parametrize("form", ["", "AA", "EAAA"])
# Blocks of a stage that the deeper networks have more than ResNet-50, which takes less time to build.
MORE_BLOCKS = {"101": {"conv4": 17}, "152": {"conv3": 4, "conv4": 30}}


@pytest.mark.parametrize("name", PAPER)
def test_counts_are_those_of_the_paper(name):
    """Parameters to the printed digit, operations within two percent."""
    _, _, million, papers_million, billion, papers_billion = ROWS[name]
    assert (papers_million, papers_billion) == tuple(f"{count:.1f}" for count in PAPER[name])
    assert million == papers_million
    assert float(billion) == pytest.approx(float(papers_billion), rel=0.02)


@each_form
def test_resnet34(form):
    name = f"{form}ResNet34"
    layers = network(name).layers
    assert row(name, parameters(layers), operations(layers)) == ROWS[name]


@each_form
def test_networks_with_bottlenecks(form):
    layers = network(f"{form}ResNet50").layers
    counts = parameters(layers), operations(layers)
    assert row(f"{form}ResNet50", *counts) == ROWS[f"{form}ResNet50"]
    for size, more_blocks in MORE_BLOCKS.items():
        deeper = counts
        for stage, number in more_blocks.items():
            block = [layer for layer in layers if layer.name.startswith(f"{stage}_block2_")]
            deeper = deeper[0] + number * parameters(block), deeper[1] + number * operations(block)
        assert row(f"{form}ResNet{size}", *deeper) == ROWS[f"{form}ResNet{size}"]


@each_form
@pytest.mark.parametrize("size, depths", [("50", (3, 4, 6, 3)), ("101", (3, 4, 23, 3)), ("152", (3, 8, 36, 3))])
def test_depths_and_templates(form, size, depths, monkeypatch):
    given = {}
    monkeypatch.setattr(resnets, "ResNet", lambda stage_depths, **others: given.update(others, depths=stage_depths))
    network(f"{form}ResNet{size}")
    assert (given["depths"], given["bottleneck"]) == (depths, True)
    attention = given["attention"]
    assert (attention is None) == (form == "")
    if form == "AA":
        assert (type(attention).__name__, attention.num_heads) == ("MultiHeadAttention", 8)
    if form == "EAAA":
        assert (attention.num_heads, attention.alpha, attention.beta) == (8, 0.5 if size == "50" else 0.7, 1.0)


def test_attention_by_other_names():
    """Any name or layer will do; what is none is named."""
    shape = dict(input_shape=(64, 64, 3), classes=2)
    layer = models.ResNet34(attention="talking_heads", **shape).get_layer("conv3_block1_1_conv").attention
    assert (type(layer).__name__, layer.num_heads) == ("TalkingHeadsAttention", 8)
    with refused("multi_head", "'evolve'"):
        models.ResNet50(attention="evolve", **shape)
