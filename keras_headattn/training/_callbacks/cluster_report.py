"""Clusters of `DisentangledMaskAttention` in the logs."""

import warnings
from typing import Any

import keras
import numpy as np

from keras_headattn._private import flatten_layers
from keras_headattn.layers import DisentangledMaskAttention
from keras_headattn.layers._disentangled_mask_attention import LOSSES

LARGEST = 0.95  # share of the tokens in one cluster
FEWEST = 1.05  # clusters


class ClusterReport(keras.callbacks.Callback):
    """Callback that logs the losses of `DisentangledMaskAttention` and its effective number of clusters.

    The losses `shared_information`, `kept_information`, `divergence` and `diversity` are unweighted means over layers
    and over about the last 100 steps. `clusters` is the exponential of the mutual information of token and cluster,
    from 1 (no separation) to `num_clusters` (certain and balanced), averaged over mixtures; `least_clusters` is the
    minimum.

    A warning names mixtures that have collapsed: fewer than 1.05 clusters, or over 95% of the tokens in one.

    Raises:
        ValueError: when training begins, if the model has no such layer.

    >>> report = ClusterReport()
    """

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._layers()

    def _layers(self):
        layers = [layer for layer in flatten_layers(self.model) if isinstance(layer, DisentangledMaskAttention)]
        if not layers:
            raise ValueError(f"The model must have a DisentangledMaskAttention. Received: model={self.model}")
        return layers

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        layers = self._layers()
        means = np.mean([keras.ops.convert_to_numpy(layer.loss_averages) for layer in layers], axis=0)
        counts, collapsed = {}, []
        for layer in layers:
            use, entropy = (keras.ops.convert_to_numpy(x) for x in (layer.cluster_use, layer.cluster_entropy))
            effective = np.exp(-np.sum(use * np.log(np.maximum(use, 1e-12)), axis=1) - entropy)
            names = [*(f"{layer.path} head {head + 1}" for head in range(layer.num_heads)), f"{layer.path} queries"]
            counts |= zip(names, effective, strict=True)
            if layer.num_clusters > 1:
                bad = (use.max(axis=1) > LARGEST) | (effective < FEWEST)
                collapsed += [name for name, is_bad in zip(names, bad, strict=True) if is_bad]
        if logs is not None:
            logs |= dict(zip(LOSSES, means.tolist(), strict=True))
            logs |= {"clusters": float(np.mean([*counts.values()])), "least_clusters": float(min(counts.values()))}
        if collapsed:
            more = "" if len(collapsed) < 4 else f" and {len(collapsed) - 3} more"
            warnings.warn(
                f"Tokens are hardly separated by {len(collapsed)} of {len(counts)} mixtures: one cluster has over "
                f"{LARGEST:.0%} of them, or all clusters are alike: {', '.join(collapsed[:3])}{more}. A larger weight "
                "of the loss `diversity` separates them.",
                stacklevel=2,
            )
