"""Checkpoints of other libraries: read into the models here by name, and written again."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_attentions": ["copy_attention", "of_addons"],
        "_configs": ["read_config"],
        "_containers": ["read_tensors"],
        "_copying": ["Names", "Report", "copy_weights", "weights_by_name"],
        "_electra": ["from_electra", "to_electra"],
        "_export": ["to_hugging_face"],
        "_generation": ["generation_settings"],
        "_keras_hub": ["from_keras_hub", "to_keras_hub"],
        "_opennmt": ["from_opennmt"],
        "_pretrained": ["from_pretrained", "tokenizer_of"],
        "_tokenizers": ["marian_vocabularies"],
    },
)
