import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_headattn._attention_page import single_file
from keras_headattn._files import Path, write_atomically
from keras_headattn.analysis._validation import check_named


def write_attention_page(
    path: Path, examples: Sequence[Mapping[str, Any]], title: str = "Where the heads look"
) -> None:
    """Writes an interactive page of what each head attends to from the word or image cell under the pointer.

    It is the page of `python -m recipes.serve` with the data inside: one file, accessible by keyboard and screen
    reader, with a dark mode. Negative weights have their own colour; two examples can be compared side by side.

    Args:
        path, title: path of the file, title of the page.
        examples: list of dictionaries, each of one text or image:

            - `"maps"`: dictionary from layer name to weights `(h, n, m)`, `(h, h, n, m)` for heads in pairs, or
              `(h, m)` for a pooling;
            - `"tokens"`: list of str, or two lists, for queries and keys, or a dictionary of these by layer. The maps'
              surplus is padding and not shown;
            - or `"image"`, `(H, W, 3)`, floats from 0 to 1 or integers to 255, and `"size"`, `(height, width)` of the
              grid, or a dictionary of these by layer;
            - optional str: `"name"` in the menu, `"model"` as heading, and `"answer"`, such as the translation or
              class.

    >>> maps = {"decoder 1": np.full((2, 2, 3), 1 / 3)}
    >>> write_attention_page("maps.html", [{"maps": maps, "tokens": [["zwei", "Katzen"], ["two", "cats", "."]]}])
    """
    if not len(examples):
        raise ValueError(f"`examples` must have at least one dictionary. Received: examples={examples}")
    data = {"title": title, "examples": [_view(example, number) for number, example in enumerate(examples, 1)]}
    write_atomically(path, single_file(data).encode("utf-8"))


def _view(example, number):
    """Returns an example in the page's format."""
    known = {"maps", "tokens", "image", "size", "name", "model", "answer"}
    if "maps" not in example or example.keys() - known or ("tokens" in example) == ("image" in example):
        raise ValueError(
            "An example must have `maps` and either `tokens` or `image`; it may have `size`, `name`, `model` and "
            f"`answer`. Received: {sorted(example)}"
        )
    check_named("maps", example["maps"])
    words = {name: str(example[name]) for name in ("name", "model", "answer") if name in example}
    view = {"model": words.get("name", f"Example {number}")} | words
    if "image" in example:
        layers = [_image_layer(name, weights, example.get("size")) for name, weights in example["maps"].items()]
        return view | {"image": _data_url(example["image"]), "layers": layers}
    return view | {
        "layers": [_text_layer(name, weights, example["tokens"]) for name, weights in example["maps"].items()]
    }


def _text_layer(name, weights, tokens):
    tokens = tokens[name] if isinstance(tokens, dict) else tokens
    is_self = not len(tokens) or isinstance(tokens[0], str)
    queries, keys = (tokens, tokens) if is_self else tokens
    weights = _as_weights(name, weights, ranks=(2, 3, 4))
    lengths = (len(keys),) if weights.ndim == 2 else (len(queries), len(keys))
    if min(lengths) < 1 or any(size < length for size, length in zip(weights.shape[1:], lengths, strict=True)):
        raise ValueError(
            f"`tokens` must be at least one, and no more than the maps have. Received: {name!r} of shape "
            f"{weights.shape} for {lengths} tokens"
        )
    layer = {"name": str(name), "keys": list(map(str, keys))}
    if weights.ndim == 2:
        return layer | {"weights": _rounded(weights[:, : len(keys)])}
    layer |= {"self": True} if is_self else {"queries": list(map(str, queries))}
    return layer | {"weights": _rounded(weights[:, : len(queries), : len(keys)])}


def _image_layer(name, weights, size):
    height, width = size[name] if isinstance(size, dict) else size or (None, None)
    weights = _as_weights(name, weights, ranks=(3, 4))
    if height is None or weights.shape[1:] != (height * width,) * 2:
        raise ValueError(
            "`size` must be the height and width of the grid whose places attend to each other. "
            f"Received: size={size} for {name!r} of shape {weights.shape}"
        )
    # The page knows places by their numbers.
    return {"name": str(name), "keys": [], "self": True, "size": [height, width], "weights": _rounded(weights)}


def _as_weights(name, weights, ranks):
    weights = np.asarray(keras.ops.convert_to_numpy(weights), "float64")
    if weights.ndim not in ranks or not weights.size or not np.isfinite(weights).all():
        raise ValueError(
            "`maps` must be finite weights (heads, queries, keys), of one text or image. "
            f"Received: {name!r} of shape {weights.shape}"
        )
    return weights.reshape(-1, *weights.shape[-2:]) if weights.ndim == 4 else weights


def _rounded(weights):
    return weights.round(5).tolist()


def _data_url(image):
    from PIL import Image  # comes with TensorBoard

    image = np.asarray(keras.ops.convert_to_numpy(image))
    if image.ndim != 3 or image.shape[-1] != 3:
        raise ValueError(f"`image` must be (height, width, 3). Received: image of shape {image.shape}")
    if np.issubdtype(image.dtype, np.floating):
        image = image * 255
    file = io.BytesIO()
    Image.fromarray(np.clip(np.rint(image), 0, 255).astype("uint8")).save(file, "png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
