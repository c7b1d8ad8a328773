"""Transformers of lsdefine/attention-is-all-you-need-keras."""

import re
from typing import Any

import numpy as np
from keras import layers

from keras_headattn._files import Path
from keras_headattn._types import AttentionLike
from keras_headattn.interop._containers import read_tensors
from keras_headattn.interop._copying import Names, check_fit, copy_weights
from keras_headattn.models import Transformer
from keras_headattn.positions import LearnedPositions

# Keras 2 numbers the layers of each class in the order in which the program makes them.
CLASSES = ("embedding", "dense", "time_distributed", "conv1d", "layer_normalization")
NAME = re.compile(rf"(?:model_weights/)?({'|'.join(CLASSES)})_?(\d*)/(?:.*/)?(\w+)")
PROJECTIONS = ("query", "key", "value")


def from_lsdefine(
    path: Path,
    num_heads: int,
    attention: AttentionLike = "multi_head",
    return_report: bool = False,
    **overrides: Any,
) -> Any:
    """Makes a `Transformer` from the `.h5` weights of lsdefine/attention-is-all-you-need-keras.

    All sizes but the number of heads are read off the tensors. Token ids are the file's: 0 is padding, 1 unknown, 2
    begins a sentence and 3 ends it, in sources too. Search it with `Searcher(model, start_id=2, end_id=3)`.

    The program masks each row of a batch with several lengths by the padding of other rows; this model does not.

    Args:
        path: str or path of the file, such as `models/en2de.model.h5`.
        num_heads: int, the program's `n_head`: 8 in its `en2de_main.py`, 4 in `pinyin_main.py`.
        attention: as in `Transformer`. Default `"multi_head"`.
        return_report: bool, True to return the `Report`, too. Default False.
        **overrides: arguments of `Transformer`, such as `dropout=0.0`.

    Returns:
        The model, or with `return_report` `(model, report)`. It has positions for `len_limit - 1` tokens.

    Raises:
        FileNotFoundError, ValueError: if there is no such file or it does not fit.

    ```python
    model = from_lsdefine("models/en2de.model.h5", num_heads=8)
    ```
    """
    by_class = _by_class(read_tensors(path))
    blocks, projections = len(by_class["conv1d"]) // 2, len(by_class["time_distributed"]) - 1
    depths = {"encoder": 2 * blocks - projections, "decoder": projections - blocks}
    tables = [weights["embeddings"] for weights in by_class["embedding"]]
    tensors = _by_name(by_class, depths)
    if len(tables) not in (2, 3) or min(depths.values()) < 1 or not tensors:
        raise ValueError(
            "The file must hold the weights of a Transformer of lsdefine/attention-is-all-you-need-keras. "
            f"Received: {path} with {', '.join(f'{len(entries)} {name}' for name, entries in by_class.items())}"
        )
    positions, *words = tables
    width = words[0].shape[1]
    # This library multiplies embeddings by the root of the width.
    for name, table in zip(("target", "source"), reversed(words), strict=False):
        tensors[f"{name}_embedding/embeddings"] = table / np.float32(width**0.5)
    tensors |= {f"{side}_positions/embeddings": positions[1:] for side in ("source", "target")}
    arguments = dict(
        source_vocabulary_size=len(words[0]),
        target_vocabulary_size=len(words[1]) if len(words) == 2 else None,
        num_layers=depths["encoder"],
        num_decoder_layers=depths["decoder"],
        hidden_dim=width,
        intermediate_dim=tensors["encoder_0/feed_forward/inner/kernel"].shape[1],
        attention=attention,
        num_heads=num_heads,
        norm=layers.LayerNormalization(epsilon=1e-12),  # 1e-6 beside the deviation, there
        positions=LearnedPositions(len(positions) - 1),
        tie_output=False,
    )
    model = Transformer(**{**arguments, **overrides})
    table = {owner: owner for owner in (name.rpartition("/")[0] for name in tensors)}
    report = copy_weights(model, tensors, Names(table, kernels="dense"))
    return (model, report) if return_report else model


def _by_class(tensors):
    """Returns the weights of all layers, by class and in the order of their numbers."""
    by_class, unknown = {name: {} for name in CLASSES}, []
    for name, tensor in tensors.items():
        if match := NAME.fullmatch(name):
            by_class[match[1]].setdefault(int(match[2] or 0), {})[match[3]] = tensor
        elif not name.startswith("optimizer_weights/"):
            unknown.append(name)
    check_fit({"left over": unknown})
    return {name: [by_number[number] for number in sorted(by_number)] for name, by_number in by_class.items()}


def _by_name(by_class, depths):
    """Returns all weights but embeddings by this library's names, none if there are too few or too many layers."""
    owners = {name: [] for name in CLASSES[1:]}
    for side, depth in depths.items():
        attentions = ("attention", "cross_attention")[: 1 + (side == "decoder")]
        for block in (f"{side}_{i}" for i in range(depth)):
            owners["dense"] += [f"{block}/{name}/{projection}" for name in attentions for projection in PROJECTIONS]
            owners["time_distributed"] += [f"{block}/{name}/attention_output" for name in attentions]
            owners["conv1d"] += [f"{block}/feed_forward/{part}" for part in ("inner", "outer")]
            owners["layer_normalization"] += [f"{block}/{name}_norm" for name in ("feed_forward", *attentions)]
    owners["time_distributed"].append("output_projection")
    if any(len(by_class[kind]) != len(names) for kind, names in owners.items()):
        return {}
    tensors = {}
    for kind, names in owners.items():
        for owner, weights in zip(names, by_class[kind], strict=True):
            tensors |= {f"{owner}/{leaf}": x[0] if x.ndim == 3 else x for leaf, x in weights.items()}
            if kind == "dense":
                tensors[f"{owner}/bias"] = np.zeros(weights["kernel"].shape[1], "float32")
    return tensors
