"""Parameters and floating-point operations of the ResNets beside table 1 of Wang et al. 2021.

    python -m benchmarks.resnets

Nothing is timed. Operations are multiplications and additions of products in convolutions, dense layers, projections,
attention and the convolution of its maps; normalisation, pooling and interpolation count nothing.
"""

import math
import sys

from benchmarks import timing

# Million parameters and 10^9 operations, of the paper.
PAPER = {
    "ResNet34": (21.8, 7.4),
    "AAResNet34": (20.7, 7.1),
    "EAAAResNet34": (20.7, 7.9),
    "ResNet50": (25.6, 8.2),
    "AAResNet50": (25.8, 8.3),
    "EAAAResNet50": (25.8, 8.7),
    "ResNet101": (44.5, 15.6),
    "AAResNet101": (45.4, 16.1),
    "EAAAResNet101": (45.4, 17.2),
    "ResNet152": (60.2, 23.0),
    "AAResNet152": (61.6, 23.8),
    "EAAAResNet152": (61.6, 25.7),
}


def network(name):
    """Returns the network of a row of the table."""
    from keras_headattn import models

    form, depth = name.split("ResNet")
    attention = {"": None, "AA": "multi_head", "EAAA": "evolving"}[form]
    return getattr(models, f"ResNet{depth}")(attention=attention)


def parameters(layers):
    """Returns the number of trainable parameters in layers of a network."""
    return sum(math.prod(weight.shape) for layer in layers for weight in layer.trainable_weights)


def operations(layers):
    """Returns floating-point operations of layers of a network for one image."""
    return sum(_operations(layer) for layer in layers)


def _operations(layer):
    kind = type(layer).__name__
    if kind == "Conv2D":
        return 2 * math.prod(layer.output.shape[1:3]) * math.prod(layer.kernel.shape)
    if kind == "Dense":
        return 2 * math.prod(layer.kernel.shape)
    return _augmented(layer) if kind == "AugmentedConv2D" else 0


def _augmented(layer):
    image = layer.input[0] if isinstance(layer.input, list) else layer.input
    pixels = math.prod(layer.compute_output_shape(image.shape)[1:3])
    attention, positions = layer.attention, layer.attention.relative_positions
    seen = positions.height * positions.width
    dense = (attention.query_dense, attention.key_dense, attention.value_dense, attention.output_dense)
    products = pixels * math.prod(layer.convolution.kernel.shape)
    products += seen * sum(math.prod(projection.kernel.shape) for projection in dense)
    products += seen * attention.num_heads * attention.key_dim * (positions.height + positions.width)
    products += seen**2 * attention.num_heads * (attention.key_dim + attention.value_dim)
    if getattr(attention, "map_kernel", None) is not None:
        products += seen**2 * math.prod(attention.map_kernel.shape)
    return 2 * products


def row(name, parameters, operations):
    """Returns a table row: a network and its counts, ours and the paper's."""
    million, billion = PAPER[name]
    counts = f"{parameters:,}", f"{parameters / 1e6:.1f}", f"{million:.1f}"
    return [name, *counts, f"{operations / 1e9:.2f}", f"{billion:.1f}"]


def main():
    import keras

    rows = []
    for name in PAPER:
        print(name, file=sys.stderr, flush=True)
        layers = network(name).layers
        rows.append(row(name, parameters(layers), operations(layers)))
        keras.backend.clear_session()
    timing.report(
        "resnets",
        "# ResNets beside table 1 of Wang et al. 2021",
        "Images of 224 x 224 pixels, 1,000 classes, 8 heads. Keys and values take k and v times the filters: k = 0.25 "
        "and v = 0.125 in ResNet-34, both of whose convolutions in a block are augmented; in the others k = 0.2, but "
        "at least 20 channels a head, and v = 0.1. Moving statistics are no parameters.",
        timing.table(["", "parameters", "million", "paper", "10^9 operations", "paper"], rows),
        "Operations of convolutions, dense layers, projections, attention and the convolution of its maps, an addition "
        "and a multiplication counted as two; arithmetic, with `python -m benchmarks.resnets`.",
    )


if __name__ == "__main__":
    main()
