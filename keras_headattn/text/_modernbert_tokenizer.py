from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_headattn._files import Path
from keras_headattn.text._byte_pair_tokenizer import BytePairTokenizer
from keras_headattn.text._wordpiece_tokenizer import SPECIALS


@keras.saving.register_keras_serializable(package="keras_headattn")
class ModernBertTokenizer(BytePairTokenizer):
    """Byte-level byte-pair tokenizer of ModernBERT, inside the TensorFlow graph.

    A `BytePairTokenizer` of text in Unicode's form NFC, with BERT's special tokens: a text is `[CLS] A [SEP]`, a pair
    `[CLS] A [SEP] B [SEP]`, without segments. A SavedModel needs the package tensorflow-text. Make it by
    `interop.tokenizer_of` from a checkpoint.

    Source: Warner et al. 2024, "Smarter, better, faster, longer: a modern bidirectional encoder for fast, memory
    efficient, and long context finetuning and inference", section 2.1.

    Args:
        vocabulary: as in `BytePairTokenizer`, with `[CLS]`, `[SEP]`, `[PAD]` and `[UNK]`; `[MASK]` is for masked
            language models.
        merges, max_length, add_prefix_space, added_tokens: as in `BytePairTokenizer`.

    Call arguments:
        texts, second_texts, special_tokens: see `WordPieceTokenizer`.

    Returns:
        int32 tensor (B, n), padded with `pad_id`, which is 50283 in ModernBERT.

    Raises:
        FileNotFoundError: if `vocabulary` or `merges` names no file.
        ValueError: for an invalid vocabulary or merges, too small a `max_length`, or `texts` of another shape.

    >>> vocabulary = ["a", "c", "t", "Ġ", "at", "Ġc", "Ġcat", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    >>> tokenizer = ModernBertTokenizer(vocabulary, ["a t", "Ġ c", "Ġc at"])
    >>> tokenizer(["a cat"], ["at"]).numpy().tolist()
    [[8, 0, 6, 9, 4, 9]]
    """

    num_between = 1

    def __init__(
        self,
        vocabulary: Path | Mapping[str, int] | Sequence[str],
        merges: Path | Sequence[str],
        max_length: int | None = None,
        add_prefix_space: bool = False,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        **kwargs: Any,
    ):
        super().__init__(vocabulary, merges, max_length, add_prefix_space, added_tokens, SPECIALS, "gpt_neox", **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        for name in ("specials", "pre_tokenizer"):
            del config[name]
        return config
