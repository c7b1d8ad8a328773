"""Checkpoints of TensorFlow 1's ResNets, of its names, against the program of Wang et al. 2021."""

import re

import keras
import numpy as np

from keras_headattn.interop import from_tensorflow_resnet
from keras_headattn.layers import EvolvingAttention
from tests.interop.folders import numbers, save_tensorflow
from tests.layers.test_augmented_golden import close
from tests.refusals import refused

WIDTH = 48  # of the second stage's input; the block of the golden vectors has 10, to which zeros are added


def norms(first, widths):
    leaves = ("gamma", "beta", "moving_mean", "moving_variance")
    return {f"batch_normalization_{i}/{leaf}": (n,) for i, n in enumerate(widths, first) for leaf in leaves}


def plain():
    """Stem, a stage of one block without attention, and classifier."""
    kernels = [(7, 7, 3, 12), (1, 1, 12, WIDTH), (1, 1, 12, 12), (3, 3, 12, 12), (1, 1, 12, WIDTH)]
    shapes = {f"conv2d_{i}/kernel": shape for i, shape in enumerate(kernels)} | norms(0, (12, WIDTH, 12, 12, WIDTH))
    tensors = numbers(shapes | {"dense/kernel": (2 * WIDTH, 5), "dense/bias": (5,)})
    return {name.replace("_0/", "/"): np.abs(x) if "variance" in name else x for name, x in tensors.items()}


def renumbered(data):
    """The golden block's tensors, after the five convolutions and normalisations of `plain`."""
    found = {}
    for name in (name.removeprefix("w.") for name in data.files if name.startswith("w.")):
        tensor = data[f"w.{name}"]
        if tensor.ndim == 4 and tensor.shape[2] == 10:
            tensor = np.pad(tensor, ((0, 0), (0, 0), (0, WIDTH - 10), (0, 0)))
        theirs = re.sub(r"^(conv2d|batch_normalization)_?(\d*)/", lambda m: f"{m[1]}_{int(m[2] or 0) + 5}/", name)
        found[theirs] = tensor
    return found


def save(path, tensors):
    tensors = {f"resnet_model/{name}": x for name, x in tensors.items()}
    slots = {f"{name}/Momentum": np.zeros_like(x) for name, x in tensors.items() if "moving" not in name}
    save_tensorflow(path, tensors | slots | {"global_step": np.int64(7)})


def test_evolving_blocks(golden, tmp_path):
    data = golden("ea_aa_block_ds0.npz")
    save(tmp_path / "model.ckpt-7", plain() | renumbered(data))
    attention = EvolvingAttention(3, 20, alpha=0.5, beta=0.6)
    arguments = dict(input_shape=(32, 36, 3), attention=attention, downsampled_stages=())
    model, report = from_tensorflow_resnet(tmp_path, return_report=True, **arguments)
    assert not report.initialised and not report.left_over
    blocks = [model.get_layer(f"conv{i}_out").output for i in ("2_block1", "3_block1", "3_block2")]
    x = np.pad(data["x"], ((0, 0), (0, 0), (0, 0), (0, WIDTH - 10)))
    for number, output in enumerate(keras.Model(blocks[0], blocks[1:])(x)):
        close(output, data[f"infer.block{number}"], 2e-6)
    assert tuple(model(np.zeros((1, 32, 36, 3))).shape) == (1, 5)


def test_without_attention(tmp_path):
    given = plain() | {"dense/kernel": np.zeros((WIDTH, 5), "float32")}
    save(tmp_path / "model.ckpt-1", given)
    model = from_tensorflow_resnet(tmp_path / "model.ckpt-1", (16, 16, 3))
    np.testing.assert_array_equal(model.get_layer("conv2_block1_0_conv").get_weights()[0], given["conv2d_1/kernel"])
    np.testing.assert_array_equal(
        model.get_layer("conv2_block1_3_bn").get_weights()[2], given["batch_normalization_4/moving_mean"]
    )


def test_refused(tmp_path):
    tensors = plain()
    for leaf in ("gamma", "beta", "moving_mean", "moving_variance"):  # version 2 has fewer
        del tensors[f"batch_normalization_4/{leaf}"]
    save(tmp_path / "model.ckpt-1", tensors)
    with refused("version 1 with bottlenecks", "batch_normalization_4/beta"):
        from_tensorflow_resnet(tmp_path)
    save_tensorflow(tmp_path / "other" / "model.ckpt-1", {"dense/kernel": np.zeros((2, 2), "float32")})
    with refused("version 1 with bottlenecks", "other without resnet_model/batch"):
        from_tensorflow_resnet(tmp_path / "other")
    save(tmp_path / "more" / "model.ckpt-1", plain() | {"gate/kernel": np.zeros((2, 2), "float32")})
    with refused("nothing was copied", "left over: gate/kernel"):
        from_tensorflow_resnet(tmp_path / "more", (16, 16, 3))
