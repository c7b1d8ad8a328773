"""Network that classifies images by attention maps alone."""

import keras
from keras import layers

POOLED_AFTER = (4, 7)  # layers


def make_map_classifier(
    input_shape: tuple[int, int, int], classes: int, filters: int = 256, num_layers: int = 12
) -> keras.Model:
    """Makes a densely connected network that classifies what one pixel attends to.

    The higher its accuracy, the more of the image is left in the map. Each of its layers is a 3 x 3 convolution of all
    outputs before it in its stage; after the fourth and the seventh the maps are pooled, 14 x 14 to 7 x 7 to 4 x 4, and
    the width is doubled.

    Source: Wang et al. 2021, "Evolving attention with residual convolutions", table 7 and appendix B.1. They give the
    number of layers, the places of pooling, and the first width. That this is the width of a stage's outputs
    together, half of which come in and half grow evenly, is our reading.

    Args:
        input_shape: `(height, width, heads)` of the maps, such as `(14, 14, 8)`.
        classes: number of classes.
        filters: width of the first stage.
        num_layers: of 3 x 3 convolutions. Each of the three stages begins with one of 1 x 1 besides.

    Returns:
        `keras.Model` from `(B, height, width, heads)` to probabilities `(B, classes)`.

    >>> model = make_map_classifier((14, 14, 8), classes=10, filters=16)
    >>> [layer.output.shape[1] for layer in model.layers if "pool_" in layer.name]
    [7, 4]
    """
    inputs = keras.Input(input_shape)
    bounds = (0, *POOLED_AFTER, num_layers)
    x = inputs
    for stage, (first, last) in enumerate(zip(bounds, bounds[1:], strict=False)):
        width = filters * 2**stage
        x = _convolve(x, width // 2, 1)  # half of a stage's width comes in, half grows there
        growth = max(1, width // 2 // (last - first))
        for _ in range(first, last):
            x = layers.Concatenate()([x, _convolve(x, growth, 3)])
        if stage < len(POOLED_AFTER):
            x = layers.AveragePooling2D(2, padding="same", name=f"pool_{stage}")(x)
    x = layers.GlobalAveragePooling2D()(layers.Activation("relu")(layers.BatchNormalization()(x)))
    return keras.Model(inputs, layers.Dense(classes, "softmax", dtype="float32")(x))


def _convolve(x, filters, size):
    x = layers.Activation("relu")(layers.BatchNormalization()(x))
    return layers.Conv2D(filters, size, padding="same", use_bias=False)(x)
