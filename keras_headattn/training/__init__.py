"""Training: a step compiled by XLA on every replica, devices, and callbacks."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_attention_images": ["AttentionImages"],
        "_averaging": ["average_weights"],
        "_callbacks": ["Compilations", "EpochScore", "Throughput", "TimeLimit", "Utilization"],
        "_cluster": ["cluster_from_environment"],
        "_cluster_report": ["ClusterReport"],
        "_compilations": ["cache_compilations", "count_compilations"],
        "_devices": ["default_jit", "make_strategy"],
        "_gradient_norm": ["GradientNorm"],
        "_head_norms": ["HeadNorms"],
        "_model": ["Model"],
        "_projector": ["write_projector"],
        "_resume": ["Resume"],
        "_workers": ["chief_first", "gather", "is_chief", "leave_together"],
    },
)
