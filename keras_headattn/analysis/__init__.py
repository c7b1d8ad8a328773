"""Numbers and pictures of what attention does in a trained model, and of how good the model is."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_attention_maps": ["AttentionMaps", "attention_maps"],
        "_calibration": [
            "draw_confusion_matrix",
            "draw_entropy_cdf",
            "draw_reliability",
            "evaluate_classifier",
            "expected_calibration_error",
            "overconfidence_error",
            "predictive_entropy",
            "reliability",
        ],
        "_clusters": ["cluster_tokens", "draw_cluster_tokens", "draw_clusters"],
        "_faithfulness": ["AOPC_SHARES", "aopc", "comprehensiveness", "sufficiency", "top_words"],
        "_heads": ["draw_error_by_heads", "draw_head_ablation", "head_ablation", "head_distance", "max_num_heads"],
        "_heatmaps": ["draw_text_heatmaps", "write_text_heatmaps"],
        "_lime": ["fit_lime", "lime", "lime_samples"],
        "_map_classifier": ["make_map_classifier"],
        "_map_drawings": ["draw_image_maps", "draw_text_maps"],
        "_map_page": ["write_attention_page"],
        "_redundancy": [
            "draw_head_redundancy",
            "draw_queries",
            "head_redundancy",
            "head_redundancy_matrix",
            "layer_redundancy",
        ],
        "_word_pictures": ["draw_word_scores", "write_word_scores"],
        "_word_removal": ["leave_one_out", "random_scores", "remove_words"],
    },
)
