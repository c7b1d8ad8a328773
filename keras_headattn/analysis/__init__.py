"""What attention does in a trained model, and how good the model is: as numbers and as pictures."""

from keras_headattn.analysis.attention_maps import AttentionMaps, attention_maps
from keras_headattn.analysis.calibration import expected_calibration_error, overconfidence_error, reliability
from keras_headattn.analysis.cluster_tokens import cluster_tokens
from keras_headattn.analysis.draw_cluster_tokens import draw_cluster_tokens
from keras_headattn.analysis.draw_clusters import draw_clusters
from keras_headattn.analysis.draw_confusion_matrix import draw_confusion_matrix
from keras_headattn.analysis.draw_entropy_cdf import draw_entropy_cdf
from keras_headattn.analysis.draw_error_by_heads import draw_error_by_heads
from keras_headattn.analysis.draw_head_ablation import draw_head_ablation
from keras_headattn.analysis.draw_head_redundancy import draw_head_redundancy
from keras_headattn.analysis.draw_image_maps import draw_image_maps
from keras_headattn.analysis.draw_queries import draw_queries
from keras_headattn.analysis.draw_reliability import draw_reliability
from keras_headattn.analysis.draw_text_heatmaps import draw_text_heatmaps
from keras_headattn.analysis.draw_text_maps import draw_text_maps
from keras_headattn.analysis.evaluate_classifier import evaluate_classifier
from keras_headattn.analysis.head_ablation import head_ablation
from keras_headattn.analysis.head_distance import head_distance
from keras_headattn.analysis.map_classifier import make_map_classifier
from keras_headattn.analysis.predictive_entropy import predictive_entropy
from keras_headattn.analysis.redundancy import head_redundancy, head_redundancy_matrix, layer_redundancy
from keras_headattn.analysis.write_text_heatmaps import write_text_heatmaps

__all__ = [
    "AttentionMaps",
    "attention_maps",
    "cluster_tokens",
    "draw_cluster_tokens",
    "draw_clusters",
    "draw_confusion_matrix",
    "draw_entropy_cdf",
    "draw_error_by_heads",
    "draw_head_ablation",
    "draw_head_redundancy",
    "draw_image_maps",
    "draw_queries",
    "draw_reliability",
    "draw_text_heatmaps",
    "draw_text_maps",
    "evaluate_classifier",
    "expected_calibration_error",
    "head_ablation",
    "head_distance",
    "head_redundancy",
    "head_redundancy_matrix",
    "layer_redundancy",
    "make_map_classifier",
    "overconfidence_error",
    "predictive_entropy",
    "reliability",
    "write_text_heatmaps",
]
