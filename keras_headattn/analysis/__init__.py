"""Measures and figures of attention in trained models. Wrong arguments raise a ValueError that names them."""

from keras_headattn.analysis._attention_maps import AttentionMaps, attention_maps
from keras_headattn.analysis._calibration import (
    draw_confusion_matrix,
    draw_entropy_cdf,
    draw_reliability,
    evaluate_classifier,
    expected_calibration_error,
    overconfidence_error,
    predictive_entropy,
    reliability,
)
from keras_headattn.analysis._clusters import cluster_tokens, draw_cluster_tokens, draw_clusters
from keras_headattn.analysis._faithfulness import aopc, comprehensiveness, sufficiency, top_words
from keras_headattn.analysis._head_statistics import draw_head_statistics, head_statistics
from keras_headattn.analysis._heads import (
    draw_error_by_heads,
    draw_head_ablation,
    head_ablation,
    head_distance,
    max_num_heads,
)
from keras_headattn.analysis._lime import fit_lime, lime, lime_samples
from keras_headattn.analysis._map_drawings import draw_image_maps, draw_text_maps
from keras_headattn.analysis._map_page import write_attention_page
from keras_headattn.analysis._pruning import head_importance, prune_heads
from keras_headattn.analysis._redundancy import (
    draw_head_redundancy,
    draw_queries,
    head_redundancy,
    head_redundancy_matrix,
    layer_redundancy,
)
from keras_headattn.analysis._word_pictures import draw_word_scores, head_scores, write_word_scores
from keras_headattn.analysis._word_removal import leave_one_out, random_scores, remove_words

__all__ = [
    "AttentionMaps",
    "aopc",
    "attention_maps",
    "cluster_tokens",
    "comprehensiveness",
    "draw_cluster_tokens",
    "draw_clusters",
    "draw_confusion_matrix",
    "draw_entropy_cdf",
    "draw_error_by_heads",
    "draw_head_ablation",
    "draw_head_redundancy",
    "draw_head_statistics",
    "draw_image_maps",
    "draw_queries",
    "draw_reliability",
    "draw_text_maps",
    "draw_word_scores",
    "evaluate_classifier",
    "expected_calibration_error",
    "fit_lime",
    "head_ablation",
    "head_distance",
    "head_importance",
    "head_redundancy",
    "head_redundancy_matrix",
    "head_statistics",
    "layer_redundancy",
    "head_scores",
    "leave_one_out",
    "lime",
    "lime_samples",
    "max_num_heads",
    "overconfidence_error",
    "predictive_entropy",
    "prune_heads",
    "random_scores",
    "reliability",
    "remove_words",
    "sufficiency",
    "top_words",
    "write_attention_page",
    "write_word_scores",
]
