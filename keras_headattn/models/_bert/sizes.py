"""Named sizes of encoders, as arguments of `Bert` and `ModernBert`."""

from typing import Any

from keras_headattn.models._sizes import sized

_OF_BERT = {"vocabulary_size": 30522}
_OF_ROBERTA = dict(vocabulary_size=50265, num_segments=0, pad_id=1, skip_padding=True, norm_epsilon=1e-5, pooler=False)
_OF_ELECTRA = {"vocabulary_size": 30522, "pooler": False}

BERT_SIZES: dict[str, dict[str, Any]] = {
    # Devlin et al. 2019; the small ones Turc et al. 2019, "Well-read students learn better"
    "bert_tiny": sized(2, 128, 512, 2, **_OF_BERT),
    "bert_mini": sized(4, 256, 1024, 4, **_OF_BERT),
    "bert_small": sized(4, 512, 2048, 8, **_OF_BERT),
    "bert_medium": sized(8, 512, 2048, 8, **_OF_BERT),
    "bert_base": sized(12, 768, 3072, 12, **_OF_BERT),
    "bert_large": sized(24, 1024, 4096, 16, **_OF_BERT),
    # Liu et al. 2019
    "roberta_base": sized(12, 768, 3072, 12, **_OF_ROBERTA),
    "roberta_large": sized(24, 1024, 4096, 16, **_OF_ROBERTA),
    # Clark et al. 2020
    "electra_small": sized(12, 256, 1024, 4, embedding_dim=128, **_OF_ELECTRA),
    "electra_base": sized(12, 768, 3072, 12, **_OF_ELECTRA),
    "electra_large": sized(24, 1024, 4096, 16, **_OF_ELECTRA),
}
# Warner et al. 2024
MODERNBERT_SIZES: dict[str, dict[str, Any]] = {
    "modernbert_base": sized(22, 768, 1152, 12, vocabulary_size=50368, pad_id=50283),
    "modernbert_large": sized(28, 1024, 2624, 16, vocabulary_size=50368, pad_id=50283),
}
