"""Training: a step compiled by XLA on every replica, devices, and callbacks.

Names are imported on first use, as `cache_compilations` must run before TensorFlow is imported.
"""

import importlib

_MODULES = {
    "AttentionImages": "attention_images",
    "ClusterReport": "cluster_report",
    "Compilations": "callbacks",
    "EpochScore": "callbacks",
    "GradientNorm": "gradient_norm",
    "HeadNorms": "head_norms",
    "Model": "model",
    "Resume": "resume",
    "Throughput": "callbacks",
    "TimeLimit": "callbacks",
    "Utilization": "callbacks",
    "average_weights": "averaging",
    "cache_compilations": "compilations",
    "chief_first": "workers",
    "cluster_from_environment": "cluster",
    "count_compilations": "compilations",
    "default_jit": "devices",
    "gather": "workers",
    "is_chief": "workers",
    "leave_together": "workers",
    "make_strategy": "devices",
    "write_projector": "projector",
}

__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__():
    return __all__
