"""ResNets of Wang et al. 2021, "Evolving attention with residual convolutions", table 1.

Plain, attention-augmented (AA, `attention="multi_head"`) and with evolving attention (EA-AA, `"evolving"`). The heads'
widths are those that give the table's numbers of parameters (the appendix prints k = 2, v = 0.2).
"""

from typing import Any

import keras

from keras_headattn.layers._get import get
from keras_headattn.models._resnet.resnet import ResNet

HEADS = 8
KEY_DIM = 20  # of templates; each stage has its own


def _template(attention, alpha):
    """Returns the paper's template of a named attention; others as they are."""
    if not isinstance(attention, str):
        return attention
    arguments = dict(alpha=alpha, beta=1.0) if attention == "evolving" else {}
    return get(attention, num_heads=HEADS, key_dim=KEY_DIM, **arguments)


def ResNet34(
    attention: str | keras.layers.Layer | None = None,
    key_ratio: float = 0.25,
    value_ratio: float = 0.125,
    min_key_dim: int = 1,
    name: str = "resnet34",
    **kwargs: Any,
) -> keras.Model:
    """Makes a ResNet-34: 21.8 million parameters, or 20.7 with attention.

    Args:
        attention: layer to copy; or a name in `keras_headattn.layers.ATTENTIONS`, with 8 heads: `"multi_head"` makes an
            AA-ResNet, `"evolving"` an EA-AA-ResNet with `alpha=0.5`. Default `None`: none.
        key_ratio, value_ratio, min_key_dim, name, **kwargs: see `ResNet`.

    >>> model = ResNet34(include_top=False, pooling="avg", input_shape=(32, 32, 3))
    >>> tuple(model(np.zeros((1, 32, 32, 3))).shape)
    (1, 512)
    """
    return ResNet(
        (3, 4, 6, 3),
        attention=_template(attention, 0.5),
        key_ratio=key_ratio,
        value_ratio=value_ratio,
        min_key_dim=min_key_dim,
        name=name,
        **kwargs,
    )


def ResNet50(attention: str | keras.layers.Layer | None = None, name: str = "resnet50", **kwargs: Any) -> keras.Model:
    """Makes a ResNet-50: 25.6 million parameters, or 25.8 with attention.

    Args:
        attention, name, **kwargs: as in `ResNet34`.
    """
    return ResNet((3, 4, 6, 3), bottleneck=True, attention=_template(attention, 0.5), name=name, **kwargs)


def ResNet101(attention: str | keras.layers.Layer | None = None, name: str = "resnet101", **kwargs: Any) -> keras.Model:
    """Makes a ResNet-101: 44.5 million parameters, or 45.4 with attention.

    Args:
        attention, name, **kwargs: as in `ResNet34`, but `alpha=0.7` for `"evolving"`.
    """
    return ResNet((3, 4, 23, 3), bottleneck=True, attention=_template(attention, 0.7), name=name, **kwargs)


def ResNet152(attention: str | keras.layers.Layer | None = None, name: str = "resnet152", **kwargs: Any) -> keras.Model:
    """Makes a ResNet-152: 60.2 million parameters, or 61.6 with attention.

    Args:
        attention, name, **kwargs: as in `ResNet101`.
    """
    return ResNet((3, 8, 36, 3), bottleneck=True, attention=_template(attention, 0.7), name=name, **kwargs)
