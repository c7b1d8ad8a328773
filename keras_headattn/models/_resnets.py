"""The residual networks of Wang et al. 2021, "Evolving attention with residual convolutions", table 1.

Plain, attention-augmented (AA) and with evolving attention (EA-AA). The widths of the heads are those that give the
parameters of the table: in ResNet-34 both 3 x 3 convolutions of a block are augmented, keys and values take 1/4 and
1/8 of the filters; in the others keys take 1/5, but at least 20 channels a head, and values 1/10. The paper's
appendix has k = 2 and v = 0.2, which is not met by its own parameters; k = 2v = 0.2 is.
"""

from keras_headattn.layers._evolving_attention import EvolvingAttention
from keras_headattn.layers._multi_head_attention import MultiHeadAttention
from keras_headattn.models._resnet import ResNet

HEADS = 8
KEY_DIM = 20  # of templates; each stage has its own


def _augmented():
    return MultiHeadAttention(HEADS, KEY_DIM)


def _evolving(alpha):
    return EvolvingAttention(HEADS, KEY_DIM, alpha=alpha, beta=1.0)


def ResNet34(attention=None, key_ratio=0.25, value_ratio=0.125, min_key_dim=1, name="resnet34", **kwargs):
    """ResNet-34: 21.8 million parameters.

    Args:
        attention, key_ratio, value_ratio, min_key_dim, name, **kwargs: see `ResNet`.

    >>> model = ResNet34(include_top=False, pooling="avg", input_shape=(32, 32, 3))
    >>> tuple(model(np.zeros((1, 32, 32, 3))).shape)
    (1, 512)
    """
    widths = dict(key_ratio=key_ratio, value_ratio=value_ratio, min_key_dim=min_key_dim)
    return ResNet((3, 4, 6, 3), attention=attention, name=name, **widths, **kwargs)


def ResNet50(attention=None, name="resnet50", **kwargs):
    """ResNet-50: 25.6 million parameters.

    Args:
        attention, name, **kwargs: see `ResNet`.
    """
    return ResNet((3, 4, 6, 3), bottleneck=True, attention=attention, name=name, **kwargs)


def ResNet101(attention=None, name="resnet101", **kwargs):
    """ResNet-101: 44.5 million parameters.

    Args:
        attention, name, **kwargs: see `ResNet`.
    """
    return ResNet((3, 4, 23, 3), bottleneck=True, attention=attention, name=name, **kwargs)


def ResNet152(attention=None, name="resnet152", **kwargs):
    """ResNet-152: 60.2 million parameters.

    Args:
        attention, name, **kwargs: see `ResNet`.
    """
    return ResNet((3, 8, 36, 3), bottleneck=True, attention=attention, name=name, **kwargs)


def AAResNet34(name="aa_resnet34", **kwargs):
    """AA-ResNet-34: 20.7 million parameters.

    Args:
        name, **kwargs: see `ResNet`.
    """
    return ResNet34(_augmented(), name=name, **kwargs)


def AAResNet50(name="aa_resnet50", **kwargs):
    """AA-ResNet-50: 25.8 million parameters.

    Args:
        name, **kwargs: see `ResNet`.
    """
    return ResNet50(_augmented(), name=name, **kwargs)


def AAResNet101(name="aa_resnet101", **kwargs):
    """AA-ResNet-101: 45.4 million parameters.

    Args:
        name, **kwargs: see `ResNet`.
    """
    return ResNet101(_augmented(), name=name, **kwargs)


def AAResNet152(name="aa_resnet152", **kwargs):
    """AA-ResNet-152: 61.6 million parameters.

    Args:
        name, **kwargs: see `ResNet`.
    """
    return ResNet152(_augmented(), name=name, **kwargs)


def EAAAResNet34(alpha=0.5, name="ea_aa_resnet34", **kwargs):
    """EA-AA-ResNet-34: 20.7 million parameters.

    Args:
        alpha: share of the previous map, see `EvolvingAttention`.
        name, **kwargs: see `ResNet`.
    """
    return ResNet34(_evolving(alpha), name=name, **kwargs)


def EAAAResNet50(alpha=0.5, name="ea_aa_resnet50", **kwargs):
    """EA-AA-ResNet-50: 25.8 million parameters.

    Args:
        alpha: share of the previous map, see `EvolvingAttention`.
        name, **kwargs: see `ResNet`.
    """
    return ResNet50(_evolving(alpha), name=name, **kwargs)


def EAAAResNet101(alpha=0.7, name="ea_aa_resnet101", **kwargs):
    """EA-AA-ResNet-101: 45.4 million parameters.

    Args:
        alpha: share of the previous map, see `EvolvingAttention`.
        name, **kwargs: see `ResNet`.
    """
    return ResNet101(_evolving(alpha), name=name, **kwargs)


def EAAAResNet152(alpha=0.7, name="ea_aa_resnet152", **kwargs):
    """EA-AA-ResNet-152: 61.6 million parameters.

    Args:
        alpha: share of the previous map, see `EvolvingAttention`.
        name, **kwargs: see `ResNet`.
    """
    return ResNet152(_evolving(alpha), name=name, **kwargs)
