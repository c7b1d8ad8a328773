"""SentencePiece as a layer, so that a served model takes and returns text."""

import base64
import hashlib
import os
import pathlib

import keras
import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text

from keras_headattn._private import accept_any_input, set_vocabulary, vocabulary_handle
from keras_headattn._validation import natural

STANDS_FOR_NUL = "\ufdd0"  # Unicode keeps it for use inside a program


@keras.saving.register_keras_serializable(package="keras_headattn")
class SentencePieceTokenizer(keras.layers.Layer):
    """Turns strings into ids and back, inside the TensorFlow graph.

    The whole vocabulary is part of the layer: it is saved in a model's `.keras` file and in its SavedModel,
    which then needs no other file. It does need the package tensorflow-text, which has the operations.

    Args:
        proto: a model made by `train_sentencepiece` (or another whose padding id is 0): its file's path (str
            or path), its bytes, or these in base64, as `get_config` holds them.
        sequence_length: int, length to which every batch is padded or cut; a sentence that is cut keeps its
            end symbol. Default `None`: the longest sentence of the batch.
        add_bos: bool, whether ids begin with the symbol that begins a sentence. Default False.
        add_eos: bool, whether ids end with the symbol that ends a sentence. Default True.
        lowercase: bool, whether text is lower-cased first; the model should be trained on such text. Default False.
        max_length: int, ids beyond which a sentence is cut; it keeps its end symbol. Unlike `sequence_length` it adds
            no padding. Default `None`: none is cut.
        num_sentinels: int, how many sentinels have the ids after those of the model, `<extra_id_0>` the last one: 100
            in T5, whose model has 32,000 pieces, no begin symbol, and the end symbol 1. They are no part of texts.
            Default 0.

    Call arguments:
        strings: string tensor (B,) or (B, 1), or a list of str.

    Returns:
        int32 tensor (B, n), padded with 0.

    Raises:
        FileNotFoundError: if `proto` names no file.
        ValueError: if `proto` is no SentencePiece model, lacks a special piece that is needed,
            `sequence_length` or `max_length` has no room for text, or `strings` has another shape.

    Source: Kudo & Richardson 2018, "SentencePiece: a simple and language independent subword tokenizer and
    detokenizer for neural text processing"; of sentinels Raffel et al. 2020, "Exploring the limits of transfer
    learning with a unified text-to-text Transformer".

    Example:

    ```python
    tokenizer = SentencePieceTokenizer("runs/vocabulary.model")
    ids = tokenizer(["two cats", "a dog sleeps"])  # (2, n)
    tokenizer.detokenize(ids)                      # ["two cats", "a dog sleeps"]
    t5 = SentencePieceTokenizer("t5-base/spiece.model", num_sentinels=100, max_length=512)
    t5.sentinel_id(0)                              # 32099
    ```
    """

    joins_pairs = False

    def __init__(
        self,
        proto,
        sequence_length=None,
        add_bos=False,
        add_eos=True,
        lowercase=False,
        max_length=None,
        num_sentinels=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._proto = _read_proto(proto)
        self.sequence_length = sequence_length
        self.add_bos = add_bos
        self.add_eos = add_eos
        self.lowercase = lowercase
        self.max_length = max_length
        self.num_sentinels = natural("num_sentinels", num_sentinels)
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=self._proto)
        self._check()
        # Not FastSentencepieceTokenizer, whose ids differ for BPE models.
        self._graph_tokenizer = tensorflow_text.SentencepieceTokenizer(self._proto, out_type=tf.int32)
        set_vocabulary(self._graph_tokenizer, _Vocabulary(self._proto))
        accept_any_input(self)  # strings are no floats
        self.supports_jit = False  # XLA has no strings

    def _check(self):
        needed = {"padding": 0 if self.pad_id == 0 else -1, "unknown": self.unk_id}
        needed |= {"begin of sentence": self.bos_id} if self.add_bos else {}
        needed |= {"end of sentence": self.eos_id} if self.add_eos else {}
        missing = [name for name, piece_id in needed.items() if piece_id < 0]
        if missing:
            raise ValueError(
                "The SentencePiece model needs a piece for each special symbol in use, padding as id 0; "
                f"train_sentencepiece makes such a model. Received: one without {', '.join(missing)}"
            )
        for name, length in (("sequence_length", self.sequence_length), ("max_length", self.max_length)):
            if length is not None and length <= self._num_special:
                raise ValueError(
                    f"`{name}` must leave room for text beside {self._num_special} special ids. "
                    f"Received: {name}={length}"
                )

    @property
    def _num_special(self):
        return int(self.add_bos) + int(self.add_eos)

    @property
    def _limit(self):
        """Pieces of a sentence that are kept: int, or `None` for all."""
        lengths = [length for length in (self.sequence_length, self.max_length) if length is not None]
        return min(lengths) - self._num_special if lengths else None

    @property
    def vocabulary_size(self):
        """int, number of pieces, sentinels included."""
        return self._processor.vocab_size() + self.num_sentinels

    @property
    def pad_id(self):
        """int, id of padding: 0."""
        return self._processor.pad_id()

    @property
    def unk_id(self):
        """int, id of whatever is not in the vocabulary."""
        return self._processor.unk_id()

    @property
    def bos_id(self):
        """int, id that begins a sentence; -1 if the model has none."""
        return self._processor.bos_id()

    @property
    def eos_id(self):
        """int, id that ends a sentence; -1 if the model has none."""
        return self._processor.eos_id()

    def id_to_token(self, piece_id):
        """Looks a piece up.

        Args:
            piece_id: int, from 0 to `vocabulary_size - 1`.

        Returns:
            The piece, a str.

        Raises:
            ValueError: for an id out of range.
        """
        if not 0 <= piece_id < self.vocabulary_size:
            raise ValueError(f"Ids are 0 to {self.vocabulary_size - 1}. Received: {piece_id}")
        if piece_id >= self._processor.vocab_size():
            return f"<extra_id_{self.vocabulary_size - 1 - piece_id}>"
        return self._processor.id_to_piece(int(piece_id))

    def sentinel_id(self, number):
        """The id of a sentinel.

        Args:
            number: int, from 0 to `num_sentinels - 1`, as in `<extra_id_0>`.

        Returns:
            int.

        Raises:
            ValueError: if there is no such sentinel.
        """
        if not 0 <= number < self.num_sentinels:
            raise ValueError(f"There are {self.num_sentinels} sentinels, counted from 0. Received: number={number}")
        return self.vocabulary_size - 1 - number

    def call(self, strings):
        strings = tf.convert_to_tensor(strings, tf.string)
        _check_shape(strings.shape)
        strings = tf.reshape(strings, [-1])
        if self.lowercase:
            strings = _lower(strings)
        ids = self._graph_tokenizer.tokenize(strings)
        ids = ids[:, : self._limit]
        column = tf.ones([tf.shape(strings)[0], 1], tf.int32)
        parts = [column * self.bos_id] * self.add_bos + [ids] + [column * self.eos_id] * self.add_eos
        return tf.concat(parts, axis=1).to_tensor(self.pad_id, shape=[None, self.sequence_length])

    def detokenize(self, ids):
        """Turns ids back into strings.

        Args:
            ids: integer tensor (B, n). Padding, begin symbols and sentinels are dropped, and everything from the first
                end symbol on.

        Returns:
            String tensor (B,).
        """
        ids = tf.cast(ids, tf.int32)
        ended = tf.cumsum(tf.cast(ids == self.eos_id, tf.int32), axis=1) > 0
        text = ~ended & (ids != self.pad_id) & (ids != self.bos_id) & (ids < self._processor.vocab_size())
        return self._graph_tokenizer.detokenize(tf.ragged.boolean_mask(ids, text))

    def encode(self, sentences):
        """Turns a list of sentences into ids outside the graph, unpadded, for data sets.

        Args:
            sentences: list of str.

        Returns:
            List of int32 arrays, the same ids that a call gives.
        """
        bos, eos = [self.bos_id] * self.add_bos, [self.eos_id] * self.add_eos
        sentences = list(sentences)
        if self.lowercase:
            sentences = _lower(tf.constant(sentences, tf.string)).numpy().tolist()
        return [np.array(bos + ids[: self._limit] + eos, "int32") for ids in self._processor.encode(sentences)]

    def compute_output_spec(self, strings):
        _check_shape(strings.shape)
        return keras.KerasTensor((strings.shape[0], self.sequence_length), "int32")

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.sequence_length)

    def get_config(self):
        return {
            **super().get_config(),
            "proto": base64.b64encode(self._proto).decode("ascii"),
            "sequence_length": self.sequence_length,
            "add_bos": self.add_bos,
            "add_eos": self.add_eos,
            "lowercase": self.lowercase,
            "max_length": self.max_length,
            "num_sentinels": self.num_sentinels,
        }


class _Vocabulary(tf.saved_model.experimental.TrackableResource):
    """The vocabulary under a name of its own in the graph and in TensorFlow's memory.

    tensorflow-text calls all vocabularies the same. Two in one SavedModel would be loaded as the first one twice, and
    `keras.utils.set_random_seed`, which makes TensorFlow number its resources anew, would leave none.
    """

    def __init__(self, proto):
        super().__init__()
        self._proto = proto
        self._content = "vocabulary_" + hashlib.sha256(proto).hexdigest()[:16]
        self.resource_handle  # made when first asked for  # noqa: B018

    def _create_resource(self):
        return vocabulary_handle(self._proto, self._content)


def _lower(strings):
    """Lower-case strings. TensorFlow's operation ends a string at a NUL, so another character stands for it there."""
    strings = tf.strings.regex_replace(strings, r"\x00", STANDS_FOR_NUL)
    return tf.strings.regex_replace(tf.strings.lower(strings, encoding="utf-8"), STANDS_FOR_NUL, "\0")


def _check_shape(shape):
    if len(shape) != 1 and tuple(shape[1:]) != (1,):
        raise ValueError(f"`strings` must be of shape (B,) or (B, 1). Received: strings of shape {tuple(shape)}")


def _read_proto(proto):
    if isinstance(proto, str) and not os.path.exists(proto):
        try:
            proto = base64.b64decode(proto, validate=True)
        except ValueError:  # also for what is not ASCII
            raise FileNotFoundError(f"No such SentencePiece model. Received: proto={proto[:80]!r}") from None
    if not isinstance(proto, bytes):
        proto = pathlib.Path(proto).read_bytes()
    try:
        sentencepiece.SentencePieceProcessor(model_proto=proto)
    except RuntimeError as error:
        raise ValueError(f"`proto` must be a SentencePiece model. Received: {len(proto)} bytes") from error
    return proto
