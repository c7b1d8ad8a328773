"""What a page of maps holds. tests/recipes/serve/test_page.py looks at it in a browser."""

import base64
import hashlib
import io
import json
import re

import numpy as np
import pytest
from matplotlib.image import imread

from keras_headattn.analysis import write_attention_page
from tests.refusals import refused

SQUARE = np.random.default_rng(0).dirichlet(np.ones(4), (2, 4))
TOKENS = ["a", "</script>", "<!--"]


def written(tmp_path, *examples, **arguments):
    write_attention_page(tmp_path / "maps.html", examples, **arguments)
    return (tmp_path / "maps.html").read_text(encoding="utf-8")


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_texts(tmp_path):
    pairs = np.stack([SQUARE, -SQUARE])
    page = written(
        tmp_path,
        {"maps": {"square": SQUARE, "pooling": SQUARE[0]}, "tokens": TOKENS, "name": "self", "answer": "good"},
        {"maps": {"pairs": pairs}, "tokens": [["x"], TOKENS], "model": "interacting"},
        title="Maps & <more>",
    )
    data = data_of(page)
    assert data["title"] == "Maps & <more>"
    first, second = data["examples"]
    assert first["model"] == "self" and second["model"] == "interacting" and first["answer"] == "good"
    square, pooling = first["layers"]
    assert square["self"] and square["keys"] == TOKENS
    np.testing.assert_allclose(square["weights"], SQUARE[:, :3, :3], atol=1e-5)  # the fourth is padding
    np.testing.assert_allclose(pooling["weights"], SQUARE[0][:, :3], atol=1e-5)
    assert "queries" not in pooling and second["layers"][0]["queries"] == ["x"]
    np.testing.assert_allclose(second["layers"][0]["weights"], pairs.reshape(4, 4, 4)[:, :1, :3], atol=1e-5)


def test_images(tmp_path):
    image = np.random.default_rng(1).integers(0, 256, (6, 4, 3))
    grid = np.full((2, 6, 6), 1 / 6)
    for given in (image, image / 255):
        example = {"maps": {"stage": grid}, "image": given, "size": {"stage": (3, 2)}}
        (view,) = data_of(written(tmp_path, example))["examples"]
        kind, _, data = view["image"].partition(",")
        assert kind == "data:image/png;base64" and view["layers"][0]["size"] == [3, 2]
        pixels = imread(io.BytesIO(base64.b64decode(data)), format="png")
        np.testing.assert_array_equal(np.rint(pixels[..., :3] * 255), image)


def test_the_policy_lets_its_own_script_and_style_run_alone(tmp_path):
    page = written(tmp_path, {"maps": {"square": SQUARE}, "tokens": TOKENS})
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert page.index(policy) < page.index("<style>") and "unsafe" not in policy and "default-src 'none'" in policy
    for kind, text in (("script-src", re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]),
                       ("style-src", re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1])):  # fmt: skip
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert len(re.findall("<script", page)) == 2 and "innerHTML" not in page and "src=" not in page.replace("-src", "")


@pytest.mark.parametrize("example, name, received", [
    ({"tokens": TOKENS}, "`maps`", "['tokens']"),
    ({"maps": {"a": SQUARE}}, "`tokens`", "['maps']"),
    ({"maps": {"a": SQUARE}, "tokens": TOKENS, "text": ""}, "`tokens`", "'text'"),
    ({"maps": {}, "tokens": TOKENS}, "`maps`", "{}"),
    ({"maps": {"a": SQUARE}, "tokens": []}, "`tokens`", "(0, 0) tokens"),
    ({"maps": {"a": SQUARE}, "tokens": ["a"] * 5}, "no more than the maps have", 5),
    ({"maps": {"a": SQUARE[0, 0]}, "tokens": TOKENS}, "`maps`", "'a' of shape (4,)"),
    ({"maps": {"a": SQUARE * np.nan}, "tokens": TOKENS}, "finite", "'a'"),
    ({"maps": {"a": SQUARE}, "image": np.zeros((4, 4, 3)), "size": (3, 3)}, "`size`", (3, 3)),
    ({"maps": {"a": SQUARE}, "image": np.zeros((4, 4, 3))}, "`size`", "size=None"),
    ({"maps": {"a": SQUARE}, "image": np.zeros((4, 4)), "size": (2, 2)}, "`image`", (4, 4)),
])  # fmt: skip
def test_refusals(example, name, received, tmp_path):
    with refused(name, received):
        written(tmp_path, example)
    with refused("at least one dictionary"):
        written(tmp_path)
    assert not any(tmp_path.iterdir())
