"""SentencePiece models from files and configurations, and in the TensorFlow graph."""

import base64
import hashlib
import os
import pathlib

import sentencepiece
import tensorflow as tf
import tensorflow_text

from keras_headattn._private import set_vocabulary, vocabulary_handle
from keras_headattn.text._added_tokens import clean_utf8

WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space in pieces


def read_proto(proto):
    """Returns the bytes of a SentencePiece model, given as bytes, path or base64."""
    source = "`proto`"
    if isinstance(proto, str) and not os.path.exists(proto):
        try:
            proto = base64.b64decode(proto, validate=True)
        except ValueError:  # also for what is not ASCII
            raise FileNotFoundError(
                f"`proto` must be a SentencePiece model, or the path of one. Received: proto={proto[:80]!r}"
            ) from None
    if not isinstance(proto, bytes):
        source = pathlib.Path(proto)
        if not source.is_file():
            raise FileNotFoundError(f"`proto` must be the path of a file. Received: proto={str(proto)!r}")
        proto = source.read_bytes()
    try:
        if proto and sentencepiece.SentencePieceProcessor(model_proto=proto).vocab_size():
            return proto
        reason = "it is empty"
    except RuntimeError as error:
        reason = str(error).splitlines()[0].rpartition("] ")[2] or "it is damaged"
    raise ValueError(f"{source} must be a SentencePiece model. Received: {len(proto)} bytes ({reason})")


def parse_proto(proto):
    """Returns the bytes of a SentencePiece model as a protocol buffer."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    return ModelProto.FromString(proto)


def decode_proto(proto):
    """Decodes the base64 model of a configuration; never reads a file of that name."""
    if isinstance(proto, str):
        try:
            return base64.b64decode(proto, validate=True)
        except ValueError:
            pass
    raise ValueError(
        "`proto` in a configuration must be a SentencePiece model in base64; only the constructor "
        f"takes the path of a file. Received: proto={proto!r:.80}"
    )


def graph_tokenizer(proto):
    """Returns tensorflow-text's tokenizer with the vocabulary of this model."""
    # Not FastSentencepieceTokenizer, whose ids differ for BPE models.
    tokenizer = tensorflow_text.SentencepieceTokenizer(proto, out_type=tf.int32)
    set_vocabulary(tokenizer, _Vocabulary(proto))
    return tokenizer


def texts_of(processor, num_sentinels, new, ids):
    """Returns the text of each id; control pieces and sentinels have none, unless they are among the `ids` of added
    tokens.
    """
    unknown = " \N{DOUBLE QUESTION MARK} "  # as SentencePiece has it
    texts = [
        "" if processor.is_control(i) else unknown if processor.is_unknown(i) else processor.id_to_piece(i)
        for i in range(processor.vocab_size())
    ]
    texts = [bytes([int(text[3:5], 16)]) if processor.is_byte(i) else text for i, text in enumerate(texts)]
    texts += [*[""] * num_sentinels, *new]
    for token, index in ids.items():
        texts[index] = token
    return texts


def join_pieces(ids, texts):
    """Joins the texts of ids, `tf.RaggedTensor` (B, n), to strings (B,)."""
    joined = clean_utf8(tf.strings.reduce_join(tf.gather(texts, ids), axis=-1))
    return tf.strings.regex_replace(tf.strings.regex_replace(joined, WORD_START, " "), "^ ", "")


class _Vocabulary(tf.saved_model.experimental.TrackableResource):
    """Vocabulary with a name of its own in the graph and in TensorFlow's memory.

    tensorflow-text names all vocabularies alike: of two in one SavedModel the first would be loaded twice, and
    `keras.utils.set_random_seed`, which renumbers resources, would leave none.
    """

    def __init__(self, proto):
        super().__init__()
        self._proto = proto
        self._content = "vocabulary_" + hashlib.sha256(proto).hexdigest()[:16]
        self.resource_handle  # created on first access  # noqa: B018

    def _create_resource(self):
        return vocabulary_handle(self._proto, self._content)
