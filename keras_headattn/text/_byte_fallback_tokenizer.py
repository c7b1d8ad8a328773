import base64
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras
import sentencepiece
import tensorflow as tf

from keras_headattn._files import Path
from keras_headattn.text._added_tokens import clean_utf8
from keras_headattn.text._byte_pair_tokenizer import check_specials
from keras_headattn.text._byte_texts import ByteTexts
from keras_headattn.text._pair_tokenizer import as_strings
from keras_headattn.text._sentencepiece_protos import WORD_START, decode_proto, graph_tokenizer, parse_proto, read_proto


@keras.saving.register_keras_serializable(package="keras_headattn")
class ByteFallbackTokenizer(ByteTexts):
    r"""SentencePiece tokenizer of Llama 2, Mistral 7B and Gemma, inside the TensorFlow graph.

    Characters without a piece are UTF-8 bytes, `<0x00>` to `<0xFF>`, so that no text is unknown. Most models put a
    space before a text; it belongs to the text of the first token. U+2581 stands for a space, and U+FFFD replaces bytes
    that are not UTF-8. The vocabulary is saved with the model; a SavedModel needs the package tensorflow-text.
    `interop.tokenizer_of` makes one from a checkpoint.

    Source: Touvron et al. 2023, "Llama 2: open foundation and fine-tuned chat models"; Kudo & Richardson 2018,
    "SentencePiece: a simple and language independent subword tokenizer and detokenizer for neural text processing".

    Args:
        proto: path or bytes of a SentencePiece model trained with `byte_fallback=True`,
            `normalization_rule_name="identity"` and `remove_extra_whitespaces=False`.
        max_length, added_tokens: see `WordPieceTokenizer`. Control pieces of the model are special added tokens.
        specials: dictionary from `"bos"`, `"eos"` and `"pad"` to tokens. A text begins with `"bos"`, if there is one;
            `"eos"` is left to the caller. Default `None`: the model's beginning and end.
        prefix_once: True to put the space only before the whole text, and only if neither a space nor an added token
            begins it, as Hugging Face does with `legacy=False`. Default False: before each text between added tokens,
            as SentencePiece does.

    Call arguments:
        texts, special_tokens: see `WordPieceTokenizer`.

    Returns:
        int32 tensor (B, n), padded with `pad_id`, which is -1 without `"pad"`.

    Raises:
        FileNotFoundError: if `proto` names no file.
        ValueError: for an invalid model or one that changes texts, a missing special token, too small a `max_length`,
            or `texts` of another shape.
    """

    can_cut = False

    def __init__(
        self,
        proto: Path | bytes,
        max_length: int | None = None,
        added_tokens: Sequence[str | dict[str, Any]] = (),
        specials: Mapping[str, str] | None = None,
        prefix_once: bool = False,
        **kwargs: Any,
    ):
        self._proto = read_proto(proto)
        processor = sentencepiece.SentencePieceProcessor(model_proto=self._proto)
        model = parse_proto(self._proto)
        _check_model(model)
        super().__init__([piece.piece for piece in model.pieces], max_length, added_tokens, **kwargs)
        ends = {"bos": processor.bos_id(), "eos": processor.eos_id()}
        default = {name: processor.id_to_piece(index) for name, index in ends.items() if index >= 0}
        self.specials = check_specials(default if specials is None else specials)
        self.prefix_once = prefix_once
        control = {i: piece.piece for i, piece in enumerate(model.pieces) if piece.type == piece.CONTROL}
        specials = {**control, "unk": processor.id_to_piece(processor.unk_id()), **self.specials}
        self._find_special(specials, add_eos=False)
        self._has_prefix = model.normalizer_spec.add_dummy_prefix
        self._prefixed = "(?s).+" if self._has_prefix and not prefix_once else ""
        special = {*specials.values(), *(token["content"] for token in self.added_tokens if token["special"])}
        model.normalizer_spec.add_dummy_prefix = False
        for piece in model.pieces:
            if piece.type == piece.USER_DEFINED and piece.piece in special:
                piece.type = piece.CONTROL  # ordinary text
        self._graph_tokenizer = graph_tokenizer(model.SerializeToString())
        texts = {f"<0x{byte:02X}>": bytes([byte]) for byte in range(256)} | dict.fromkeys(special, b"")
        self._set_texts([texts.get(t, t.replace(WORD_START, " ").encode("utf-8")) for t in self.vocabulary])

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        return super().from_config({**config, "proto": decode_proto(config["proto"])})

    def _tokenize(self, strings):
        strings = clean_utf8(strings)
        if self._prefixed:
            strings = tf.strings.regex_replace(strings, "(?s)^(.)", r" \1")
        return self._graph_tokenizer.tokenize(strings)

    def _pieces(self, strings, special_tokens=False):
        return super()._pieces(self._begin(strings, special_tokens), special_tokens)

    def _begin(self, strings, special_tokens=False):
        """Puts the space before whole texts."""
        if not self._has_prefix or not self.prefix_once:
            return strings
        added = self._with_specials if special_tokens else self._added
        strings, patterns = clean_utf8(strings), "|".join(filter(None, [f"[ {WORD_START}]", added and added.patterns]))
        begins = tf.strings.regex_full_match(strings, f"(?s)((?:{patterns}).*)?")
        return tf.where(begins, strings, tf.strings.join([" ", strings]))

    def tokenize_with_offsets(
        self, texts: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        texts = tf.strings.regex_replace(clean_utf8(as_strings("texts", texts)), WORD_START, " ")
        begun = self._begin(texts)
        ids, *sides = super().tokenize_with_offsets(begun)
        moved = tf.gather(tf.strings.length(begun) - tf.strings.length(texts), ids.value_rowids())
        return ids, *(side.with_flat_values(tf.maximum(side.flat_values - moved, 0)) for side in sides)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["vocabulary"]
        proto = base64.b64encode(self._proto).decode("ascii")
        return {**config, "proto": proto, "specials": self.specials, "prefix_once": self.prefix_once}


def _check_model(model):
    """Refuses a model that would lose or change some text."""
    normalizer, trainer = model.normalizer_spec, model.trainer_spec
    received = {
        "byte_fallback": trainer.byte_fallback,
        "treat_whitespace_as_suffix": trainer.treat_whitespace_as_suffix,
        "remove_extra_whitespaces": normalizer.remove_extra_whitespaces,
        "escape_whitespaces": normalizer.escape_whitespaces,
        "normalization_rule_name": normalizer.name if normalizer.precompiled_charsmap else "identity",
    }
    if [*received.values()] != [True, False, False, True, "identity"]:
        raise ValueError(f"`proto` must be a model of byte_fallback that changes no text. Received: {received}")
