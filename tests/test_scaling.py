"""The table of docs/distributed.md is what benchmarks/scaling.py prints."""

import pathlib

from benchmarks.scaling import least_tokens, parameters, table
from keras_headattn.models import SIZES, Transformer

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "distributed.md"


def test_the_page_has_the_table():
    page = PAGE.read_text()
    assert table() in page
    assert f"{round(least_tokens(), -3):,.0f} target tokens" in page


def test_parameters():
    model = Transformer.from_size("lite", 100, normalization="pre")
    model.build()
    assert model.count_params() == parameters(**SIZES["lite"], vocabulary=100)
