"""SentencePiece with the special tokens of RoBERTa as a layer, so that a served model takes text."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import sentencepiece
import tensorflow as tf

from headattn_io.files import Path
from keras_headattn.text._pair_tokenizer import PairTokenizer
from keras_headattn.text._sentencepiece_protos import decode_proto, graph_tokenizer, join_pieces, read_proto, texts_of

SPECIALS = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}


@keras.saving.register_keras_serializable(package="keras_headattn")
class SentencePiecePairTokenizer(PairTokenizer):
    """Turns strings into the ids of XLM-R and CamemBERT, inside the TensorFlow graph.

    These are pieces of SentencePiece with the special tokens of RoBERTa: one text is `<s> A </s>`, a pair is
    `<s> A </s></s> B </s>`. `interop.tokenizer_of` makes one from the files of a checkpoint. The vocabulary is part of
    the layer: it is saved in a model's `.keras` file and in its SavedModel, which then needs no other file. It does
    need the package tensorflow-text, which has the operations.

    Special tokens that are written in a text are ordinary text: nobody who sends a text can end it early.

    Args:
        proto: a SentencePiece model whose pieces have the ids of the checkpoint, `<s>`, `<pad>`, `</s>` and `<unk>`
            among them, and `<mask>` for masked language models: its file's path (str or path), or its bytes.
        max_length: int, ids of a row, special ones included, beyond which it is cut; of a pair the longer text is cut
            first. Default `None`: none is cut.
        added_tokens: list of tokens that are kept whole where a text has them, as of `WordPieceTokenizer`; the text
            between them is split as texts of their own are. Default: none.

    Call arguments:
        texts: string tensor (B,) or (B, 1), or a list of str.
        second_texts: as many strings, of pairs. Default `None`: single texts.

    Returns:
        int32 tensor (B, n), padded with `pad_id`, which is 1 in XLM-R. There are no segments.

    Raises:
        FileNotFoundError: if `proto` names no file.
        ValueError: if `proto` is no SentencePiece model, a special token is missing, `max_length` has no room for text,
            or `texts` has another shape.

    Source: Conneau et al. 2020, "Unsupervised cross-lingual representation learning at scale"; Martin et al. 2020,
    "CamemBERT: a tasty French language model".
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

    def _text(self, ids):
        return join_pieces(ids, self._texts)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["vocabulary"]
        return {**config, "proto": base64.b64encode(self._proto).decode("ascii")}
