"""Training: a step compiled by XLA on every replica, devices, exact resume, and callbacks."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_callbacks.attention_images": ["AttentionImages"],
        "_callbacks.averaging": ["average_weights"],
        "_callbacks.callbacks": ["Compilations", "EpochScore", "Throughput", "TimeLimit", "Utilization"],
        "_callbacks.cluster_report": ["ClusterReport"],
        "_callbacks.curves": ["TensorBoardCurves"],
        "_callbacks.gradient_norm": ["GradientNorm"],
        "_callbacks.head_distances": ["HeadDistances"],
        "_callbacks.head_norms": ["HeadNorms"],
        "_callbacks.progress": ["Progress"],
        "_callbacks.projector": ["write_projector"],
        "_distribution.cluster": ["cluster_from_environment"],
        "_distribution.compilations": ["cache_compilations", "count_compilations"],
        "_distribution.devices": ["default_jit", "make_strategy"],
        "_distribution.model": ["Model"],
        "_distribution.workers": ["chief_first", "gather", "is_chief", "leave_together"],
        "_resume.resume": ["Resume"],
    },
)
