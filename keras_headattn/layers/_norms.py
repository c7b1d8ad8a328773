"""Normalisation with the weights of a Keras layer."""

from keras import ops
from keras.layers import LayerNormalization, RMSNormalization

from keras_headattn.ops._dense import normalize, rms_normalize


def norm_weights(norm):
    """Returns weights with which `ops.normalize` does the same as a built layer; `None` if there are none."""
    if type(norm) is not LayerNormalization or norm.gamma is None or len(norm.gamma.shape) > 1:
        return None
    return {"scale": norm.gamma + 0.0, "offset": ops.zeros_like(norm.gamma) if norm.beta is None else norm.beta + 0.0}


def apply_norm(norm, x):
    """Returns `norm(x)`, with operations that PyTorch exports to ONNX while it traces free lengths."""
    if isinstance(x.shape[-1], int):
        return norm(x)
    if type(norm) is RMSNormalization and len(norm.scale.shape) == 1:
        return rms_normalize(x, norm.scale, norm.epsilon)
    weights = norm_weights(norm)
    return norm(x) if weights is None else normalize(x, epsilon=norm.epsilon, **weights)
