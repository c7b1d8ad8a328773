"""The network that settings name."""

import functools
import math

import keras

from keras_headattn.models import ResNet, ResNet34, ResNet50, ResNet101, ResNet152, ViT
from recipes.engine.config import passing_on
from recipes.engine.modelling import make_attention as make_attention_layer

NETWORKS = {"resnet34": ResNet34, "resnet50": ResNet50, "resnet101": ResNet101, "resnet152": ResNet152}
# Statistics of ImageNet: red, green, blue, 0 to 255.
MEAN = (123.68, 116.78, 103.94)
DEVIATION = (58.4, 57.1, 57.4)


def make_classifier(config, num_classes, steps=math.inf):
    """Makes the network: from pixels, 0 to 255, `(B, S, S, 3)`, to logits `(B, num_classes)`, float32.

    Pixels are normalised inside, in float32. Moving statistics follow the data within an epoch of so many `steps`.
    """
    shape = (config.image_size, config.image_size, 3)
    images = keras.Input(shape, name="images")
    scale = keras.layers.Normalization(mean=MEAN, variance=[value**2 for value in DEVIATION], dtype="float32")
    # As in TensorFlow's models 1.13. Unlike the weight decay of Keras's optimizers, it goes through momentum.
    decay = config.weight_decay if config.optimizer == "sgd" else 0
    regularizer = keras.regularizers.L2(decay / 2) if decay else None
    attention = make_attention(config)
    if config.is_vit:
        make = functools.partial(ViT.from_size, config.model, kernel_regularizer=regularizer)
    else:
        small = functools.partial(ResNet, (config.blocks,) * 3, filters=16, small_images=True, name="small")
        network = small if config.model == "small" else NETWORKS[config.model]
        make = functools.partial(network, weight_regularizer=regularizer)
    classifier = dict(classes=num_classes, classifier_activation=None)
    with passing_on("model_arguments"):
        network = make(attention=attention, input_shape=shape, **classifier, **config.model_arguments)
    momentum = config.statistics_momentum
    for layer in network.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = min(0.997, max(0.9, 1 - 3 / steps)) if momentum is None else momentum
    return keras.Model(images, network(scale(images)), name="classifier")


def make_attention(config):
    """Makes the attention template, whose widths become those of a ResNet's stages; `None` for none."""
    if config.attention == "none":
        return None
    if config.is_vit:
        dropout = config.model_argument("attention_dropout")
        initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        return make_attention_layer(config, *config.attention_shape, dropout=dropout, kernel_initializer=initializer)
    num_heads = config.attention_arguments.get("num_heads") or config.num_heads or 8
    return make_attention_layer(config, num_heads, num_heads)


def make_metrics(num_classes, one_hot=False):
    """Makes top-1 and top-5 accuracy, of integer labels or of shares of classes."""
    kind, top = "" if one_hot else "Sparse", min(5, num_classes)
    return [
        getattr(keras.metrics, f"{kind}CategoricalAccuracy")(name="accuracy"),
        getattr(keras.metrics, f"{kind}TopKCategoricalAccuracy")(top, name=f"top{top}_accuracy"),
    ]
