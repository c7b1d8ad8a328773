"""What attention does in a trained model, and how good the model is: as numbers and as pictures."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_attention_maps": ["AttentionMaps", "attention_maps"],
        "_calibration": ["expected_calibration_error", "overconfidence_error", "reliability"],
        "_cluster_tokens": ["cluster_tokens"],
        "_draw_cluster_tokens": ["draw_cluster_tokens"],
        "_draw_clusters": ["draw_clusters"],
        "_draw_confusion_matrix": ["draw_confusion_matrix"],
        "_draw_entropy_cdf": ["draw_entropy_cdf"],
        "_draw_error_by_heads": ["draw_error_by_heads"],
        "_draw_head_ablation": ["draw_head_ablation"],
        "_draw_head_redundancy": ["draw_head_redundancy"],
        "_draw_image_maps": ["draw_image_maps"],
        "_draw_queries": ["draw_queries"],
        "_draw_reliability": ["draw_reliability"],
        "_draw_text_heatmaps": ["draw_text_heatmaps"],
        "_draw_text_maps": ["draw_text_maps"],
        "_evaluate_classifier": ["evaluate_classifier"],
        "_head_ablation": ["head_ablation"],
        "_head_distance": ["head_distance"],
        "_map_classifier": ["make_map_classifier"],
        "_max_num_heads": ["max_num_heads"],
        "_predictive_entropy": ["predictive_entropy"],
        "_redundancy": ["head_redundancy", "head_redundancy_matrix", "layer_redundancy"],
        "_write_text_heatmaps": ["write_text_heatmaps"],
    },
)
