"""Models made of this library's layers."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_bert": ["BERT_SIZES", "Bert"],
        "_electra_pretraining": ["ElectraPretraining"],
        "_encoder_heads": ["EncoderClassifier", "MaskedLM", "ReplacedTokenDetector"],
        "_graph_writer": ["GraphWriter"],
        "_masked_lm_pretraining": ["MaskedLMPretraining"],
        "_rationale_classifier": ["RationaleClassifier", "RationaleReader"],
        "_resnet": ["ResNet"],
        "_resnets": ["ResNet34", "ResNet50", "ResNet101", "ResNet152"],
        "_sentence_classifiers": ["SentenceClassifier", "SentencePairClassifier"],
        "_sentence_encoders": ["BiLSTMEncoder", "TransformerEncoder"],
        "_sizes": ["SIZES"],
        "_t5": ["T5", "T5_SIZES"],
        "_transformer": ["Transformer"],
    },
)
