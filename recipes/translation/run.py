"""The folder of a run of translation."""

from recipes.engine import run
from recipes.translation.settings import TranslateConfig


class Run(run.Run):
    """A run's folder that holds, besides the usual files:

    | file | |
    |---|---|
    | `vocabulary.model` (or `source.model`, `target.model`) | SentencePiece |
    | `moses.source.json`, `moses.target.json` | Moses steps, if the settings ask for them |
    | `checkpoints/epoch-012.weights.h5` | weights after an epoch |
    """

    config_class = TranslateConfig
    # How long, on what, and what is done at the end.
    may_change = (
        "epochs", "patience", "time_limit", "save_steps", "strategy", "replicas", "xla", "steps_per_execution",
        "test", "test_splits", "beam_size", "alpha", "metrics", "embeddings", "sample_sentences", "images", "projector",
        "gradient_norm", "peak_flops", "profile_steps", "xla_cache", "run", "export",
    )  # fmt: skip
    own_files = ("vocabulary.model", "source.model", "target.model", "moses.source.json", "moses.target.json")
