import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import sentencepiece
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn.text._offsets import letters_of, to_characters
from keras_headattn.text._pair_tokenizer import PairTokenizer
from keras_headattn.text._sentencepiece_protos import decode_proto, graph_tokenizer, join_pieces, read_proto, texts_of

SPECIALS = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}


@keras.saving.register_keras_serializable(package="keras_headattn")
class SentencePiecePairTokenizer(PairTokenizer):
    """SentencePiece tokenizer of XLM-R and CamemBERT, inside the TensorFlow graph.

    A text is `<s> A </s>`, a pair `<s> A </s></s> B </s>`. The vocabulary is saved with the model; a SavedModel needs
    the package tensorflow-text. Special tokens in a text are ordinary text by default. `interop.tokenizer_of` makes
    one from a checkpoint.

    Source: Conneau et al. 2020, "Unsupervised cross-lingual representation learning at scale"; Martin et al. 2020,
    "CamemBERT: a tasty French language model".

    Args:
        proto: path or bytes of a SentencePiece model with the checkpoint's ids. It must contain `<s>`, `<pad>`, `</s>`
            and `<unk>`; `<mask>` is for masked language models.
        max_length, added_tokens: see `WordPieceTokenizer`. Text between added tokens is split like a text of its own.

    Call arguments:
        texts, second_texts, special_tokens: see `WordPieceTokenizer`.

    Returns:
        int32 tensor (B, n), padded with `pad_id`, which is 1 in XLM-R, without segments.

    Raises:
        FileNotFoundError: if `proto` names no file.
        ValueError: for an invalid model, a missing special token, too small a `max_length`, or `texts` of another
            shape.
    """

    num_between = 2
    has_segments = False

    def __init__(
        self,
        proto: Path | bytes,
        max_length: int | None = None,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        **kwargs: Any,
    ):
        self._proto = read_proto(proto)
        processor = sentencepiece.SentencePieceProcessor(model_proto=self._proto)
        pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
        super().__init__(pieces, max_length, added_tokens, **kwargs)
        self._find_special(SPECIALS)
        self._graph_tokenizer = graph_tokenizer(self._proto)
        ids = {token["content"]: self.vocabulary.index(token["content"]) for token in self.added_tokens}
        self._texts = tf.constant(texts_of(processor, 0, self.vocabulary[len(pieces) :], ids))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return super().from_config({**config, "proto": decode_proto(config["proto"])})

    def _tokenize(self, strings):
        return self._graph_tokenizer.tokenize(strings)

    def _tokenize_with_offsets(self, strings):
        ids, starts, ends = self._graph_tokenizer.tokenize_with_offsets(strings)
        return ids, *to_characters(starts, ends, letters_of(strings))

    def _text(self, ids):
        return join_pieces(ids, self._texts)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["vocabulary"]
        return {**config, "proto": base64.b64encode(self._proto).decode("ascii")}
