"""Models made of this library's layers."""

from keras_headattn._lazy import attach

_DEPTHS = {"ResNet": (34, 50, 101, 152), "AAResNet": (34, 50, 101, 152), "EAAAResNet": (34, 50, 101, 152)}

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
        "_resnets": [f"{name}{depth}" for name, depths in _DEPTHS.items() for depth in depths],
        "_sentence_classifiers": ["SentenceClassifier", "SentencePairClassifier"],
        "_sentence_encoders": ["BiLSTMEncoder", "TransformerEncoder"],
        "_sizes": ["SIZES"],
        "_t5": ["T5", "T5_SIZES"],
        "_transformer": ["Transformer"],
    },
)
