"""Distributed training with XLA, exact resume, and callbacks."""

from keras_headattn import _tensorflow  # noqa: F401
from keras_headattn.training._callbacks.attention_images import AttentionImages
from keras_headattn.training._callbacks.averaging import average_weights
from keras_headattn.training._callbacks.callbacks import Compilations, EpochScore, Throughput, TimeLimit, Utilization
from keras_headattn.training._callbacks.cluster_report import ClusterReport
from keras_headattn.training._callbacks.curves import TensorBoardCurves
from keras_headattn.training._callbacks.gradient_norm import GradientNorm
from keras_headattn.training._callbacks.head_distances import HeadDistances
from keras_headattn.training._callbacks.head_statistics import HeadStatistics
from keras_headattn.training._callbacks.progress import Progress
from keras_headattn.training._callbacks.projector import write_projector
from keras_headattn.training._distribution.cluster import cluster_from_environment
from keras_headattn.training._distribution.compilations import cache_compilations
from keras_headattn.training._distribution.devices import default_jit, make_strategy
from keras_headattn.training._distribution.model import Model
from keras_headattn.training._distribution.workers import gather, is_chief, leave_together
from keras_headattn.training._resume.resume import Resume

__all__ = [
    "AttentionImages",
    "ClusterReport",
    "Compilations",
    "EpochScore",
    "GradientNorm",
    "HeadDistances",
    "HeadStatistics",
    "Model",
    "Progress",
    "Resume",
    "TensorBoardCurves",
    "Throughput",
    "TimeLimit",
    "Utilization",
    "average_weights",
    "cache_compilations",
    "cluster_from_environment",
    "default_jit",
    "gather",
    "is_chief",
    "leave_together",
    "make_strategy",
    "write_projector",
]
