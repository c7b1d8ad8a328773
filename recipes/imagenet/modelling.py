"""The network that settings name."""

import functools

import keras

from keras_headattn.models import ResNet, ResNet34, ResNet50, ResNet101, ResNet152
from recipes.engine.config import passing_on
from recipes.engine.heads import make_attention as make_attention_layer

NETWORKS = {"resnet34": ResNet34, "resnet50": ResNet50, "resnet101": ResNet101, "resnet152": ResNet152}
# Statistics of ImageNet: red, green, blue, 0 to 255.
MEAN = (123.68, 116.78, 103.94)
DEVIATION = (58.4, 57.1, 57.4)


def make_classifier(config, num_classes):
    """Makes the network: from pixels, 0 to 255, `(B, S, S, 3)`, to logits `(B, num_classes)`, float32.

    Pixels are normalised inside, in float32.
    """
    small = functools.partial(ResNet, (config.blocks,) * 3, filters=16, small_images=True, name="small")
    network = small if config.model == "small" else NETWORKS[config.model]
    images = keras.Input((config.image_size, config.image_size, 3), name="images")
    scale = keras.layers.Normalization(mean=MEAN, variance=[value**2 for value in DEVIATION], dtype="float32")
    with passing_on("model_arguments"):
        network = network(
            attention=make_attention(config),
            input_shape=(config.image_size, config.image_size, 3),
            classes=num_classes,
            classifier_activation=None,
            # As in TensorFlow's models 1.13. Unlike the weight decay of Keras's optimizers, it goes through momentum.
            weight_regularizer=keras.regularizers.L2(config.weight_decay / 2) if config.weight_decay else None,
            **config.model_arguments,
        )
    for layer in network.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = config.statistics_momentum
    return keras.Model(images, network(scale(images)), name="classifier")


def make_attention(config):
    """Makes the attention template, whose widths become those of the stages; `None` for none."""
    if config.attention == "none":
        return None
    number = config.attention_arguments.get("num_heads") or config.num_heads or 8
    return make_attention_layer(config, number, number)


def make_metrics(num_classes):
    """Makes top-1 and top-5 accuracy."""
    top = min(5, num_classes)
    return [
        keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        keras.metrics.SparseTopKCategoricalAccuracy(top, name=f"top{top}_accuracy"),
    ]
