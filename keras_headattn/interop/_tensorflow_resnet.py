"""ResNets of TensorFlow 1's official models, and of the program of evolving attention that grew from them."""

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_headattn._files import Path
from keras_headattn.interop._containers import read_tensors
from keras_headattn.interop._copying import Names, copy_weights
from keras_headattn.layers import EvolvingAttention
from keras_headattn.models import ResNet

SLOT = re.compile(r".*/(Momentum|ExponentialMovingAverage)")


def from_tensorflow_resnet(
    path: Path,
    input_shape: tuple[int, int, int] = (224, 224, 3),
    attention: keras.layers.Layer | None = None,
    downsampled_stages: Sequence[int] = (1,),
    return_report: bool = False,
    **overrides: Any,
) -> Any:
    """Makes a `ResNet` from a checkpoint with the names `resnet_model/...`.

    TensorFlow's official models 1.x write it with `--resnet_version=1`, and so does pkuyym/EvolvingAttention's
    `imagenet_main.py`, whose later stages have evolving attention. Depths, filters, heads and classes are read off the
    tensors. Images are RGB minus `(123.68, 116.78, 103.94)`; of 1,001 classes the first is background.

    Args:
        path: str or path of a checkpoint without `.index`, or of its folder.
        input_shape: `(height, width, channels)` that the model was trained on; relative positions depend on it.
        attention: layer to copy, of the file's number of heads. Default `None`: `EvolvingAttention` with `alpha=0.5`
            and `beta=1.0` as in that program, if the file has attention.
        downsampled_stages: as in `ResNet`; the program's stage of 512 output channels.
        return_report: bool, True to return the `Report`, too. Default False.
        **overrides: arguments of `ResNet`, such as `upsampling="half_pixel"`.

    Returns:
        The model, or with `return_report` `(model, report)`.

    Raises:
        FileNotFoundError, ValueError: if there is no such checkpoint or it does not fit, such as version 2 and
            ResNet-18 and 34.

    ```python
    model = from_tensorflow_resnet("output/model.ckpt-500000")
    ```
    """
    tensors = {
        name.removeprefix("resnet_model/"): x
        for name, x in read_tensors(path).items()
        if name.startswith("resnet_model/") and not SLOT.fullmatch(name)
    }
    depths = _depths(tensors)
    stages = sorted({int(name.split("_")[1]) for name in tensors if name.startswith("asconv_")})
    names = _names(depths, stages)
    missing = names.keys() - tensors.keys()
    if missing or min(depths, default=0) < 1:
        raise ValueError(
            "The checkpoint must be of a ResNet of version 1 with bottlenecks, under resnet_model/. "
            f"Received: {path}{' without resnet_model/' if missing else ''}{min(missing, default='')}"
        )
    filters = tensors["conv2d/kernel"].shape[3]
    arguments = dict(
        filters=filters,
        small_images=tensors["conv2d/kernel"].shape[0] == 3,
        input_shape=input_shape,
        classes=tensors["dense/kernel"].shape[1],
    )
    result = {ours: tensors.pop(theirs) for theirs, ours in names.items()}
    for stage in stages:
        for block in range(depths[stage]):
            scope = f"asconv_{stage}_{block}_0/"
            block_tensors = {name: tensors.pop(name) for name in list(tensors) if name.startswith(scope)}
            block_tensors = {name.removeprefix(scope): x for name, x in block_tensors.items()}
            layer, heads, shares = _attention(block_tensors, filters * 2**stage)
            result |= {f"conv{stage + 2}_block{block + 1}_2_conv/{name}": x for name, x in layer.items()}
    if stages:
        attention = attention or EvolvingAttention(heads, 20, alpha=0.5, beta=1.0)
        arguments |= dict(attention=attention, attention_stages=stages, downsampled_stages=downsampled_stages)
        arguments |= dict(upsampling="legacy", min_key_dim=1, **shares)
    model = ResNet(depths, bottleneck=True, **{**arguments, **overrides})
    table = {name: name for name in result}
    report = copy_weights(model, result | tensors, Names(table, kernels="heads"))
    return (model, report) if return_report else model


def _depths(tensors):
    """Returns the number of blocks of each stage: its 1 x 1 kernels with more outputs than inputs, but for one."""
    shapes = [x.shape for name, x in tensors.items() if re.fullmatch(r"conv2d(_\d+)?/kernel", name)]
    wider = [outputs for height, _, inputs, outputs in shapes if height == 1 and outputs > inputs]
    return [wider.count(width) - 1 for width in sorted(set(wider))]


def _names(depths, stages):
    """Returns a dictionary from the format's names to this library's; layers are numbered as the program makes them."""
    convolutions, norms = ["conv1"], ["conv1"]
    for stage, depth in enumerate(depths):
        for block in range(depth):
            parts = (["0"] if block == 0 else []) + ["1", "2", "3"]
            prefix = f"conv{stage + 2}_block{block + 1}_"
            convolutions += [prefix + part for part in parts if part != "2" or stage not in stages]
            norms += [prefix + part for part in parts]
    names = {f"conv2d_{i}/kernel": f"{name}_conv/kernel" for i, name in enumerate(convolutions)}
    for leaf in ("gamma", "beta", "moving_mean", "moving_variance"):
        names |= {f"batch_normalization_{i}/{leaf}": f"{name}_bn/{leaf}" for i, name in enumerate(norms)}
    names |= {f"dense/{leaf}": f"predictions/{leaf}" for leaf in ("kernel", "bias")}
    return {name.replace("_0/", "/"): ours for name, ours in names.items()}


def _attention(tensors, filters):
    """Returns the weights of an augmented convolution, its number of heads, and the shares of keys and values."""
    evolves = "conv2d_3/kernel" in tensors
    result = {
        "convolution/kernel": tensors["conv2d/kernel"],
        "attention/relative_positions/height_embeddings": tensors["r_height"],
        "attention/relative_positions/width_embeddings": tensors["r_width"],
    }
    output = f"conv2d_{2 + evolves}"
    values = tensors[f"{output}/bias"].size
    keys = (tensors["conv2d_1/bias"].size - values) // 2
    heads = keys // tensors["r_width"].shape[1]
    for leaf in ("kernel", "bias"):
        # One projection gives keys, queries and values, in this order.
        x = tensors[f"conv2d_1/{leaf}"]
        parts = np.split(x.reshape(x.shape[-2:] if leaf == "kernel" else x.shape), [keys, 2 * keys], axis=-1)
        for name, part in zip(("key", "query", "value"), parts, strict=True):
            result[f"attention/{name}/{leaf}"] = part.reshape(*part.shape[:-1], heads, -1)
        if evolves:
            result[f"attention/map_{leaf}"] = tensors[f"conv2d_2/{leaf}"]
    result["attention/attention_output/kernel"] = tensors[f"{output}/kernel"].reshape(heads, -1, values)
    result["attention/attention_output/bias"] = tensors[f"{output}/bias"]
    return result, heads, {"key_ratio": keys / filters, "value_ratio": values / filters}
