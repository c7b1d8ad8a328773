"""What the clusters of `DisentangledMaskAttention` do in training."""

import warnings

import keras
import numpy as np

from keras_headattn.layers import DisentangledMaskAttention
from keras_headattn.layers.disentangled_mask_attention import LOSSES

COLLAPSED = 0.95  # share of one cluster


class ClusterReport(keras.callbacks.Callback):
    """Adds to the logs of an epoch the losses of `DisentangledMaskAttention`, and how many clusters are in use.

    The losses, `shared_information`, `kept_information`, `divergence` and `diversity`, are without their weights, means
    over layers and over about the last 100 steps. `clusters` is the exponential of the entropy of how tokens spread
    over the clusters, from 1 to `num_clusters`, the mean over all mixtures; `least_clusters` that of the worst one.

    A mixture one cluster of which has more than 95% of the tokens has collapsed: its mask does nothing. A warning says
    which ones have. More `diversity` spreads the tokens.

    Raises:
        ValueError: when training begins, for a model without such a layer.

    Example:

    >>> report = ClusterReport()
    """

    def on_train_begin(self, logs=None):
        self._layers()

    def _layers(self):
        layers = [layer for layer in self.model._flatten_layers() if isinstance(layer, DisentangledMaskAttention)]
        if not layers:
            raise ValueError(f"There is no DisentangledMaskAttention in the model. Received: model={self.model}")
        return layers

    def on_epoch_end(self, epoch, logs=None):
        layers = self._layers()
        means = np.mean([keras.ops.convert_to_numpy(layer.loss_averages) for layer in layers], axis=0)
        uses = {path: use for layer in layers for path, use in cluster_uses(layer).items()}
        counts = [np.exp(-np.sum(use * np.log(np.maximum(use, 1e-12)))) for use in uses.values()]
        if logs is not None:
            logs |= dict(zip(LOSSES, means.tolist(), strict=True))
            logs |= {"clusters": float(np.mean(counts)), "least_clusters": float(np.min(counts))}
        collapsed = [path for path, use in uses.items() if use.max() > COLLAPSED and len(use) > 1]
        if collapsed:
            more = "" if len(collapsed) < 4 else f" and {len(collapsed) - 3} more"
            warnings.warn(
                f"One cluster has more than {COLLAPSED:.0%} of the tokens in {len(collapsed)} of {len(uses)} mixtures: "
                f"{', '.join(collapsed[:3])}{more}. A larger `diversity` spreads them.",
                stacklevel=2,
            )


def cluster_uses(layer):
    """Share of the tokens that each cluster has had over about the last 100 steps of training.

    Args:
        layer: `DisentangledMaskAttention`.

    Returns:
        Dictionary of a mixture, such as `"attention head 2"` or `"attention queries"`, to an array `(C,)`.
    """
    of_heads, of_queries = (keras.ops.convert_to_numpy(use) for use in (layer.cluster_use, layer.query_cluster_use))
    heads = {f"{layer.path} head {number}": use for number, use in enumerate(of_heads)}
    return {**heads, f"{layer.path} queries": of_queries}
