"""Current names of arguments in files saved before version 0.1.0."""

from collections.abc import Mapping
from typing import Any, Self

from keras_headattn._saved_quantization import SavedQuantization
from keras_headattn.layers._rematerialized import Rematerialized

CURRENT = {
    "logit_soft_cap": "attn_logits_soft_cap",
    "previous_map": "previous_scores",
    "previous_map_shape": "previous_scores_shape",
    "previous_maps": "previous_scores",
    "previous_maps_shape": "previous_scores_shape",
}


def with_current_names(config):
    return {CURRENT.get(key, key): value for key, value in config.items()} if isinstance(config, dict) else config


class SavedNames(Rematerialized, SavedQuantization):
    """Base of layers with renamed arguments; saved functional models still call them by the old names."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **with_current_names(kwargs))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return super().from_config(with_current_names(config))

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        super().build_from_config({key: with_current_names(value) for key, value in config.items()})
